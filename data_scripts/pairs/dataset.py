"""Writes a dataset of pairs: split, sharded, masked and counted, with its card; pushes it to the Hub."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq

from data_scripts.clean.filters import phone_regions
from data_scripts.files.dataset_folders import FIRST_LINES, Report, format_table, write_report
from data_scripts.files.errors import InputError
from data_scripts.files.folders import digest_of, write_checksums
from data_scripts.files.hub import upload
from data_scripts.files.parquet import parquet_writer
from data_scripts.files.storage import is_url, move, storage_path
from data_scripts.pairs.card import draw_plots, write_pairs_card
from data_scripts.pairs.engines import materialize, stream_rows
from data_scripts.pairs.sorted_pairs import Counts, count_pairs, row_bytes
from data_scripts.pairs.spark import check_rows, map_sorted
from data_scripts.schemas import PAIR_SCHEMA, SPLITS

if TYPE_CHECKING:
    from data_scripts.pairs.masked_pairs import PairMasker

BATCH_ROWS = 100_000  # in a row group
SHARD_BYTES = 1 << 29  # of text, approximately; the Hub and `datasets` handle files of this size well
DICTIONARIES = ["thread", "source"]  # columns with repeated values
SORTED_WITHIN = [name for name in PAIR_SCHEMA.names if name != "thread"]  # a thread, as Spark sorts


def cap_repeats(pairs: ir.Table, most: int) -> ir.Table:
    """Keep at most `most` pairs with the same response, ignoring case (of a to z), punctuation and spaces.

    The first pairs by thread and text stay, which does not depend on the order of the files. Equal pairs in a thread,
    such as a reply that its author posted twice, are one pair.
    """
    upper, lower = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
    words = pairs.response.translate(upper, lower).re_replace(r"[^\p{L}\p{N}]+", "")
    key = ibis.ifelse(words == "", pairs.response, words)  # a response without letters and digits is its own key
    rank = ibis.dense_rank().over(ibis.window(group_by=key, order_by=["thread", "input", "response", "source"]))
    return pairs.mutate(rank=rank).filter(ibis._.rank < most).drop("rank")


def write_pairs(pairs: ir.Table, folder: Path, args: Any, report: Report, public_sources: bool = False) -> str:
    """Write the distinct pairs, sorted by thread, with report.json and a card.

    No file is written for a split without pairs, because `datasets` reads neither empty files nor empty row groups.

    Args:
        pairs: the columns of `schemas.PAIR_SCHEMA`. A pair that occurs twice in a thread is written once, even if its
            contexts differ: the first one in the order of their texts.
        folder: an empty folder.
        args: its attributes are the options of `options.add_output_arguments` and `filters.add_filter_arguments`.
        report: section -> the counts so far; this function adds the sections `pairs`, `splits`, `threads`, `characters`
            and, if personal data are masked, `masked`.
        public_sources: whether --mask may leave sources and names of files as they are (see `PairMasker`).

    Returns:
        The report as a text, which a command prints when the output is complete.

    Raises:
        InputError: no pair is left.
    """
    masker = _load_masker(phone_regions(args), public_sources) if args.mask else None
    pairs = pairs.select(PAIR_SCHEMA.names)
    if args.max_repeats:
        pairs = materialize(pairs, "pairs")  # used twice: its rows are also counted
    capped = cap_repeats(pairs, args.max_repeats) if args.max_repeats else pairs
    write = _write_on_spark if pairs.get_backend().name == "pyspark" else _write_here
    counts = write(capped, folder, args.split, masker)
    if not counts.pairs:
        raise InputError(f"no pair is left to write; these are the counts:\n{format_table(report)}")
    draw_plots(folder, counts)
    report["pairs"] = {"repeated in their thread": counts.read["repeated"]}
    if args.max_repeats:
        total = pairs.count().to_pyarrow().as_py()
        report["pairs"][f"response already in {args.max_repeats} pairs"] = total - counts.read["pairs"]
    report["pairs"]["written"] = counts.pairs
    report["splits"] = dict(counts.rows)
    report |= counts.sections()
    shown = []
    if masker:
        report["masked"] = dict(counts.masked)
        if broken := report.get(FIRST_LINES):
            shown = ["\n  ".join([f"{FIRST_LINES} (only shown here, because of --mask)", *broken])]
        masker.mask_report(report)
    write_report(report, folder)
    write_pairs_card(folder, args.license, report, counts)
    return "\n".join([*shown, format_table(report)])


def _load_masker(regions: tuple[str, ...], public_sources: bool, threads: int = 0) -> PairMasker:
    # Loading the library of phone numbers takes a while, and only --mask needs it.
    from data_scripts.pairs.masked_pairs import PairMasker

    return PairMasker(regions, public_sources, threads)


def _write_here(pairs: ir.Table, folder: Path, split: str, masker: PairMasker | None) -> Counts:
    tables = stream_rows(pairs.order_by("thread", *SORTED_WITHIN), "join and sort", BATCH_ROWS)
    with ThreadPoolExecutor(len(SPLITS)) as executor:
        writers = {name: SplitWriter(folder, name, executor) for name in SPLITS}
        counts = count_pairs(tables, {name: writer.add for name, writer in writers.items()}, split, masker)
        for writer in writers.values():
            writer.finish()
    return counts


def _write_on_spark(pairs: ir.Table, folder: Path, split: str, masker: PairMasker | None) -> Counts:
    """Let Spark's executors sort the pairs and write them; only counts reach this process."""
    rows = pairs.get_backend()._session.sql(ibis.to_sql(pairs, dialect="pyspark"))
    write = partial(write_part, folder=str(folder), split=split, regions=masker.regions if masker else None)
    return join_parts(map_sorted(rows, "thread", write, count_groups=masker is not None), folder)


