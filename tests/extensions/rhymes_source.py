"""A source in one file outside of the package: rhymes, two lines separated by a tab, to Parquet.

python rhymes_source.py SOURCE --output FOLDER
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from data_scripts.public import Kind, Part
from data_scripts.schemas import text_fields
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import Rows
from modeling_convsim.files.texts import text_lines


def _read(source: str) -> dict[str, Rows]:
    """Every tenth rhyme is validation, the next one test."""
    lines = list(text_lines(Path(source)))
    parts = {"validation": lines[::10], "test": lines[1::10]}
    parts["train"] = [line for line in lines if line not in parts["validation"] + parts["test"]]
    return {name: ((location, {"line": line}) for location, line in part) for name, part in parts.items()}


def _rhymes(part: Part) -> Iterator[tuple[str, str]]:
    for location, row in part.rows:
        if row["line"].count("\t") != 1:
            raise InputError(f"{location}: expected two lines with one tab between")
        first, second = row["line"].split("\t")
        yield first, second


KIND = Kind(
    schema=pa.schema(text_fields("first", "second")),
    columns={},
    convert=_rhymes,
    content="rhyme",
    rows="rhymes",
    source_help="a text file",
    read_originals=_read,
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    KIND.add_arguments(parser)
    KIND.run(parser.parse_args())
