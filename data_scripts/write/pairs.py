"""The folder of pairs that a command leaves: split, sharded, masked, counted, with its card."""

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.join.engines import batches, keep
from data_scripts.join.pairs import PAIR_SCHEMA
from data_scripts.read.files import BrokenLines
from data_scripts.write.card import PairStatistics, draw_plots, write_card
from data_scripts.write.hub import check_license, check_repository_id, upload

TEST_PERCENT, VALIDATION_PERCENT = 10, 1
SPLITS = ("train", "validation", "test")
_POWERS_OF_256 = np.array([pow(256, 31 - place, 100) for place in range(32)])  # modulo 100, the first byte's first
BATCH_ROWS = 100_000
OFFSET_BYTES = 4  # of a text in memory, beside its own bytes
SHARD_BYTES = 1 << 29  # of text, about: files of a size that the Hub and `datasets` handle well


def add_output_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """The options of every command that writes a folder of pairs; `check_output` looks at them."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--output", "-o", type=Path, required=required, metavar="FOLDER", help="where the pairs are written"
    )
    group.add_argument(
        "--split",
        choices=("thread", "random"),
        default="thread",
        help="thread: whole threads go to train (89 %%), validation (1 %%) or test (10 %%), so that no conversation is "
        "on two sides (default); random: single pairs do, as in the paper",
    )
    group.add_argument("--overwrite", action="store_true", help="replace a folder of pairs that is there already")
    group.add_argument(
        "--license",
        metavar="ID",
        help="the data's licence for the card, as the Hub spells it (such as cc-by-4.0, or other); needed to push",
    )
    group.add_argument(
        "--push_to_hub", metavar="OWNER/NAME", help="publish the folder as this data set; made private if it is new"
    )


def check_output(args: argparse.Namespace) -> None:
    """Refuse what cannot end well, before anything is read.

    Raises:
        InputError: a name that no repository can have, a licence that is none, or a push without one.
    """
    if args.license is not None:
        check_license("--license", args.license)
    if args.push_to_hub:
        check_repository_id(args.push_to_hub)
        if not args.license:
            raise InputError(
                "--push_to_hub: name the data's licence with --license ID (as the Hub spells it, such as cc-by-4.0): "
                "who gets the data must know what they may do with it"
            )


def splits_of(keys: list[str]) -> np.ndarray:
    """The splits of threads' names (or of pairs' texts), places in `SPLITS`: a hash decides, so that they stay.

    SHA-256 modulo 100: 0 to 9 is test, 10 validation, the rest train.
    """
    digests = b"".join(hashlib.sha256(key.encode()).digest() for key in keys)
    percent = np.frombuffer(digests, np.uint8).reshape(-1, 32) @ _POWERS_OF_256 % 100
    return np.where(percent < TEST_PERCENT, 2, np.where(percent < TEST_PERCENT + VALIDATION_PERCENT, 1, 0))


def start_report(command: str, files: list[str], settings: dict[str, Any], broken: BrokenLines) -> dict[str, Any]:
    """The report's first sections: what was asked for, and the lines that could not be read."""
    report: dict[str, Any] = {"settings": {"command": command, **settings, "files": files}}
    report["lines left out"] = dict(broken.counts)
    report["first lines left out"] = broken.examples
    return report


def report_table(report: dict[str, Any]) -> str:
    """A report as it is printed."""
    lines = []
    for section, content in report.items():
        if content:
            lines.append(section)
        if isinstance(content, list):
            lines += [f"  {line}" for line in content]
            continue
        for name, value in content.items():
            shown = ", ".join(value) if isinstance(value, list) else f"{value:,}" if isinstance(value, int) else value
            lines.append(f"  {name:<40} {shown:>12}")
    return "\n".join(lines)


