"""Reads the hand-written situations and premises, and fills the slots in their texts."""

import hashlib
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from data_scripts.clean.text import normalize_text
from data_scripts.errors import InputError
from data_scripts.schemas import NLI_LABELS

SITUATIONS = Path(__file__).with_name("situations.txt")
PREMISES = Path(__file__).with_name("premises.txt")
TITLE, INPUT, REPLY = "=", "?", "!"
LABEL_MARKERS = dict(zip("+~-", NLI_LABELS, strict=True))
MIN_PHRASINGS = 3
MIN_VALUES = 6

Filling = dict[str, str]  # slot -> value
_SLOT = re.compile(r"\{([^{}]*)\}")


def find_slots(text: str) -> list[str]:
    """The names of the slots in a text, in order."""
    return _SLOT.findall(text)


@dataclass(frozen=True)
class Block:
    """A `=` line and the lines after it: the text of the line, its location (file:line), and the texts by marker."""

    title: str
    location: str
    texts: dict[str, list[str]]

    @property
    def domain(self) -> str:
        """The part of a situation's title before the slash."""
        return self.title.partition("/")[0]


def read_content(path: Path, markers: Iterable[str]) -> tuple[list[Block], dict[str, list[str]]]:
    """Read a content file, whose first lines explain the format.

    Args:
        path: the file.
        markers: the one-character markers that may follow a `=` line.

    Returns:
        The blocks in order, and the values of each slot.

    Raises:
        InputError: the file is not UTF-8, a line does not follow the format, or a slot is not defined before its use or
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
        location = f"{path}:{number}"
        marker, text = line[:1], line[1:].strip()
        if not line.strip() or marker == "#":
            continue
        if marker == "{":
            name, values = _parse_slot(line, location)
            if name in slots:
                raise InputError(f"{location}: the slot {{{name}}} is defined twice; put its values on one line")
            slots[name] = values
            continue
        if marker not in (TITLE, *markers) or line[1:2] != " " or not text:
            raise InputError(
                f"{location}: {line!r}; expected a line that starts with one of # {{ = {' '.join(markers)}"
            )
        unknown = [name for name in find_slots(text) if name not in slots]
        if unknown:
            raise InputError(
                f"{location}: the slot {{{unknown[0]}}} is not defined above; add a line {{{unknown[0]}}} = ..."
            )
        if marker == TITLE:
            blocks.append(Block(text, location, {marker: [] for marker in markers}))
        elif not blocks:
            raise InputError(f"{location}: {line!r} follows no title; expected a line with = before it")
        else:
            blocks[-1].texts[marker].append(text)
    return blocks, slots


def _parse_slot(line: str, location: str) -> tuple[str, list[str]]:
    match = re.fullmatch(r"\{([^{}]+)\} = (.+)", line.strip())
    if not match:
        raise InputError(f"{location}: {line!r}; expected a slot, like {{city}} = Lisbon | Oslo | ...")
    values = [value.strip() for value in match[2].split("|")]
    if len(set(values)) < MIN_VALUES or len(set(values)) < len(values) or "" in values:
        raise InputError(f"{location}: {{{match[1]}}} needs {MIN_VALUES} or more values, all different, separated by |")
    return match[1], values


def read_situations(path: Path = SITUATIONS) -> tuple[list[Block], dict[str, list[str]]]:
    """Read the situations (inputs marked `?`, replies marked `!`) and the slots.

    Raises:
        InputError: as `read_content`; or a title without a domain, too few phrasings, a text that occurs twice.
    """
    blocks, slots = read_content(path, (INPUT, REPLY))
    seen: dict[str, str] = {}  # text -> location of its situation
    for block in blocks:
        if not re.fullmatch(r"[^/]+/[^/]+", block.title):
            raise InputError(f"{block.location}: {block.title!r}; expected a domain, a slash and a name")
        for marker, texts in block.texts.items():
            if len(texts) < MIN_PHRASINGS:
                raise InputError(
                    f"{block.location}: {block.title} has {len(texts)} lines with {marker}; "
                    f"write {MIN_PHRASINGS} or more"
                )
        for text in (block.title, *block.texts[INPUT], *block.texts[REPLY]):
            other = seen.get(normalize_text(text))
            if other:
                raise InputError(f"{block.location}: {text!r} is a repetition (see {other}); use other words")
            seen[normalize_text(text)] = block.location
    return blocks, slots


def read_premises(path: Path = PREMISES) -> tuple[list[Block], dict[str, list[str]]]:
    """Read the premises (as titles) with their hypotheses by marker, and the slots.

    Raises:
        InputError: as `read_content`; or a premise occurs twice, or its labels have different numbers of hypotheses.
    """
    blocks, slots = read_content(path, LABEL_MARKERS)
    seen: dict[str, str] = {}
    for block in blocks:
        counts = [len(texts) for texts in block.texts.values()]
        if not counts[0] or len(set(counts)) > 1:
            raise InputError(
                f"{block.location}: {counts[0]} lines with +, {counts[1]} with ~ and {counts[2]} with -; "
                "write the same number of each, one or more"
            )
        other = seen.setdefault(normalize_text(block.title), block.location)
        if other != block.location:
            raise InputError(f"{block.location}: {block.title!r} is a repetition (see {other}); join the two")
    return blocks, slots


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
