"""The tasks of Spark's executors, run in threads: they write the files that one process writes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.errors import InputError
from data_scripts.schemas import PAIR_SCHEMA
from data_scripts.write import distributed, shards
from data_scripts.write.distributed import write_parts
from data_scripts.write.sorted_pairs import Counts
from tests.data_scripts.write.test_pairs import Pair, draw_pairs, written


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


@pytest.mark.parametrize("masked", [False, True])
def test_tasks_write_the_files_and_counts_of_one_process(tmp_path, monkeypatch, masked):
    monkeypatch.setattr(shards, "SHARD_BYTES", 3_000)
    monkeypatch.setattr(shards, "BATCH_ROWS", 10)
    pairs = [(f"{one} to me@example.com", *others) for one, *others in draw_pairs(600)]
    report = written(tmp_path / "one", pairs, *(["--mask"] if masked else []), public_sources=True)
    expected = {file.name: file.read_bytes() for file in (tmp_path / "one").glob("*.parquet")}
    for parts in (1, 5, 40):
        folder, scratch = tmp_path / f"out{parts}", tmp_path / f"scratch{parts}"
        folder.mkdir()
        scratch.mkdir()
        files = sorted_parts(tmp_path / f"in{parts}", pairs, parts)
        with ThreadPoolExecutor(2) as tasks:
            counts = write_parts(files, folder, scratch, "thread", ("US",) if masked else None, tasks)
        assert {file.name: file.read_bytes() for file in folder.glob("*.parquet")} == expected
        assert (folder / "SHA256SUMS").read_text().count("\n") == len(expected) > 10
        sections = counts.statistics.finish()
        assert {name: report[name] for name in sections} == sections
        assert {name: rows for name, (rows, _) in counts.splits.items()} == report["splits"]
        assert counts.repeated == report["pairs"]["repeated in their thread"] > 0
        assert counts.masked == report.get("masked", {})


def test_no_pair_gives_no_shard(tmp_path):
    with ThreadPoolExecutor(1) as tasks:
        counts = write_parts(sorted_parts(tmp_path / "in", [], 2), tmp_path, tmp_path, "thread", None, tasks)
    assert counts.statistics.pairs == 0 and not list(tmp_path.glob("*.parquet"))


def test_rows_that_an_executor_wrote_elsewhere_are_missed(tmp_path, monkeypatch):
    write = distributed._write_part

    def lose(*args: object) -> Counts:
        counts = write(*args)
        pq.write_table(PAIR_SCHEMA.empty_table(), args[1]["train"])
        return counts

    monkeypatch.setattr(distributed, "_write_part", lose)
    files = sorted_parts(tmp_path / "in", draw_pairs(200), 2)
    with ThreadPoolExecutor(1) as tasks, pytest.raises(InputError, match="but 0 are there; all machines of Spark"):
        write_parts(files, tmp_path, tmp_path, "thread", None, tasks)


def test_rows_that_do_not_reach_a_shard_are_missed(tmp_path, monkeypatch):
    rows = distributed._rows
    monkeypatch.setattr(distributed, "_rows", lambda *part: (table.slice(1) for table in rows(*part)))
    files = sorted_parts(tmp_path / "in", draw_pairs(200), 2)
    with ThreadPoolExecutor(1) as tasks, pytest.raises(InputError, match=r"of [\d,]+ rows; run the command again"):
        write_parts(files, tmp_path, tmp_path, "thread", None, tasks)


def test_a_shard_that_is_written_elsewhere_is_missed(tmp_path, monkeypatch):
    write = distributed._write_shard

    def lose(shard: distributed._Shard, target: Path) -> str:
        digest = write(shard, target)
        if shard.name.startswith("test-"):
            pq.write_table(PAIR_SCHEMA.empty_table(), target)
        return digest

    monkeypatch.setattr(distributed, "_write_shard", lose)
    files = sorted_parts(tmp_path / "in", draw_pairs(200), 2)
    with ThreadPoolExecutor(1) as tasks, pytest.raises(InputError, match="are there; all machines of Spark"):
        write_parts(files, tmp_path, tmp_path, "thread", None, tasks)


def test_rows_are_read_across_row_groups(tmp_path):
    pq.write_table(pa.table({"number": range(11)}), tmp_path / "part", row_group_size=4)
    for first, end in ((0, 11), (3, 9), (4, 8), (8, 11), (5, 6)):
        numbers = [number for table in distributed._rows(tmp_path / "part", first, end) for number in table["number"]]
        assert [number.as_py() for number in numbers] == list(range(first, end))
