"""Generates the sample dataset of this project from hand-written situations and premises.

Hashes replace random choices, so that each run writes the same bytes.

Pairs. Each situation (`situations.txt`) has several phrasings of an input and of its reply, and slots such as {city}. A
filling assigns a value to each slot. A thread is a situation with a filling.
  test, validation  the last input with the last reply, for three quarters and one quarter of the situations, with a
                    filling none of whose values train has in this situation; two such pairs if the input names
                    everything that the reply names (such as the city in the question)
  train             all inputs with all replies, with up to 6 fillings; never the last reply if it has no slot; never
                    the last input in a third of the other situations
So train has no reply of a held-out pair: the words of the reply are new (about a quarter), its values and the words of
the input are new (about a quarter), or only its values are new (about half). Among the held-out replies of a split, one
is right for each input.

NLI. Each premise (`premises.txt`) with its hypotheses and up to 10 fillings; a premise with all its fillings is
in one split. The three labels are equally frequent.

STS. The last input of each situation with another sentence. The score is 5 for another phrasing with the same filling,
3 for another phrasing with another value in every slot, 1 for an input of another situation of the domain, 0 for one of
another domain. No situation is in two splits. The sample has none of STS-B's genres.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from data_scripts.schemas import NLI_LABELS, NLI_SCHEMA, PAIR_TEXTS, SPLITS, STSB_SCHEMA, features, text_fields

if TYPE_CHECKING:
    from datasets import DatasetDict

SITUATIONS = Path(__file__).with_name("situations.txt")
PREMISES = Path(__file__).with_name("premises.txt")
TITLE, INPUT, REPLY = "=", "?", "!"
LABEL_MARKERS = dict(zip("+~-", NLI_LABELS, strict=True))

Filling = dict[str, str]  # slot -> value
_SLOT = re.compile(r"\{([^{}]*)\}")
HELD_OUT_FILLINGS = 2
TRAIN_FILLINGS = 6
PREMISE_FILLINGS = 10


def find_slots(text: str) -> list[str]:
    """The names of the slots in a text, in order."""
    return _SLOT.findall(text)


@dataclass(frozen=True)
class Block:
    """A `=` line and the lines after it: the text of the line, and the texts by marker."""

    title: str
    texts: dict[str, list[str]]

    @property
    def domain(self) -> str:
        """The part of a situation's title before the slash."""
        return self.title.partition("/")[0]


def read_content(path: Path, markers: Iterable[str]) -> tuple[list[Block], dict[str, list[str]]]:
    """Read a content file, whose first lines explain the format; tests check that it follows it.

    Args:
        path: the file.
        markers: the one-character markers that may follow a `=` line.

    Returns:
        The blocks in order, and the values of each slot.
    """
    blocks: list[Block] = []
    slots: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        marker, text = line[:1], line[1:].strip()
        if marker == "{":
            name, values = line[1:].split("} = ")
            slots[name] = [value.strip() for value in values.split("|")]
        elif marker == TITLE:
            blocks.append(Block(text, {marker: [] for marker in markers}))
        elif text and marker != "#":
            blocks[-1].texts[marker].append(text)
    return blocks, slots


def read_situations() -> tuple[list[Block], dict[str, list[str]]]:
    """The situations (inputs marked `?`, replies marked `!`) and the slots."""
    return read_content(SITUATIONS, (INPUT, REPLY))


def read_premises() -> tuple[list[Block], dict[str, list[str]]]:
    """The premises (as titles) with their hypotheses by marker, and the slots."""
    return read_content(PREMISES, LABEL_MARKERS)


def content_hash(*parts: str) -> int:
    """A hash of some texts, which replaces random choices."""
    return int.from_bytes(hashlib.sha256("\t".join(parts).encode()).digest())


def fill(text: str, filling: Filling) -> str:
    """Replace the text's slots by the filling's values, and capitalize the first letter."""
    text = _SLOT.sub(lambda match: filling[match[1]], text)
    return text[0].upper() + text[1:]


def fillings(block: Block, slots: dict[str, list[str]]) -> list[Filling]:
    """All ways to fill a block's slots, in an order given by a hash; one empty filling if it has no slot."""
    texts = [block.title, *itertools.chain.from_iterable(block.texts.values())]
    names = list(dict.fromkeys(itertools.chain.from_iterable(find_slots(text) for text in texts)))
    ways = (dict(zip(names, values, strict=True)) for values in itertools.product(*(slots[name] for name in names)))
    return sorted(ways, key=lambda way: content_hash(block.title, *way.values()))