class _Shards:
    """The files of one split: rows gather to row groups, row groups to files of about `SHARD_BYTES` of text.

    Files are written by `writer`, in a thread, while the next rows come.
    """

    def __init__(self, folder: Path, split: str, writer: Executor) -> None:
        self.folder, self.split, self.writer = folder, split, writer
        self.held: list[pa.Table] = []
        self.rows = self.held_rows = self.bytes = self.shard_bytes = 0
        self.files: list[Path] = []
        self.file: pq.ParquetWriter | None = None
        self.writing: Future | None = None

    def add(self, table: pa.Table) -> None:
        self.held.append(table)
        self.held_rows += len(table)
        while self.held_rows >= BATCH_ROWS:  # whatever came at a time: the files are the same for every engine
            held = pa.concat_tables(self.held)
            self._start(held.slice(0, BATCH_ROWS))
            self.held, self.held_rows = [held.slice(BATCH_ROWS)], len(held) - BATCH_ROWS

    def _start(self, table: pa.Table) -> None:
        self._wait()
        self.writing = self.writer.submit(self._write, table)

    def _wait(self) -> None:
        if self.writing:
            self.writing.result()

    def _write(self, table: pa.Table) -> None:
        if self.file is None:
            self.files.append(self.folder / f"{self.split}-{len(self.files):05d}.parquet")
            self.file = pq.ParquetWriter(
                self.files[-1], PAIR_SCHEMA, compression="zstd", use_dictionary=["thread", "source"]
            )
        self.file.write_table(table.combine_chunks(), row_group_size=len(table))
        texts = sum(pc.sum(pc.binary_length(column)).as_py() for column in table.columns)
        size = texts + OFFSET_BYTES * table.num_columns * len(table)
        self.rows += len(table)
        self.bytes += size
        self.shard_bytes += size
        if self.shard_bytes >= SHARD_BYTES:
            self._close()

    def _close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self.shard_bytes = None, 0

    def finish(self) -> None:
        """Write what is held; the files get their last names, which say how many there are."""
        if self.held_rows:
            self._start(pa.concat_tables(self.held))
        self._wait()
        self._close()
        for number, file in enumerate(self.files):
            file.rename(self.folder / f"{self.split}-{number:05d}-of-{len(self.files):05d}.parquet")


