"""Splits, counts, masks and writes pairs in tasks on Spark's executors: the same shards that one process writes.

The pairs come in files that are sorted and hold whole threads. A task for each file splits, counts and masks its pairs;
a task for each shard copies its rows from those parts. Only counts reach the driver.
"""

import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data_scripts.errors import InputError
from data_scripts.join.spark import check_rows
from data_scripts.read.checksums import digest_of
from data_scripts.read.storage import readable
from data_scripts.schemas import PAIR_SCHEMA, SPLITS
from data_scripts.write import shards
from data_scripts.write.checksums import replace_checksums
from data_scripts.write.files import make_folder, new_file
from data_scripts.write.parquet import parquet_writer
from data_scripts.write.shards import SplitWriter, row_bytes
from data_scripts.write.sorted_pairs import Counts, count_pairs


@dataclass
class _Shard:
    """Rows of a split from consecutive parts: (file, first row, end) of each."""

    name: str
    rows: int = 0
    slices: list[tuple[Path, int, int]] = field(default_factory=list)


def write_parts(
    files: list[Path],
    folder: Path,
    scratch: Path,
    split: str,
    mask_regions: tuple[str, ...] | None,
    tasks: Executor,
) -> Counts:
    """Write the shards of all splits to `folder`, with SHA256SUMS of them; returns the counts of all pairs.

    Args:
        files: sorted pairs; the threads of each are in no other.
        folder: where the shards are written.
        scratch: a folder for temporary files, which all executors can read.
        split: "thread" or "random".
        mask_regions: the countries of --phone_regions; None without --mask.
        tasks: runs functions on the executors.

    Raises:
        InputError: rows are missing, because machines do not share the folders.
    """
    files = [file for file in files if pq.read_metadata(readable(file)).num_rows]
    parts = scratch / "parts"
    make_folder(parts)
    outputs = [{name: parts / f"{number:05d}-{name}.parquet" for name in SPLITS} for number in range(len(files))]
    threads = list(tasks.map(_count_threads, files)) if mask_regions is not None else [0] * len(files)
    starts = list(accumulate(threads, initial=0))[:-1]
    total, rows = Counts(), []
    settings = repeat(split), repeat(mask_regions)
    for part in tasks.map(_write_part, files, outputs, starts, *settings):
        rows.append({name: part.splits[name][0] for name in SPLITS})
        total.join(part)
    for name in SPLITS:
        check_rows([output[name] for output in outputs], sum(part[name] for part in rows), parts)
    written = [shard for name in SPLITS for shard in _shards(name, outputs, rows, total.splits[name], tasks)]
    targets = [folder / shard.name for shard in written]
    digests = list(tasks.map(_write_shard, written, targets))
    check_rows(targets, total.statistics.pairs, folder)
    replace_checksums(folder, dict(zip((shard.name for shard in written), digests, strict=True)))
    return total


def _batches(file: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    for batch in pq.ParquetFile(readable(file)).iter_batches(shards.BATCH_ROWS, columns=columns):
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
) -> Counts:
    """Write the distinct pairs of a file, a file for each split; `first_thread` threads are in the files before."""
    from data_scripts.write.masked_pairs import PairMasker

    masker = None
    if mask_regions is not None:
        masker = PairMasker(mask_regions, public_sources=True)
        masker.threads = first_thread
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(parquet_writer(output, PAIR_SCHEMA, "lz4", ["thread", "source"]))
            for name, output in outputs.items()
        }
        return count_pairs(_batches(file), {name: writer.add_table for name, writer in writers.items()}, split, masker)


def _shards(
    split: str, outputs: list[dict[str, Path]], rows: list[dict[str, int]], total: tuple[int, int], tasks: Executor
) -> list[_Shard]:
    """The shards of a split, which end where `SplitWriter` ends them."""
    files, numbers = [output[split] for output in outputs], [part[split] for part in rows]
    starts = list(accumulate(numbers[:-1], initial=0))
    count, size = total
    groups = -(-count // shards.BATCH_ROWS)
    if size < shards.SHARD_BYTES:  # in one shard
        ends = [groups] if groups else []
    else:
        sizes = np.zeros(groups, np.int64)
        for start, part in zip(starts, tasks.map(_group_bytes, files, starts), strict=True):
            sizes[start // shards.BATCH_ROWS :][: len(part)] += part
        ends = _shard_ends(sizes)
    made, first = [], 0
    for number, end in enumerate(ends):
        shard = _Shard(f"{split}-{number:05d}-of-{len(ends):05d}.parquet")
        last = min(end * shards.BATCH_ROWS, count)
        for file, start, length in zip(files, starts, numbers, strict=True):
            low, high = max(first - start, 0), min(last - start, length)
            if low < high:
                shard.slices.append((file, low, high))
                shard.rows += high - low
        made.append(shard)
        first = last
    return made


def _group_bytes(file: Path, start: int) -> np.ndarray:
    """The bytes of text of each row group of a split that has rows in this file, whose first row is row `start`."""
    rows = pq.read_metadata(readable(file)).num_rows
    first = start // shards.BATCH_ROWS
    sizes = np.zeros(max((start + rows - 1) // shards.BATCH_ROWS + 1 - first, 0), np.int64)
    for table in _batches(file):
        positions = (start + np.arange(len(table))) // shards.BATCH_ROWS - first
        np.add.at(sizes, positions, row_bytes(table))
        start += len(table)
    return sizes


def _shard_ends(sizes: np.ndarray) -> list[int]:
    """The end of each shard, as a number of row groups, given the bytes of each row group."""
    ends, held = [], 0
    for number, size in enumerate(sizes.tolist(), start=1):
        held += size
        if held >= shards.SHARD_BYTES:
            ends.append(number)
            held = 0
    return [*ends, len(sizes)] if held else ends


def _write_shard(shard: _Shard, target: Path) -> str:
    """Write a shard; returns its SHA-256."""
    with new_file(target) as partial, TemporaryDirectory(prefix="convsim-") as folder:
        with ThreadPoolExecutor(1) as executor:
            writer = SplitWriter(Path(folder), shard.name.partition("-")[0], executor)
            for file, first, end in shard.slices:
                for table in _rows(file, first, end):
                    writer.add(table)
            writer.finish()
        if writer.rows != shard.rows:
            raise InputError(f"{target}: {writer.rows:,} of {shard.rows:,} rows; run the command again")
        [file] = Path(folder).iterdir()
        shutil.copyfile(file, partial)
        return digest_of(partial)


def _rows(path: Path, first: int, end: int) -> Iterator[pa.Table]:
    """The rows from `first` to `end` of a file, without reading the row groups before and after them."""
    file, start = pq.ParquetFile(readable(path)), 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        low, high = max(first - start, 0), min(end - start, rows)
        if low < high:
            yield file.read_row_group(group).slice(low, high - low)
        start += rows
