"""Read books as ordered sentences and write them as Parquet: book, paragraph, position, sentence.

SOURCE is a text file (.txt, compressed or not) or a folder of them: one sentence per line, a blank line between
paragraphs, and a line "=== NAME" before each book; sentences before the first such line form a book named after the
file. Or SOURCE is a table or a dataset on the Hub with a column sentence or text, one sentence per row, in order; a
blank row ends a paragraph. The columns book (or title) and paragraph, if they exist, name the book and the paragraph of
a sentence; otherwise each split is one book. Paragraphs and positions are numbered from 0 in each book.

Memory does not grow with the books. Zstandard's long windows (--long=27) are supported.

Example: python -m data_scripts books gutenberg.txt.zst -o data/books
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, split_file, write_dataset
from data_scripts.files.errors import InputError
from data_scripts.files.parquet import write_rows
from data_scripts.files.records import Rows, form_of
from data_scripts.files.rows import SOURCE_HELP, ColumnNames, read_rows
from data_scripts.files.texts import BrokenLines, text_lines
from data_scripts.schemas import BOOK_SCHEMA

COLUMN_NAMES: ColumnNames = {
    "book": ("book", "title"),
    "paragraph": ("paragraph",),
    "sentence": ("sentence", "text"),
}
BOOK = "=== "

Line = tuple[str, Any, str]  # book; paragraph or None; sentence, "" between paragraphs
Sentence = tuple[str, int, int, str]


def _text_lines(path: Path) -> Iterator[Line]:
    book = path.name.partition(".")[0]
    for _, line in text_lines(path):
        if line.startswith(BOOK):
            book = line.removeprefix(BOOK).strip()
        else:
            yield book, None, line.strip()


def _row_lines(rows: Rows, split: str) -> Iterator[Line]:
    for location, row in rows:
        if not isinstance(row["sentence"], str | None):
            raise InputError(f"{location}: sentence is {row['sentence']!r}; expected a text")
        book = split if row["book"] is None else str(row["book"])
        yield book, row["paragraph"], (row["sentence"] or "").strip()


def _sentences(lines: Iterator[Line], counts: Counter[str]) -> Iterator[Sentence]:
    """The sentences with their positions in their books; adds the books and paragraphs to `counts`."""
    book: str | None = None
    last: Any = None
    paragraph = position = 0
    begins = True
    for name, given, sentence in lines:
        if not sentence:
            begins = True
            continue
        if name != book:
            book, paragraph, position, begins = name, -1, 0, True
            counts["books"] += 1
        if begins or given != last:
            paragraph += 1
            counts["paragraphs"] += 1
        yield name, paragraph, position, sentence
        position += 1
        last, begins = given, False


def _read(source: str, broken: BrokenLines) -> dict[str, Iterator[Line]]:
    path = Path(source)
    files = [path] if path.is_file() else sorted(path.glob("*")) if path.is_dir() else []
    if texts := [file for file in files if form_of(file) == ".txt"]:
        return {"train": chain.from_iterable(map(_text_lines, texts))}
    rows = read_rows(source, COLUMN_NAMES, broken, optional=("book", "paragraph"))
    return {split: _row_lines(rows[split], split) for split in rows}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(parser, f"a .txt file or a folder of them, compressed or not; or {SOURCE_HELP}")


def run(args: argparse.Namespace) -> None:
    """Write the sentences as Parquet with report.json, and print the counts."""
    write_dataset(args, lambda folder, scratch, broken: _write(args.source, folder, broken))


def _write(source: str, folder: Path, broken: BrokenLines) -> Report:
    report: Report = {}
    for split, lines in _read(source, broken).items():
        counts: Counter[str] = Counter()
        sentences = _sentences(lines, counts)
        size = write_rows(sentences, BOOK_SCHEMA, split_file(folder, split), lambda row: len(row[0]) + len(row[3]))
        if not size:
            raise InputError(f"{source}, split {split}: contains no sentence")
        report[split] = {"from": source, **counts, "sentences": size}
    return report