class _Distinct:
    """Tables of sorted pairs without those that equal the one before; with each, where threads and inputs begin."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        self.tables = tables
        self.read = self.repeated = 0

    def __iter__(self) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        last: dict[str, Any] = {}
        with tqdm(unit="pair", unit_scale=True, desc="write") as bar:
            for table in self.tables:
                table = table.cast(PAIR_SCHEMA)
                differs = {name: _differs(table[name].combine_chunks(), last.get(name)) for name in PAIR_SCHEMA.names}
                last = table.slice(len(table) - 1).to_pylist()[0]
                bar.update(len(table))
                self.read += len(table)
                thread = differs["thread"]
                new, same_input = np.logical_or.reduce(list(differs.values())), thread | differs["input"]
                if not new.all():
                    table, thread, same_input = table.filter(pa.array(new)), thread[new], same_input[new]
                    self.repeated += len(new) - len(table)
                if len(table):
                    yield table, thread, same_input


def _differs(column: pa.Array, last: str | None) -> np.ndarray:
    """Whether each value differs from the one before, (rows,) bool; before the first comes `last`."""
    differs = np.ones(len(column), bool)
    differs[:1] = column[0].as_py() != last
    differs[1:] = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
    return differs


def cap_repeats(pairs: ir.Table, most: int) -> ir.Table:
    """At most `most` pairs of each response, case (of a to z), punctuation and spaces apart.

    Those that are kept are the first by thread and text, so that they do not depend on the order of the files.
    """
    upper, lower = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
    words = pairs.response.translate(upper, lower).re_replace(r"[^\p{L}\p{N}]+", "")
    key = ibis.ifelse(words == "", pairs.response, words)  # a response of signs only is itself
    place = ibis.row_number().over(ibis.window(group_by=key, order_by=["thread", "input", "response", "source"]))
    return pairs.mutate(place=place).filter(ibis._.place < most).drop("place")


def write_pairs(pairs: ir.Table, folder: Path, scratch: Path, args: argparse.Namespace, report: dict[str, Any]) -> None:
    """Write the distinct pairs, sorted by thread, with report.json and a card; print the report.

    A split without a pair gets no file, for `datasets` reads neither empty files nor empty row groups.

    Args:
        pairs: columns `input, response, thread, source`. The same pair twice in a thread is written once.
        folder: an empty folder.
        scratch: a folder for files that are not kept.
        args: the options of `add_output_arguments` and `filters.add_filter_arguments`.
        report: section -> what was counted so far; this adds the sections `pairs`, `splits`, `threads`, `characters`
            and, where personal data are masked, `masked`.

    Raises:
        InputError: no pair is left.
    """
    pairs = pairs.select(PAIR_SCHEMA.names)
    if args.max_repeats:
        pairs = keep(pairs, scratch, "pairs")  # to be counted, too
    capped = cap_repeats(pairs, args.max_repeats) if args.max_repeats else pairs
    ordered = capped.order_by("thread", "input", "response", "source")
    rows = _Distinct(batches(ordered, scratch, "join and sort", BATCH_ROWS))
    statistics = PairStatistics()
    masked: dict[str, int] = {}
    with ThreadPoolExecutor(len(SPLITS)) as writer:
        shards = {name: _Shards(folder, name, writer) for name in SPLITS}
        for table, thread_starts, input_starts in rows:
            statistics.add(table, thread_starts, input_starts)
            parts = _splits(table, thread_starts, args.split)
            if args.mask:
                table = _mask(table, masked)
            for place, files in enumerate(shards.values()):
                files.add(table.filter(pa.array(parts == place)))
        if not statistics.pairs:
            raise InputError(f"no pair is left to write; what was counted:\n{report_table(report)}")
        counted = statistics.sections()
        draw_plots(folder, statistics)  # while the last rows are written
        for files in shards.values():
            files.finish()
    report["pairs"] = {"repeated in their thread": rows.repeated}
    if args.max_repeats:
        total = pairs.count().to_pyarrow().as_py()
        report["pairs"][f"response held by {args.max_repeats} others already"] = total - rows.read
    report["pairs"]["written"] = statistics.pairs
    report["splits"] = {name: files.rows for name, files in shards.items()}
    report |= counted
    if args.mask:
        report["masked"] = masked
    (folder / "report.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    sizes = {name: (files.rows, files.bytes) for name, files in shards.items() if files.rows}
    write_card(folder, args.license, report, statistics, sizes)
    print(report_table(report))


def _splits(table: pa.Table, thread_starts: np.ndarray, split: str) -> np.ndarray:
    """The split of each pair of a sorted table: (rows,) places in `SPLITS`."""
    if split == "random":
        keys = pc.binary_join_element_wise(table["input"], table["response"], "\t")
        return splits_of(keys.to_pylist())
    starts = thread_starts.copy()
    starts[:1] = True  # the thread of the table before may go on
    keys = table["thread"].filter(pa.array(starts)).to_pylist()
    return splits_of(keys)[np.cumsum(starts) - 1]


def _mask(table: pa.Table, counts: dict[str, int]) -> pa.Table:
    from data_scripts.clean.text import mask  # its libraries take a while

    for name in ("input", "response"):
        texts, found = mask(table[name].combine_chunks())
        table = table.set_column(table.column_names.index(name), table.schema.field(name), texts)
        for kind, number in found.items():
            counts[kind] = counts.get(kind, 0) + number
    return table


def push(args: argparse.Namespace) -> None:
    """Publish the folder written, where that was asked for.

    Raises:
        InputError: the Hub does not take it; the folder stays.
    """
    if args.push_to_hub:
        command = f"hf upload {args.push_to_hub} {args.output} --repo-type dataset"
        address = upload(
            args.output,
            args.push_to_hub,
            failed=f"The pairs are in {args.output}; push them later with: {command}",
            private=True,
            repo_type="dataset",
            commit_message=f"Pairs of {args.output.resolve().name}",
            delete_patterns="*.parquet",
        )
        print(f"published: {address}")
