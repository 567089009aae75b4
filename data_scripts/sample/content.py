"""Reads the hand-written situations and premises, and fills the slots in their texts."""

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from data_scripts.schemas import NLI_LABELS

SITUATIONS = Path(__file__).with_name("situations.txt")
PREMISES = Path(__file__).with_name("premises.txt")
TITLE, INPUT, REPLY = "=", "?", "!"
LABEL_MARKERS = dict(zip("+~-", NLI_LABELS, strict=True))

Filling = dict[str, str]  # slot -> value
_SLOT = re.compile(r"\{([^{}]*)\}")


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
