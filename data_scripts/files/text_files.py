"""Finds and reads the text files of a public dataset: by name, plain or compressed, as UTF-8 lines."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from data_scripts.files.errors import InputError
from data_scripts.files.lines import UNPACK, BrokenLineError, decode, read_lines

TEXT_FORMS = (".csv", ".jsonl", ".txt", ".en", ".relevancy")

_SPLIT = re.compile(r"(?<![a-z])(train|dev|validation|valid|val|test)(?:set|ing)?(_(?:mis)?matched)?(?![a-z])", re.I)
_SPLIT_NAMES = {"train": "train", "test": "test"}  # the others are validation


def find_file(folder: Path, *names: str) -> Path | None:
    """The first of `names` that is in `folder`, plain or compressed (.bz2, .zst, .xz, .gz)."""
    candidates = (folder / f"{name}{suffix}" for name in names for suffix in ("", *UNPACK))
    return next((path for path in candidates if path.is_file()), None)


def text_lines(path: Path, forms: tuple[str, ...] = TEXT_FORMS) -> Iterator[tuple[str, str]]:
    r"""(file:line, text) of each line of a UTF-8 file, plain or compressed, without \n or \r\n.

    `forms` are the suffixes that the file may have.

    Raises:
        InputError: a line is not UTF-8, or the file cannot be read to its end.
    """
    return decoded_lines(read_lines(path, forms))


def decoded_lines(lines: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, str]]:
    r"""The texts of lines that may end in \r, with their locations.

    Raises:
        InputError: a line is not UTF-8.
    """
    for location, line in lines:
        try:
            yield location, decode(line.removesuffix(b"\r"))
        except BrokenLineError as error:
            raise InputError(
                f"{location}: {error.args[0]} ({error.args[1]}): convert the file to UTF-8 first"
            ) from error


def split_from_name(name: str) -> str:
    """The split in the name of a file: train, validation (also `_matched`, `_mismatched`) or test; train if none is."""
    match = _SPLIT.search(name)
    return _SPLIT_NAMES.get(match[1].lower(), "validation") + (match[2] or "").lower() if match else "train"


def names_split(name: str) -> bool:
    """Whether the name of a file contains a split."""
    return _SPLIT.search(name) is not None


def split_from_value(value: object) -> str | None:
    """The split that a value of a column names, such as val; None if it names none."""
    name = str(value).lower()
    if name == "restval":  # of Karpathy's splits of COCO: images of the validation set that may be trained on
        return "train"
    return split_from_name(name) if _SPLIT.fullmatch(name) else None
