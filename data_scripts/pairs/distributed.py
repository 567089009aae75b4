"""Splits, counts, masks and writes pairs in tasks on Spark's executors; only counts reach the driver.

The pairs come in files that are sorted and hold whole threads. The task of a file writes a shard for each split.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack
from itertools import accumulate, repeat
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data_scripts.files.folders import digest_of, write_checksums
from data_scripts.files.parquet import parquet_writer
from data_scripts.files.storage import is_url, move, readable
from data_scripts.pairs.shards import BATCH_ROWS, shard_name
from data_scripts.pairs.sorted_pairs import Counts, count_pairs
from data_scripts.pairs.spark import check_rows
from data_scripts.schemas import PAIR_SCHEMA, SPLITS


def write_parts(
    files: list[Path], folder: Path, split: str, mask_regions: tuple[str, ...] | None, tasks: Executor
) -> Counts:
    """Write the shards of all splits to `folder`, with SHA256SUMS of them; returns the counts of all pairs.

    Args:
        files: sorted pairs; the threads of each are in no other.
        folder: where the shards are written.
        split: "thread" or "random".
        mask_regions: the countries of --phone_regions; None without --mask.
        tasks: runs functions on the executors.

    Raises:
        InputError: rows are missing, because machines do not share the folders.
    """
    files = [file for file in files if pq.read_metadata(readable(file)).num_rows]
    outputs = [{name: folder / f"{name}-part-{number:05d}.parquet" for name in SPLITS} for number in range(len(files))]
    threads = list(tasks.map(_count_threads, files)) if mask_regions is not None else [0] * len(files)
    starts = list(accumulate(threads, initial=0))[:-1]
    total, digests = Counts(), dict[Path, str]()
    for counts, written in tasks.map(_write_part, files, outputs, starts, repeat(split), repeat(mask_regions)):
        total.join(counts)
        digests |= written
    check_rows(list(digests), total.statistics.pairs, folder)
    known = {}
    for name in SPLITS:
        shards = [output[name] for output in outputs if output[name] in digests]
        for number, file in enumerate(shards):
            target = folder / shard_name(name, number, len(shards))
            known[target.name] = digests[file]
            move(file, target) if is_url(file) else file.rename(target)
    write_checksums(folder, known, known)
    return total


def _batches(file: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    for batch in pq.ParquetFile(readable(file)).iter_batches(BATCH_ROWS, columns=columns):
        yield pa.Table.from_batches([batch])


def _count_threads(file: Path) -> int:
    threads, last = 0, None
    for table in _batches(file, ["thread"]):
        values = table["thread"].combine_chunks()
        threads += int(values[0].as_py() != last)
        threads += pc.sum(pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))).as_py() or 0
        last = values[len(values) - 1].as_py()
    return threads


def _write_part(
    file: Path, outputs: dict[str, Path], first_thread: int, split: str, mask_regions: tuple[str, ...] | None
) -> tuple[Counts, dict[Path, str]]:
    """Write the distinct pairs of a file, a shard for each split that has some; `first_thread` threads are before them.

    Returns:
        The counts, and the SHA-256 of each shard.
    """
    from data_scripts.pairs.masked_pairs import PairMasker

    masker = None
    if mask_regions is not None:
        masker = PairMasker(mask_regions, public_sources=True)
        masker.threads = first_thread
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(parquet_writer(output, PAIR_SCHEMA, use_dictionary=["thread", "source"]))
            for name, output in outputs.items()
        }
        counts = count_pairs(_batches(file), {name: each.add_table for name, each in writers.items()}, split, masker)
    for name, output in outputs.items():
        if not counts.splits[name][0]:  # `datasets` reads no empty files
            output.unlink()
    return counts, {output: digest_of(output) for name, output in outputs.items() if counts.splits[name][0]}
