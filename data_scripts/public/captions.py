"""Read captions of images and write them as Parquet, one row per image: group (the image), captions.

SOURCE is one of
  parallel files  a folder with NAME.1.en, NAME.2.en ... (plain or compressed): line i of each describes image i; NAME
                  is the split (train, val, test_2016)
  COCO            captions_train2017.json, or a folder of such files
  a table         a file, a folder or a dataset on the Hub (for example nlphuji/flickr30k@refs/convert/parquet) with a
                  column captions, caption or sentences: a list of texts, one row per image; or one text per row, in any
                  order, with a column group, image_id, img_id, imgid, filename or file_name that identifies its image
  pairs           a table with the columns caption1 and caption2 (sentence-transformers/coco-captions): a row whose
                  first caption is the second one of the row before describes the same image
Empty captions and repeated captions of an image are left out and counted. Captions are grouped in up to 1 GiB of
memory; the rest spills to disk, next to OUTPUT.

Examples: python -m data_scripts captions multi30k -o data/multi30k
          python -m data_scripts captions sentence-transformers/coco-captions -o data/coco
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, load_written, split_file, write_dataset
from data_scripts.files.datasets import split_from_name
from data_scripts.files.errors import InputError
from data_scripts.files.json_values import read_document
from data_scripts.files.parquet import parquet_writer
from data_scripts.files.records import Rows
from data_scripts.files.rows import SOURCE_HELP, ColumnNames, read_rows
from data_scripts.files.texts import BrokenLines, TextFile, text_lines
from data_scripts.schemas import CAPTION_SCHEMA

if TYPE_CHECKING:
    from datasets import DatasetDict


READ_SCHEMA = pa.schema([("group", pa.string()), ("caption", pa.string()), ("row", pa.int64())])
COLUMN_NAMES: ColumnNames = {
    "group": ("group", "image_id", "img_id", "imgid", "filename", "file_name"),
    "captions": ("captions", "caption", "sentences", "caption1"),
    "partner": ("caption2",),
}
OPTIONAL = ("group", "partner")
EMPTY, REPEATED, SINGLE = "empty, left out", "repeated for their image, left out", "images with one caption"
_PARALLEL = re.compile(r"(.+)\.(\d+)\.en(?:\.(?:gz|xz|bz2|zst))?")
_COCO = re.compile(r"captions_.+\.json")

Caption = tuple[str, str]  # image, text


def _parallel_captions(name: str, files: list[Path]) -> Iterator[Caption]:
    for number, lines in enumerate(zip_longest(*map(text_lines, files)), start=1):
        if None in lines:
            short = files[lines.index(None)]
            raise InputError(f"{short}: {number - 1} lines, fewer than the other {name}.*; expected one line per image")
        for _, caption in lines:
            yield f"{name}:{number}", caption


def _coco_captions(path: Path) -> Iterator[Caption]:
    number = 0
    annotations = read_document(TextFile.read(path), [("annotations", frozenset())]).get("annotations", ())
    for number, annotation in enumerate(annotations, start=1):
        yield _coco_caption(annotation, f"{path}: annotation {number}")
    if not number:
        raise InputError(
            f'{path}: contains no caption; expected {{"annotations": [{{"image_id": …, "caption": …}}, …]}}'
        )


def _coco_caption(annotation: Any, location: str) -> Caption:
    image, caption = (
        annotation.get(name) if isinstance(annotation, dict) else None for name in ("image_id", "caption")
    )
    if not isinstance(caption, str) or not isinstance(image, str | int):
        raise InputError(f"{location} has no image_id and caption: {annotation}")
    try:
        (str(image) + caption).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{location} is not UTF-8 (half of a surrogate pair); correct it or leave it out") from error
    return str(image), caption


def _row_captions(rows: Rows) -> Iterator[Caption]:
    chain = _PairChain()
    for location, row in rows:
        image, captions = row["group"], row["captions"]
        if row["partner"] is not None and image is None:
            yield from chain.add(location, captions, row["partner"])
            continue
        if isinstance(captions, str):
            if image is None:
                expected = ", ".join(COLUMN_NAMES["group"])
                raise InputError(
                    f"{location}: one caption, and no column that identifies its image; expected {expected}"
                )
            captions = [captions]
        if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
            raise InputError(f"{location}: captions are {captions!r}; expected a text or a list of texts")
        for caption in captions:
            yield location if image is None else str(image), caption


class _PairChain:
    """Finds the images of pairs of captions without a name of their image, of which each image has consecutive rows.

    The pairs of an image are a cycle: its first and second caption, the second and third, …, the last and first. Images
    with the same caption stay separate, unlike in connected components: "A man surfs a wave" would join hundreds.
    """

    def __init__(self) -> None:
        self._image = self._last = ""
        self._captions: set[str] = set()

    def add(self, location: str, first: Any, second: Any) -> Iterator[Caption]:
        """The captions of the next pair that are new for its image."""
        if not isinstance(first, str) or not isinstance(second, str):
            raise InputError(f"{location}: caption1 and caption2 must be texts; found {first!r} and {second!r}")
        if first != self._last:
            self._image, self._captions = location, set()
        self._last = second
        for caption in (first, second):
            if caption not in self._captions:
                self._captions.add(caption)
                yield self._image, caption


def _read(source: str, broken: BrokenLines, cached: bool) -> dict[str, Iterator[Caption]]:
    path = Path(source)
    parts: dict[str, Iterator[Caption]] = {}
    files = [path] if path.is_file() else sorted(path.glob("*")) if path.is_dir() else []
    parallel: dict[str, list[Path]] = {}
    for file in files:
        if match := _PARALLEL.fullmatch(file.name):
            parallel.setdefault(match[1], []).append(file)
    for name, parallel_files in parallel.items():
        split = split_from_name(name)
        parts[split] = chain(parts.get(split, ()), _parallel_captions(name, parallel_files))
    if not parts:
        for file in files:
            if _COCO.fullmatch(file.name):
                split = split_from_name(file.name)
                parts[split] = chain(parts.get(split, ()), _coco_captions(file))
    if not parts:
        rows = read_rows(source, COLUMN_NAMES, broken, optional=OPTIONAL, cached=cached)
        parts = {split: _row_captions(rows[split]) for split in rows}
    return parts


def _write(captions: Iterator[Caption], path: Path, scratch: Path, source: str) -> dict[str, int]:
    """Group captions by image, and write a row per image in the order of their first captions; returns the counts."""
    import ibis

    read, number = scratch / f"{path.name}.read", 0
    with parquet_writer(read, READ_SCHEMA) as writer:
        for number, (image, caption) in enumerate(captions, start=1):
            if text := caption.strip():
                writer.add((image, text, number), len(image) + len(text))
    size, empty = writer.added, number - writer.added
    if not size:
        raise InputError(f"{source}: contains no caption")
    database = ibis.duckdb.connect(temp_directory=str(scratch), memory_limit="1GiB")
    table = database.read_parquet(read, hive_partitioning=False)
    distinct = table.group_by("group", "caption").agg(row=table.row.min())
    images = distinct.group_by("group").agg(captions=distinct.caption.collect(order_by="row"), row=distinct.row.min())
    images.order_by("row").drop("row").to_parquet(path)
    lengths = database.read_parquet(path, hive_partitioning=False).captions.length()
    total = [lengths.count(), lengths.sum(), (lengths == 1).sum()]
    images_written, written, single = (value.to_pyarrow().as_py() for value in total)
    database.disconnect()
    return {
        "images": images_written,
        "captions": written,
        SINGLE: single,
        REPEATED: size - written,
        EMPTY: empty,
    }


def load_captions(source: str) -> DatasetDict:
    """Load the output of the command, or a dataset on the Hub as the command reads it: group, captions.

    The captions of a dataset on the Hub are held in memory.

    Raises:
        InputError: there is nothing to read, or a column is missing.
    """
    return load_written(source, tuple(CAPTION_SCHEMA.names), partial(_write_splits, source, cached=True))


def one_caption_a_row(images: pa.Table) -> pa.Table:
    """The captions of images (columns group and captions), one a row: columns group and caption."""
    parents = pc.list_parent_indices(images["captions"])
    columns = {"group": images["group"].take(parents), "caption": pc.list_flatten(images["captions"])}
    return pa.table(columns)


def _write_splits(source: str, folder: Path, scratch: Path, broken: BrokenLines, cached: bool = False) -> Report:
    report: Report = {}
    for split, captions in _read(source, broken, cached).items():
        counts = _write(captions, split_file(folder, split), scratch, f"{source}, split {split}")
        report[split] = {"from": source, **counts}
    return report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(parser, f"a folder of parallel files; COCO's JSON; or {SOURCE_HELP}")


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts."""
    write_dataset(args, partial(_write_splits, args.source))
