"""Read books as ordered sentences and write them as Parquet: book, paragraph, position, sentence.

SOURCE is a text file (.txt, compressed or not) or a folder of them: one sentence per line, a blank line between
paragraphs, and a line "=== NAME" before each book; sentences before the first such line form a book named after the
file. Or SOURCE is a table or a dataset on the Hub with a column sentence or text, one sentence per row, in order; a
blank row ends a paragraph. The columns book (or title) and paragraph, if they exist, name the book and the paragraph of
a sentence; otherwise each split is one book. Paragraphs and positions are numbered from 0 in each book.

Memory use does not depend on the size of the books. Zstandard's long windows (--long=27) are supported.

Example: convsim data books gutenberg.txt.zst -o data/books
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from data_scripts.public import Kind, Part
from data_scripts.rows import SOURCE_HELP
from data_scripts.schemas import BOOK_SCHEMA
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import Rows, form_of
from modeling_convsim.files.texts import text_lines

BOOK = "=== "


def _read_texts(source: str) -> dict[str, Rows]:
    path = Path(source)
    files = [path] if path.is_file() else sorted(path.glob("*")) if path.is_dir() else []
    texts = [file for file in files if form_of(file) == ".txt"]
    return {"train": chain.from_iterable(map(_text_rows, texts))} if texts else {}


def _text_rows(path: Path) -> Rows:
    book = path.name.partition(".")[0]
    for location, line in text_lines(path):
        if line.startswith(BOOK):
            book = line.removeprefix(BOOK).strip()
        else:
            yield location, {"book": book, "paragraph": None, "sentence": line}


def _sentences(part: Part) -> Iterator[tuple[str, int, int, str]]:
    """The sentences with their positions in their books."""
    book: str | None = None
    last: Any = None
    paragraph = position = 0
    begins = True
    for location, row in part.rows:
        if not isinstance(row["sentence"], str | None):
            raise InputError(f"{location}: sentence is {row['sentence']!r}; expected a text")
        name = part.name if row["book"] is None else str(row["book"])
        sentence = (row["sentence"] or "").strip()
        if not sentence:
            begins = True
            continue
        if name != book:
            book, paragraph, position, begins = name, -1, 0, True
            part.counts["books"] += 1
        if begins or row["paragraph"] != last:
            paragraph += 1
            part.counts["paragraphs"] += 1
        yield name, paragraph, position, sentence
        position += 1
        last, begins = row["paragraph"], False


KIND = Kind(
    schema=BOOK_SCHEMA,
    columns={"book": ("book", "title"), "paragraph": ("paragraph",), "sentence": ("sentence", "text")},
    convert=_sentences,
    content="sentence",
    rows="sentences",
    optional=("book", "paragraph"),
    source_help=f"a .txt file or a folder of them, compressed or not; or {SOURCE_HELP}",
    read_originals=_read_texts,
)
add_arguments, run = KIND.add_arguments, KIND.run
