"""Writes a dataset of pairs: split, sharded, masked and counted, with its card; pushes it to the Hub."""

import argparse
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from data_scripts.clean.filters import phone_regions
from data_scripts.errors import InputError
from data_scripts.join.engines import materialize, stream_rows
from data_scripts.schemas import PAIR_SCHEMA, SPLITS
from data_scripts.write import shards
from data_scripts.write.card import write_pairs_card
from data_scripts.write.hub import upload
from data_scripts.write.plots import draw_plots
from data_scripts.write.report import FIRST_LINES, Report, format_table, write_report
from data_scripts.write.shards import SplitWriter
from data_scripts.write.splits import split_pairs
from data_scripts.write.statistics import PairStatistics

if TYPE_CHECKING:
    from data_scripts.write.masked_pairs import PairMasker


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


def write_pairs(
    pairs: ir.Table,
    folder: Path,
    scratch: Path,
    args: argparse.Namespace,
    report: Report,
    public_sources: bool = False,
) -> None:
    """Write the distinct pairs, sorted by thread, with report.json and a card; print the report.

    No file is written for a split without pairs, because `datasets` reads neither empty files nor empty row groups.

    Args:
        pairs: columns `input, response, thread, source`. A pair that occurs twice in a thread is written once.
        folder: an empty folder.
        scratch: a folder for temporary files.
        args: the options of `options.add_output_arguments` and `filters.add_filter_arguments`.
        report: section -> the counts so far; this function adds the sections `pairs`, `splits`, `threads`, `characters`
            and, if personal data are masked, `masked`.
        public_sources: whether --mask may leave sources and names of files as they are (see `PairMasker`).

    Raises:
        InputError: no pair is left.
    """
    pairs = pairs.select(PAIR_SCHEMA.names)
    if args.max_repeats:
        pairs = materialize(pairs, scratch, "pairs")  # used twice: its rows are also counted
    capped = cap_repeats(pairs, args.max_repeats) if args.max_repeats else pairs
    ordered = capped.order_by("thread", "input", "response", "source")
    distinct = _DistinctPairs(stream_rows(ordered, scratch, "join and sort", shards.BATCH_ROWS))
    statistics = PairStatistics()
    masker = _load_masker(args, public_sources) if args.mask else None
    with ThreadPoolExecutor(len(SPLITS)) as executor:
        writers = {split: SplitWriter(folder, split, executor) for split in SPLITS}
        _write_splits(distinct, writers, statistics, args.split, masker)
        if not statistics.pairs:
            raise InputError(f"no pair is left to write; these are the counts:\n{format_table(report)}")
        sections = statistics.finish()
        draw_plots(folder, statistics)  # while the last rows are written
        for writer in writers.values():
            writer.finish()
    report["pairs"] = {"repeated in their thread": distinct.repeated}
    if args.max_repeats:
        total = pairs.count().to_pyarrow().as_py()
        report["pairs"][f"response already in {args.max_repeats} pairs"] = total - distinct.read
    report["pairs"]["written"] = statistics.pairs
    report["splits"] = {split: writer.rows for split, writer in writers.items()}
    report |= sections
    if masker:
        report["masked"] = masker.counts
        if broken := report.get(FIRST_LINES):
            print("\n  ".join([f"{FIRST_LINES} (only shown here, because of --mask)", *broken]))
        masker.mask_report(report)
    write_report(report, folder)
    sizes = {split: (writer.rows, writer.bytes) for split, writer in writers.items() if writer.rows}
    write_pairs_card(folder, args.license, report, statistics, sizes)
    print(format_table(report))


def _write_splits(
    distinct: "_DistinctPairs",
    writers: dict[str, SplitWriter],
    statistics: PairStatistics,
    split: str,
    masker: "PairMasker | None",
) -> None:
    """Count the pairs, and pass each to the writer of its split, after `masker` if there is one."""
    for table, thread_starts, input_starts in distinct:
        split_indices = split_pairs(table, thread_starts, split)  # by the original threads and texts
        if masker:
            table = masker.mask(table, thread_starts)
        statistics.add(table, thread_starts, input_starts)
        for index, writer in enumerate(writers.values()):
            writer.add(table.filter(pa.array(split_indices == index)))


def _load_masker(args: argparse.Namespace, public_sources: bool) -> "PairMasker":
    # Loading the library of phone numbers takes a while, and only --mask needs it.
    from data_scripts.write.masked_pairs import PairMasker

    return PairMasker(phone_regions(args), public_sources)


class _DistinctPairs:
    """Iterates over tables of sorted pairs without repeated pairs, with flags where threads and inputs begin."""

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
                thread_starts = differs["thread"]
                input_starts = thread_starts | differs["input"]
                new = np.logical_or.reduce(list(differs.values()))
                if not new.all():
                    table = table.filter(pa.array(new))
                    thread_starts, input_starts = thread_starts[new], input_starts[new]
                    self.repeated += len(new) - len(table)
                if len(table):
                    yield table, thread_starts, input_starts


def _differs(column: pa.Array, last: str | None) -> np.ndarray:
    """Whether each value differs from the one before it, (rows,) bool; `last` precedes the first one."""
    differs = np.ones(len(column), bool)
    differs[:1] = column[0].as_py() != last
    differs[1:] = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
    return differs


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
            private=True,
            repo_type="dataset",
            commit_message="Pairs of an input and a response",  # no name of a local folder
            delete_patterns="*.parquet",
        )
        print(f"published: {address}")
