"""The tasks of Spark's executors, run in threads: they write the pairs that one process writes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.files.folders import find_damage, read_checksums
from data_scripts.pairs.distributed import write_parts
from data_scripts.schemas import PAIR_SCHEMA, SPLITS
from tests.data_scripts.pairs.test_pairs import Pair, draw_pairs, written


def sorted_parts(folder: Path, pairs: list[Pair], parts: int) -> list[Path]:
    """Files as Spark sorts them: each has a range of the threads, and one may be empty."""
    folder.mkdir()
    threads = sorted({pair[2] for pair in pairs})
    files = []
    for number, names in enumerate(np.array_split(threads, parts)):
        rows = sorted((pair for pair in pairs if pair[2] in set(names)), key=lambda pair: (pair[2], *pair))
        columns = [[row[column] for row in rows] for column in range(4)]
        files.append(folder / f"part-{number:05d}.parquet")
        pq.write_table(pa.table(columns, schema=PAIR_SCHEMA), files[-1])
    return files


def read_splits(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Split -> its rows, in the order of the shards."""
    shards = {split: sorted(folder.glob(f"{split}-*-of-*.parquet")) for split in SPLITS}
    return {
        split: [row for file in files for row in pq.read_table(file).to_pylist()] for split, files in shards.items()
    }


@pytest.mark.parametrize("masked", [False, True])
def test_tasks_write_the_pairs_and_counts_of_one_process(tmp_path, masked):
    pairs = [(f"{one} to me@example.com", *others) for one, *others in draw_pairs(600)]
    report = written(tmp_path / "one", pairs, *(["--mask"] if masked else []), public_sources=True)
    for parts in (1, 5, 40):
        folder = tmp_path / f"out{parts}"
        folder.mkdir()
        files = sorted_parts(tmp_path / f"in{parts}", pairs, parts)
        with ThreadPoolExecutor(2) as tasks:
            counts = write_parts(files, folder, "thread", ("US",) if masked else None, tasks)
        assert read_splits(folder) == read_splits(tmp_path / "one")
        names = {file.name for file in folder.glob("*.parquet")}
        assert read_checksums(folder).keys() == names and find_damage(folder) is None
        assert all(name.endswith(f"-of-{sum(other[:5] == name[:5] for other in names):05d}.parquet") for name in names)
        sections = counts.statistics.finish()
        assert {name: report[name] for name in sections} == sections
        assert {name: rows for name, (rows, _) in counts.splits.items()} == report["splits"]
        assert counts.repeated == report["pairs"]["repeated in their thread"] > 0
        assert counts.masked == report.get("masked", {})


def test_no_pair_gives_no_shard(tmp_path):
    with ThreadPoolExecutor(1) as tasks:
        counts = write_parts(sorted_parts(tmp_path / "in", [], 2), tmp_path, "thread", None, tasks)
    assert counts.statistics.pairs == 0 and not list(tmp_path.glob("*.parquet"))
