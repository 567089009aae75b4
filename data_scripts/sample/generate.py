"""Build the sample corpus from the hand-written situations and premises that lie beside this file.

Everything is filled in by hashes, not by chance: every run writes the same bytes.

Pairs. Each situation (`situations.txt`) has several phrasings of an input and of its reply, and slots such as
{city}. A filling gives every slot a value; situation and filling are the thread.
  test, validation  the last input with the last reply, for three quarters and one quarter of the situations, with a
                    filling of which train has no value in this situation; two such pairs where the input names all
                    that the reply does (the city asked about, say)
  train             all inputs crossed with all replies, with up to 6 fillings; never the last reply where it has no
                    slot; never the last input in a third of the other situations
So no reply of a held-out pair is ever trained on: its words are new (about a quarter), its values and the words of the
input are new (about a quarter), or its values alone (about half). Among the held-out replies of a split one is right
for a situation, or one for each of two different questions.

NLI. Each premise (`premises.txt`) with its hypotheses and up to 10 fillings; a premise with all its fillings is
in one split. The three labels are equally frequent.

STS. The last input of each situation beside another sentence. The score is 5 for another phrasing with the same
filling, 3 for another phrasing with another value in every slot, 1 for an input of another situation of the domain, 0
for one of another domain. No situation is in two splits. The corpus has none of STS-B's genres.
"""

import argparse
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict, Features

from data_scripts.errors import InputError
from data_scripts.join.pairs import PAIR_FEATURES
from data_scripts.read.files import new_folder
from data_scripts.sources.nli import LABELS, NLI_FEATURES
from data_scripts.sources.stsb import STSB_FEATURES
from data_scripts.tools.leakage import normalise
from data_scripts.write.corpora import write_splits

SITUATIONS = Path(__file__).with_name("situations.txt")
PREMISES = Path(__file__).with_name("premises.txt")
TITLE, INPUT, REPLY = "=", "?", "!"
LABEL_MARKERS = dict(zip("+~-", LABELS, strict=True))
MIN_PHRASINGS = 3
MIN_VALUES = 6
HELD_OUT_FILLINGS = 2
TRAIN_FILLINGS = 6
PREMISE_FILLINGS = 10
SPLITS = ("train", "validation", "test")
CARD = """---
license: apache-2.0
language: en
configs:
- config_name: default
  data_files:
  - {split: train, path: "train-*.parquet"}
  - {split: validation, path: "validation-*.parquet"}
  - {split: test, path: "test-*.parquet"}
- config_name: nli
  data_files:
  - {split: train, path: "nli/train-*.parquet"}
  - {split: validation, path: "nli/validation-*.parquet"}
  - {split: test, path: "nli/test-*.parquet"}
- config_name: sts
  data_files:
  - {split: train, path: "sts/train-*.parquet"}
  - {split: validation, path: "sts/validation-*.parquet"}
  - {split: test, path: "sts/test-*.parquet"}
---
# The sample corpus of convsim

Made by `python -m data_scripts sample` from hand-written situations and premises: pairs of an input and its response
(`default`), inference (`nli`) and graded similarity (`sts`). Small and made up: good for trying the project out, not
for judging a model.
"""

Filling = dict[str, str]  # slot -> value
_SLOT = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Block:
    """What stands under one `=` line: the line's text, where it is (file:line), and the texts by their marker."""

    title: str
    place: str
    texts: dict[str, list[str]]

    @property
    def domain(self) -> str:
        """What stands before the slash of a situation's title."""
        return self.title.partition("/")[0]


