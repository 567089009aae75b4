"""Writes a dataset of pairs: split, sharded, masked and counted, with its card; pushes it to the Hub."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from data_scripts.dataset_folders import FIRST_LINES, Report, format_table, write_report
from data_scripts.pairs.card import write_pairs_card
from data_scripts.pairs.engines import materialize, stream_rows
from data_scripts.pairs.options import PairOptions, phone_regions
from data_scripts.pairs.sorted_pairs import Counts, count_pairs
from data_scripts.pairs.spark import SHARED, map_sorted
from data_scripts.schemas import PAIR_SCHEMA, SPLITS
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import upload
from modeling_convsim.files.parquet import BatchWriter, parquet_writer
from modeling_convsim.files.storage import storage_path

if TYPE_CHECKING:
    from data_scripts.pairs.masked_pairs import PairMasker

SHARD_ROWS = 1 << 20  # of a file; the Hub and `datasets` handle files of a few hundred MB well
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


def write_pairs(
    pairs: ir.Table, folder: Path, options: PairOptions, report: Report, public_sources: bool = False
) -> str:
    """Write the distinct pairs, sorted by thread, with report.json and a card.

    No file is written for a split without pairs, because `datasets` reads neither empty files nor empty row groups.

    Args:
        pairs: the columns of `schemas.PAIR_SCHEMA`. A pair that occurs twice in a thread is written once, even if its
            contexts differ: the first one in the order of their texts.
        folder: an empty folder.
        options: how they are split, masked and limited, and the license.
        report: section -> the counts so far; this function adds the sections `pairs`, `splits`, `threads`, `characters`
            and, if personal data are masked, `masked`.
        public_sources: whether --mask may leave sources and names of files as they are (see `PairMasker`).

    Returns:
        The report as a text, which a command prints when the output is complete.

    Raises:
        InputError: no pairs are left.
    """
    masking = (phone_regions(options), public_sources) if options.mask else None
    pairs = pairs.select(PAIR_SCHEMA.names)
    if options.max_repeats:
        pairs = materialize(pairs, "pairs")  # used twice: its rows are also counted
    capped = cap_repeats(pairs, options.max_repeats) if options.max_repeats else pairs
    write = partial(write_part, str(folder), options.split, masking)
    if pairs.get_backend().name == "pyspark":  # executors sort the pairs and write them; only counts reach this process
        rows = pairs.get_backend()._session.sql(ibis.to_sql(capped, dialect="pyspark"))
        parts = map_sorted(rows, write, count_threads=options.mask)
    else:
        parts = [write(stream_rows(capped.order_by("thread", *SORTED_WITHIN)), 0, 0)]
    counts = join_parts(parts, folder)
    if not counts.pairs:
        raise InputError(f"no pairs are left to write; the counts are:\n{format_table(report)}")
    report["pairs"] = {"repeated in their thread": counts.read["repeated"]}
    if options.max_repeats:
        total = pairs.count().to_pyarrow().as_py()
        report["pairs"][f"response already in {options.max_repeats} pairs"] = total - counts.read["pairs"]
    report["pairs"]["written"] = counts.pairs
    report["splits"] = dict(counts.rows)
    report |= counts.sections()
    shown = []
    if masking:
        report["masked"] = dict(counts.masked)
        if broken := report.get(FIRST_LINES):
            shown = ["\n  ".join([f"{FIRST_LINES} (only shown here, because of --mask)", *broken])]
        _load_masker(*masking).mask_report(report)
    write_report(report, folder)
    write_pairs_card(folder, options.license, report, counts)
    return "\n".join([*shown, format_table(report)])


def _load_masker(regions: tuple[str, ...], public_sources: bool, threads: int = 0) -> PairMasker:
    # Loading the library of phone numbers takes a while, and only --mask needs it.
    from data_scripts.pairs.masked_pairs import PairMasker

    return PairMasker(regions, public_sources, threads)


Part = tuple[Counts, dict[str, list[str]]]  # the counts; split -> names of its files


def write_part(
    folder: str,
    split: str,
    masking: tuple[tuple[str, ...], bool] | None,
    tables: Iterable[pa.Table],
    number: int,
    threads: int,
) -> Part:
    """Write a part of the sorted pairs: files of about `SHARD_ROWS` pairs for each split that has some.

    Args:
        folder: a path or URL.
        split: "thread" or "random".
        masking: with --mask, the countries of --phone_regions, and whether sources are public.
        tables: pairs; their threads are in no other part.
        number: of the part.
        threads: the number of threads in the parts before it.
    """
    counts, files = Counts(), {name: list[str]() for name in SPLITS}
    writers: dict[str, tuple[ExitStack, BatchWriter]] = {}

    def write(table: pa.Table, splits: np.ndarray) -> None:
        for index, name in enumerate(SPLITS):
            rows = table.filter(pa.array(splits == index))
            if not len(rows):
                continue
            if name in writers and writers[name][1].added >= SHARD_ROWS:
                writers.pop(name)[0].close()
            if name not in writers:
                files[name].append(f"{name}-part-{number:05d}-{len(files[name]):05d}.parquet")
                file = stack.enter_context(ExitStack())
                options = parquet_writer(storage_path(folder) / files[name][-1], PAIR_SCHEMA, "zstd", DICTIONARIES)
                writers[name] = file, file.enter_context(options)
            writers[name][1].add_table(rows)

    masker = _load_masker(*masking, threads) if masking else None
    with ExitStack() as stack, ThreadPoolExecutor(1) as executor:  # writes while the next pairs are prepared
        writing: Future | None = None
        for table, splits in count_pairs(tables, counts, split, masker):
            if writing:
                writing.result()
            writing = executor.submit(write, table, splits)
        if writing:
            writing.result()
    return counts, files


def join_parts(parts: list[Part], folder: Path) -> Counts:
    """Give the files of `write_part` the names by which `datasets` knows the splits; returns all counts.

    Raises:
        InputError: a file is missing, because machines do not share the folder.
    """
    total = Counts()
    for counts, _ in parts:
        total.join(counts)
    for split in SPLITS:
        names = [name for _, files in parts for name in files[split]]
        for number, name in enumerate(names):
            try:
                (folder / name).rename(folder / f"{split}-{number:05d}-of-{len(names):05d}.parquet")
            except FileNotFoundError as error:
                raise InputError(f"--engine spark: {folder / name} is missing; {SHARED}") from error
    return total


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
            delete_patterns=[f"{split}-[0-9]*-of-[0-9]*.parquet" for split in SPLITS],  # of an earlier push
        )
        print(f"published: {address}")