def make_pairs(blocks: list[Block], slots: dict[str, list[str]]) -> DatasetDict:
    """The pairs of all situations, split as the module's docstring describes."""
    rows: dict[str, dict[tuple[str, str], str]] = {split: {} for split in SPLITS}  # (input, response) -> thread
    for block in blocks:
        ways = fillings(block, slots)
        inputs, replies = block.texts[INPUT], block.texts[REPLY]
        input_slots, reply_slots = set(find_slots(inputs[-1])), set(find_slots(replies[-1]))
        held_out = ways[: HELD_OUT_FILLINGS if reply_slots and reply_slots <= input_slots else 1]
        split = "validation" if content_hash("pairs", block.title) % 4 == 0 else "test"
        for way in held_out:
            rows[split][fill(inputs[-1], way), fill(replies[-1], way)] = _thread(block, way) + " (held out)"
        if not reply_slots:
            replies = replies[:-1]
        elif content_hash("input", block.title) % 3 == 0:
            inputs = inputs[:-1]
        if reply_slots:
            held_out_values = [{way[name] for way in held_out} for name in ways[0]]
            ways = [
                way
                for way in ways
                if not any(value in held for value, held in zip(way.values(), held_out_values, strict=True))
            ]
        for way in ways[:TRAIN_FILLINGS]:
            for input, reply in itertools.product(inputs, replies):
                rows["train"].setdefault((fill(input, way), fill(reply, way)), _thread(block, way))
    return _datasets(
        {split: [(*pair, thread, "sample") for pair, thread in pairs.items()] for split, pairs in rows.items()},
        pa.schema(text_fields(*PAIR_TEXTS)),
    )


def _thread(block: Block, filling: Filling) -> str:
    return ": ".join([block.title, ", ".join(filling.values())] if filling else [block.title])


def make_nli(blocks: list[Block], slots: dict[str, list[str]]) -> DatasetDict:
    """The premises with their hypotheses; by a hash, 2 in 10 premises go to test and 1 in 10 to validation."""
    rows: dict[str, list[tuple[Any, ...]]] = {split: [] for split in SPLITS}
    for block in blocks:
        ways = {fill(block.title, way): way for way in fillings(block, slots)}
        split = _split("nli", block.title, validation=1)
        for premise, way in itertools.islice(ways.items(), PREMISE_FILLINGS):
            for marker, hypotheses in block.texts.items():
                label = NLI_LABELS.index(LABEL_MARKERS[marker])
                rows[split] += [(premise, fill(hypothesis, way), label) for hypothesis in hypotheses]
    return _datasets(rows, NLI_SCHEMA)


def make_sts(blocks: list[Block], slots: dict[str, list[str]]) -> DatasetDict:
    """The graded pairs of sentences; by a hash, 2 in 10 situations go to test and 2 in 10 to validation."""
    rows: dict[str, list[tuple[Any, ...]]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        members = [block for block in blocks if _split("sts", block.title, validation=2) == split]
        for block in members:
            ways = fillings(block, slots)
            sentence = fill(block.texts[INPUT][-1], ways[0])
            rows[split] += [(sentence, other, score, None) for other, score in _graded(block, ways, members, slots)]
    return _datasets(rows, STSB_SCHEMA)


def _graded(
    block: Block, ways: list[Filling], members: list[Block], slots: dict[str, list[str]]
) -> Iterator[tuple[str, float]]:
    """The sentences to compare with the last input of `block`, and their scores; `members` are the split's blocks."""
    yield fill(block.texts[INPUT][0], ways[0]), 5.0
    second = block.texts[INPUT][1]
    slots_named = set(find_slots(second))
    if slots_named and slots_named == set(find_slots(block.texts[INPUT][-1])):
        yield fill(second, next(way for way in ways if all(way[name] != ways[0][name] for name in slots_named))), 3.0
    near = [other for other in members if other.domain == block.domain and other is not block]
    far = [other for other in members if other.domain != block.domain]
    for others, score in ((near, 1.0), (far, 0.0)):
        if others:
            other = min(others, key=lambda other: content_hash(block.title, other.title))
            yield fill(other.texts[INPUT][0], fillings(other, slots)[0]), score


def _split(part: str, title: str, validation: int) -> str:
    tenth = content_hash(part, title) % 10
    return "test" if tenth < 2 else "validation" if tenth < 2 + validation else "train"


def _datasets(rows: dict[str, list[tuple[Any, ...]]], schema: pa.Schema) -> DatasetDict:
    from datasets import Dataset, DatasetDict

    columns = {split: map(list, zip(*part, strict=True)) for split, part in rows.items()}
    return DatasetDict(
        {
            split: Dataset.from_dict(dict(zip(schema.names, values, strict=True)), features(schema))
            for split, values in columns.items()
        }
    )