def read_content(path: Path, markers: Iterable[str]) -> tuple[list[Block], dict[str, list[str]]]:
    """Read a content file; its format is told at its top.

    Args:
        path: the file.
        markers: the one-character markers that may stand under a `=` line.

    Returns:
        The blocks in their order, and the values of each slot.

    Raises:
        InputError: not UTF-8, a line that is none of the format's, a slot that is not defined before or
            has fewer than 6 values.
    """
    markers = tuple(markers)
    blocks: list[Block] = []
    slots: dict[str, list[str]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    for number, line in enumerate(lines, start=1):
        place = f"{path}:{number}"
        marker, text = line[:1], line[1:].strip()
        if not line.strip() or marker == "#":
            continue
        if marker == "{":
            name, values = _slot(line, place)
            if name in slots:
                raise InputError(f"{place}: the slot {{{name}}} is defined twice; put its values on one line")
            slots[name] = values
            continue
        if marker not in (TITLE, *markers) or line[1:2] != " " or not text:
            raise InputError(f"{place}: {line!r}; expected a line that starts with one of # {{ = {' '.join(markers)}")
        unknown = [name for name in _SLOT.findall(text) if name not in slots]
        if unknown:
            raise InputError(
                f"{place}: the slot {{{unknown[0]}}} is not defined above; add a line {{{unknown[0]}}} = ..."
            )
        if marker == TITLE:
            blocks.append(Block(text, place, {marker: [] for marker in markers}))
        elif not blocks:
            raise InputError(f"{place}: {line!r} stands under nothing; expected a line with = before it")
        else:
            blocks[-1].texts[marker].append(text)
    return blocks, slots


def _slot(line: str, place: str) -> tuple[str, list[str]]:
    match = re.fullmatch(r"\{([^{}]+)\} = (.+)", line.strip())
    if not match:
        raise InputError(f"{place}: {line!r}; expected a slot, like {{city}} = Lisbon | Oslo | ...")
    values = [value.strip() for value in match[2].split("|")]
    if len(set(values)) < MIN_VALUES or len(set(values)) < len(values) or "" in values:
        raise InputError(
            f"{place}: {{{match[1]}}} needs {MIN_VALUES} or more values, all different, with | between them"
        )
    return match[1], values


def read_situations(path: Path = SITUATIONS) -> tuple[list[Block], dict[str, list[str]]]:
    """The situations (inputs under `?`, replies under `!`) and the slots.

    Raises:
        InputError: as `read_content`; or a title without a domain, too few phrasings, a text that occurs twice.
    """
    blocks, slots = read_content(path, (INPUT, REPLY))
    seen: dict[str, str] = {}  # text -> place of its situation
    for block in blocks:
        if not re.fullmatch(r"[^/]+/[^/]+", block.title):
            raise InputError(f"{block.place}: {block.title!r}; expected a domain, a slash and a name")
        for marker, texts in block.texts.items():
            if len(texts) < MIN_PHRASINGS:
                raise InputError(
                    f"{block.place}: {block.title} has {len(texts)} lines with {marker}; write {MIN_PHRASINGS} or more"
                )
        for text in (block.title, *block.texts[INPUT], *block.texts[REPLY]):
            other = seen.get(normalise(text))
            if other:
                raise InputError(f"{block.place}: {text!r} was there before (see {other}); say it in other words")
            seen[normalise(text)] = block.place
    return blocks, slots


def read_premises(path: Path = PREMISES) -> tuple[list[Block], dict[str, list[str]]]:
    """The premises (as titles) with their hypotheses by marker, and the slots.

    Raises:
        InputError: as `read_content`; or a premise that occurs twice, or has not as many hypotheses of each label.
    """
    blocks, slots = read_content(path, LABEL_MARKERS)
    seen: dict[str, str] = {}
    for block in blocks:
        counts = [len(texts) for texts in block.texts.values()]
        if not counts[0] or len(set(counts)) > 1:
            raise InputError(
                f"{block.place}: {counts[0]} lines with +, {counts[1]} with ~ and {counts[2]} with -; "
                "write as many of each, one or more"
            )
        other = seen.setdefault(normalise(block.title), block.place)
        if other != block.place:
            raise InputError(f"{block.place}: {block.title!r} was there before (see {other}); join the two")
    return blocks, slots


def _hash(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("\t".join(parts).encode()).digest())


def fill(text: str, filling: Filling) -> str:
    """Put the filling's values into the text's slots; the first letter becomes a capital."""
    text = _SLOT.sub(lambda match: filling[match[1]], text)
    return text[0].upper() + text[1:]


def fillings(block: Block, slots: dict[str, list[str]]) -> list[Filling]:
    """All ways to fill a block's slots, in an order that a hash decides; one empty filling where it has no slot."""
    texts = [block.title, *itertools.chain.from_iterable(block.texts.values())]
    names = list(dict.fromkeys(itertools.chain.from_iterable(_SLOT.findall(text) for text in texts)))
    ways = (dict(zip(names, values, strict=True)) for values in itertools.product(*(slots[name] for name in names)))
    return sorted(ways, key=lambda way: _hash(block.title, *way.values()))


def make_pairs(blocks: list[Block], slots: dict[str, list[str]]) -> DatasetDict:
    """The pairs of all situations, split as the module's docstring tells."""
    rows: dict[str, dict[tuple[str, str], str]] = {split: {} for split in SPLITS}  # (input, response) -> thread
    for block in blocks:
        ways = fillings(block, slots)
        inputs, replies = block.texts[INPUT], block.texts[REPLY]
        asked, told = set(_SLOT.findall(inputs[-1])), set(_SLOT.findall(replies[-1]))
        held_out = ways[: HELD_OUT_FILLINGS if told and told <= asked else 1]
        split = "validation" if _hash("pairs", block.title) % 4 == 0 else "test"
        for way in held_out:
            rows[split][fill(inputs[-1], way), fill(replies[-1], way)] = _thread(block, way) + " (held out)"
        if not told:
            replies = replies[:-1]
        elif _hash("input", block.title) % 3 == 0:
            inputs = inputs[:-1]
        if told:
            new = [{way[name] for way in held_out} for name in ways[0]]
            ways = [
                way for way in ways if not any(value in held for value, held in zip(way.values(), new, strict=True))
            ]
        for way in ways[:TRAIN_FILLINGS]:
            for said, reply in itertools.product(inputs, replies):
                rows["train"].setdefault((fill(said, way), fill(reply, way)), _thread(block, way))
    return _datasets(
        {split: [(*pair, thread, "sample") for pair, thread in found.items()] for split, found in rows.items()},
        PAIR_FEATURES,
    )


def _thread(block: Block, filling: Filling) -> str:
    return ": ".join([block.title, ", ".join(filling.values())] if filling else [block.title])


def make_nli(blocks: list[Block], slots: dict[str, list[str]]) -> DatasetDict:
    """The premises with their hypotheses; of the premises' hashes 2 in 10 go to test, 1 in 10 to validation."""
    rows: dict[str, list[tuple[Any, ...]]] = {split: [] for split in SPLITS}
    for block in blocks:
        ways = {fill(block.title, way): way for way in fillings(block, slots)}
        split = _split("nli", block.title, validation=1)
        for premise, way in itertools.islice(ways.items(), PREMISE_FILLINGS):
            for marker, hypotheses in block.texts.items():
                label = LABELS.index(LABEL_MARKERS[marker])
                rows[split] += [(premise, fill(hypothesis, way), label) for hypothesis in hypotheses]
    return _datasets(rows, NLI_FEATURES)


def make_sts(blocks: list[Block], slots: dict[str, list[str]]) -> DatasetDict:
    """The graded pairs of sentences; of the situations' hashes 2 in 10 go to test, 2 in 10 to validation."""
    rows: dict[str, list[tuple[Any, ...]]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        members = [block for block in blocks if _split("sts", block.title, validation=2) == split]
        for block in members:
            ways = fillings(block, slots)
            sentence = fill(block.texts[INPUT][-1], ways[0])
            rows[split] += [(sentence, other, score, None) for other, score in _graded(block, ways, members, slots)]
    return _datasets(rows, STSB_FEATURES)


def _graded(
    block: Block, ways: list[Filling], members: list[Block], slots: dict[str, list[str]]
) -> Iterator[tuple[str, float]]:
    """The sentences to put beside the last input of `block`, with their scores; `members`: the split's situations."""
    yield fill(block.texts[INPUT][0], ways[0]), 5.0
    second = block.texts[INPUT][1]
    named = set(_SLOT.findall(second))
    if named and named == set(_SLOT.findall(block.texts[INPUT][-1])):
        yield fill(second, next(way for way in ways if all(way[name] != ways[0][name] for name in named))), 3.0
    near = [other for other in members if other.domain == block.domain and other is not block]
    far = [other for other in members if other.domain != block.domain]
    for others, score in ((near, 1.0), (far, 0.0)):
        if others:
            other = min(others, key=lambda other: _hash(block.title, other.title))
            yield fill(other.texts[INPUT][0], fillings(other, slots)[0]), score


def _split(part: str, title: str, validation: int) -> str:
    tenth = _hash(part, title) % 10
    return "test" if tenth < 2 else "validation" if tenth < 2 + validation else "train"


def _datasets(rows: dict[str, list[tuple[Any, ...]]], features: Features) -> DatasetDict:
    return DatasetDict(
        {
            split: Dataset.from_dict(dict(zip(features, map(list, zip(*found, strict=True)), strict=True)), features)
            for split, found in rows.items()
        }
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where the pairs are written, with nli and sts as folders inside, such as data/sample; a folder that this "
        "command wrote before is replaced by the same files",
    )


def run(args: argparse.Namespace) -> None:
    """Write the sample corpus and print what it holds."""
    situations, slots = read_situations()
    premises, premise_slots = read_premises()
    pairs = make_pairs(situations, slots)
    parts = {"nli": make_nli(premises, premise_slots), "sts": make_sts(situations, slots)}
    report = {
        "situations": len(situations),
        "domains": len({block.domain for block in situations}),
        "premises": len(premises),
        "pairs": dict(pairs.num_rows),
        "distinct held-out replies": {name: len(set(pairs[name]["response"])) for name in SPLITS[1:]},
    } | {name: dict(splits.num_rows) for name, splits in parts.items()}
    with new_folder(args.output, overwrite=True) as (folder, _):
        write_splits(pairs, report, folder)
        for name, splits in parts.items():
            (folder / name).mkdir()
            write_splits(splits, {"rows": dict(splits.num_rows)}, folder / name)
        (folder / "README.md").write_text(CARD, encoding="utf-8")
    print(json.dumps(report, indent=2))
