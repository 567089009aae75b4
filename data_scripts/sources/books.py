"""Read books as ordered sentences and write them as Parquet: book, paragraph, position, sentence.

SOURCE is text (.txt, compressed or not), one sentence a line, a blank line between paragraphs and a line "=== NAME"
where a book begins; what stands before the first such line is a book named after the file. Of a folder every .txt file
is read. Or it is a table or a name on the Hub with a column sentence or text, each row one sentence in its order; a
blank row ends a paragraph. A column book (or title) says where books begin, and a column paragraph where paragraphs do;
without them a split is one book. Paragraphs and positions count from 0 in each book.

Memory does not grow with the books. Zstandard's long windows (--long=27) are read.

Example: python -m data_scripts books gutenberg.txt.zst -o data/books
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLines
from data_scripts.read.records import form_of
from data_scripts.write.corpora import (
    SOURCE_HELP,
    ColumnNames,
    Rows,
    add_broken_lines,
    add_corpus_arguments,
    corpus_folder,
    print_report,
    read_rows,
    split_file,
    text_lines,
    write_report,
    write_rows,
)

BOOK_SCHEMA = pa.schema(
    [("book", pa.string()), ("paragraph", pa.int32()), ("position", pa.int32()), ("sentence", pa.string())]
)
COLUMN_NAMES: ColumnNames = {
    "book": ("book", "title"),
    "paragraph": ("paragraph",),
    "sentence": ("sentence", "text"),
}
BOOK = "=== "

Line = tuple[str, Any, str]  # book; paragraph, where it is known; sentence, "" between paragraphs
Sentence = tuple[str, int, int, str]


def _text_lines(path: Path) -> Iterator[Line]:
    book = path.name.partition(".")[0]
    for _, line in text_lines(path):
        if line.startswith(BOOK):
            book = line.removeprefix(BOOK).strip()
        else:
            yield book, None, line.strip()


def _row_lines(rows: Rows, split: str) -> Iterator[Line]:
    for place, row in rows:
        if not isinstance(row["sentence"], str | None):
            raise InputError(f"{place}: sentence is {row['sentence']!r}; expected a text")
        book = split if row["book"] is None else str(row["book"])
        yield book, row["paragraph"], (row["sentence"] or "").strip()


def _sentences(lines: Iterator[Line], counts: Counter[str]) -> Iterator[Sentence]:
    """The sentences with their places in their books; counts books and paragraphs."""
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
    add_corpus_arguments(parser, f"a .txt file or a folder of them, compressed or not; or {SOURCE_HELP}")


def run(args: argparse.Namespace) -> None:
    """Write the sentences as Parquet with report.json, and print the counts."""
    broken, report = BrokenLines(), dict[str, Any]()
    with corpus_folder(args) as (folder, _):
        for split, lines in _read(args.source, broken).items():
            counts: Counter[str] = Counter()
            sentences = _sentences(lines, counts)
            size = write_rows(sentences, BOOK_SCHEMA, split_file(folder, split), lambda row: len(row[0]) + len(row[3]))
            if not size:
                raise InputError(f"{args.source}, split {split}: not one sentence")
            report[split] = {"from": args.source, **counts, "sentences": size}
        add_broken_lines(report, broken)
        write_report(report, folder)
    print_report(report, args.output)