Part = tuple[Counts, dict[str, tuple[str, str]]]  # the counts; split -> name and SHA-256 of its shard


def write_part(
    tables: Iterator[pa.Table], number: int, threads: int, folder: str, split: str, regions: tuple[str, ...] | None
) -> Part:
    """Write a shard for each split that has some of a part of the sorted pairs.

    Args:
        tables: pairs; their threads are in no other part.
        number: of the part.
        threads: the number of threads in the parts before it.
        folder: a path or URL.
        split: "thread" or "random".
        regions: the countries of --phone_regions; None without --mask.
    """
    masker = _load_masker(regions, True, threads) if regions is not None else None
    files = {name: storage_path(folder) / f"{name}-part-{number:05d}.parquet" for name in SPLITS}
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(parquet_writer(file, PAIR_SCHEMA, use_dictionary=DICTIONARIES)).add_table
            for name, file in files.items()
        }
        counts = count_pairs(tables, writers, split, masker)
    for name, file in files.items():
        if not counts.rows[name]:
            file.unlink()
    return counts, {name: (file.name, digest_of(file)) for name, file in files.items() if counts.rows[name]}


def join_parts(parts: list[Part], folder: Path) -> Counts:
    """Give the shards of `write_part` their final names, and write SHA256SUMS of them; returns all counts.

    Raises:
        InputError: rows are missing, because machines do not share the folder.
    """
    total, digests = Counts(), {}
    for counts, _ in parts:
        total.join(counts)
    check_rows([folder / name for _, shards in parts for name, _ in shards.values()], total.pairs, folder)
    for split in SPLITS:
        shards = [written[split] for _, written in parts if split in written]
        for number, (name, digest) in enumerate(shards):
            target = folder / shard_name(split, number, len(shards))
            digests[target.name] = digest
            move(folder / name, target) if is_url(folder) else (folder / name).rename(target)
    write_checksums(folder, digests, digests)
    return total


def shard_name(split: str, number: int, shards: int) -> str:
    """The name of a split's file, as `datasets` names it; `number` is below `shards`."""
    return f"{split}-{number:05d}-of-{shards:05d}.parquet"


class SplitWriter:
    """Gathers the rows of one split into row groups, and row groups into files of about `SHARD_BYTES` of text.

    Args:
        folder: where the files are written.
        split: the first part of their names.
        executor: writes files in a thread while the next rows are prepared.
    """

    def __init__(self, folder: Path, split: str, executor: Executor) -> None:
        self.folder, self.split, self.executor = folder, split, executor
        self.buffered = PAIR_SCHEMA.empty_table()
        self.files: list[Path] = []
        self.file: pq.ParquetWriter | None = None
        self.shard_bytes = 0
        self.writing: Future | None = None

    def add(self, table: pa.Table) -> None:
        """Add rows, and write all complete row groups, which do not depend on the size of the tables."""
        self.buffered = pa.concat_tables([self.buffered, table])
        while len(self.buffered) >= BATCH_ROWS:
            self._start(self.buffered.slice(0, BATCH_ROWS))
            self.buffered = self.buffered.slice(BATCH_ROWS)

    def _start(self, table: pa.Table) -> None:
        if self.writing:
            self.writing.result()
        self.writing = self.executor.submit(self._write, table)

    def _write(self, table: pa.Table) -> None:
        if self.file is None:
            self.files.append(self.folder / f"{self.split}-{len(self.files):05d}.parquet")
            self.file = pq.ParquetWriter(
                self.files[-1], PAIR_SCHEMA, compression="zstd", use_dictionary=DICTIONARIES, write_page_checksum=True
            )
        self.file.write_table(table.combine_chunks(), row_group_size=len(table))
        self.shard_bytes += int(row_bytes(table).sum())
        if self.shard_bytes >= SHARD_BYTES:
            self._close()

    def _close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self.shard_bytes = None, 0

    def finish(self) -> None:
        """Write the buffered rows, and rename the files, whose final names contain their number."""
        if len(self.buffered):
            self._start(self.buffered)
        if self.writing:
            self.writing.result()
        self._close()
        for number, file in enumerate(self.files):
            file.rename(self.folder / shard_name(self.split, number, len(self.files)))


def push(args: argparse.Namespace) -> None:
    """Publish the folder that was written, if --push_to_hub is given.

    Raises:
        InputError: the Hub rejects it; the folder stays.
    """
    if args.push_to_hub:
        command = f"hf upload {args.push_to_hub} {args.output} --repo-type dataset"
        address = upload(
            args.output,
            args.push_to_hub,
            failed=f"The pairs are in {args.output}; push them later with: {command}",
            repo_type="dataset",
            commit_message="Pairs of an input and a response",  # no name of a local folder
            delete_patterns="*.parquet",
        )
        print(f"published: {address}")
