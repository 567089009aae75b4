"""Writes a dataset of pairs: split, sharded, masked and counted, with its card; pushes it to the Hub."""

import argparse
from collections.abc import Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from data_scripts.clean.filters import phone_regions
from data_scripts.files.dataset_folders import FIRST_LINES, Report, format_table, write_report
from data_scripts.files.errors import InputError
from data_scripts.files.hub import upload
from data_scripts.pairs import shards
from data_scripts.pairs.card import write_pairs_card
from data_scripts.pairs.distributed import write_parts
from data_scripts.pairs.engines import materialize, sorted_files, stream_rows
from data_scripts.pairs.plots import draw_plots
from data_scripts.pairs.shards import SplitWriter
from data_scripts.pairs.sorted_pairs import Counts, count_pairs
from data_scripts.schemas import PAIR_SCHEMA, SPLITS

if TYPE_CHECKING:
    from data_scripts.pairs.masked_pairs import PairMasker


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
    args: Any,
    report: Report,
    public_sources: bool = False,
    tasks: Executor | None = None,
) -> None:
    """Write the distinct pairs, sorted by thread, with report.json and a card; print the report.

    No file is written for a split without pairs, because `datasets` reads neither empty files nor empty row groups.

    Args:
        pairs: columns `input, response, thread, source`. A pair that occurs twice in a thread is written once.
        folder: an empty folder.
        scratch: a folder for temporary files.
        args: its attributes are the options of `options.add_output_arguments` and `filters.add_filter_arguments`.
        report: section -> the counts so far; this function adds the sections `pairs`, `splits`, `threads`, `characters`
            and, if personal data are masked, `masked`.
        public_sources: whether --mask may leave sources and names of files as they are (see `PairMasker`).
        tasks: runs functions on the executors of Spark, if that is the engine of `pairs`.

    Raises:
        InputError: no pair is left.
    """
    masker = _load_masker(args, public_sources) if args.mask else None
    pairs = pairs.select(PAIR_SCHEMA.names)
    if args.max_repeats:
        pairs = materialize(pairs, scratch, "pairs")  # used twice: its rows are also counted
    capped = cap_repeats(pairs, args.max_repeats) if args.max_repeats else pairs
    if tasks:
        files = sorted_files(capped, scratch, by="thread")
        counts = write_parts(files, folder, args.split, phone_regions(args) if args.mask else None, tasks)
    else:
        ordered = capped.order_by("thread", "input", "response", "source")
        counts = _write_shards(stream_rows(ordered, "join and sort", shards.BATCH_ROWS), folder, args, masker)
    statistics = counts.statistics
    if not statistics.pairs:
        raise InputError(f"no pair is left to write; these are the counts:\n{format_table(report)}")
    sections = statistics.finish()
    draw_plots(folder, statistics)
    report["pairs"] = {"repeated in their thread": counts.repeated}
    if args.max_repeats:
        total = pairs.count().to_pyarrow().as_py()
        report["pairs"][f"response already in {args.max_repeats} pairs"] = total - counts.read
    report["pairs"]["written"] = statistics.pairs
    report["splits"] = {split: rows for split, (rows, _) in counts.splits.items()}
    report |= sections
    if masker:
        report["masked"] = counts.masked
        if broken := report.get(FIRST_LINES):
            print("\n  ".join([f"{FIRST_LINES} (only shown here, because of --mask)", *broken]))
        masker.mask_report(report)
    write_report(report, folder)
    sizes = {split: (rows, size) for split, (rows, size) in counts.splits.items() if rows}
    write_pairs_card(folder, args.license, report, statistics, sizes)
    print(format_table(report))


def _write_shards(tables: Iterable[pa.Table], folder: Path, args: Any, masker: "PairMasker | None") -> Counts:
    with ThreadPoolExecutor(len(SPLITS)) as executor:
        writers = {split: SplitWriter(folder, split, executor) for split in SPLITS}
        counts = count_pairs(tables, {split: writer.add for split, writer in writers.items()}, args.split, masker)
        for writer in writers.values():
            writer.finish()
    return counts


def _load_masker(args: Any, public_sources: bool) -> "PairMasker":
    # Loading the library of phone numbers takes a while, and only --mask needs it.
    from data_scripts.pairs.masked_pairs import PairMasker

    return PairMasker(phone_regions(args), public_sources)


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
