"""What the benchmark on a Spark cluster computes from an event log, and what it reports."""

import json
from pathlib import Path

import pytest

from tests.benchmarks import spark_cluster
from tests.benchmarks.spark_cluster import Run, finished_jobs, print_table, read_events, union_length


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [([], 0), ([(5, 9)], 4), ([(5, 9), (1, 2)], 5), ([(1, 9), (2, 3), (8, 12)], 11), ([(1, 3), (3, 4)], 3)],
)
def test_the_length_of_a_union_of_intervals(intervals, expected):
    assert union_length(intervals) == expected


def test_the_time_of_jobs_and_queries_and_the_bytes_of_shuffles_come_from_the_events(tmp_path):
    sql = "org.apache.spark.sql.execution.ui."
    tasks = [{"Shuffle Write Metrics": {"Shuffle Bytes Written": written}} for written in (100, 23)]
    events = [
        {"Event": "SparkListenerApplicationStart", "Timestamp": 0},
        {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": 1_000},
        {"Event": f"{sql}SparkListenerSQLExecutionStart", "executionId": 0, "time": 2_000},
        *({"Event": "SparkListenerTaskEnd", "Task Metrics": metrics} for metrics in [*tasks, None]),
        {"Event": "SparkListenerJobEnd", "Job ID": 0, "Completion Time": 3_000},
        {"Event": f"{sql}SparkListenerSQLExecutionEnd", "executionId": 0, "time": 4_500},
        {"Event": "SparkListenerJobStart", "Job ID": 1, "Submission Time": 9_000},
        {"Event": "SparkListenerJobEnd", "Job ID": 1, "Completion Time": 9_250},
    ]
    (tmp_path / "spark-defaults.conf").write_text('# "Event":"SparkListenerJobEnd"')
    assert finished_jobs(tmp_path) == 0
    log = tmp_path / "app"
    log.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    assert finished_jobs(tmp_path) == 2
    assert read_events(log) == (3.75, 123)


@pytest.mark.parametrize(("shards", "memory", "code"), [("a", 100, 0), ("a", 115, 1), ("b", 100, 1)])
def test_other_shards_or_a_growing_driver_are_a_failure(monkeypatch, capsys, shards, memory, code):
    def compare(dumps, folder, names, server):
        assert server is None
        large = folder.name == "400"
        assert list(names) == (["duckdb", "spark"] if large else ["duckdb", "spark", "killed"])
        runs = {name: Run(1, 50, 50, 0.25, 7, {"train": "a"}) for name in names}
        if large:
            runs["spark"] = Run(9, memory - 50, 50, 0.08, 70, {"train": shards})
        return runs

    monkeypatch.setattr(spark_cluster, "compare", compare)
    monkeypatch.setattr(spark_cluster.synthetic_dumps, "main", lambda words: Path(words[0]).mkdir())
    assert spark_cluster.main(["--comments", "400", "200"]) == code
    printed = capsys.readouterr().out
    state = "the same" if shards == "a" else "DIFFERENT"
    assert f"| 400 | Spark, two workers | 9 | 8% | {memory - 50}, 50 | 70 | 1, {state} |" in printed
    assert f"most comments over fewest: {memory / 100:.2f} (at most 1.1)" in printed
    assert "| 200 | DuckDB | 1 |  | 50 |  | 1, the same |" in printed


def test_the_shards_of_each_size_are_compared_with_duckdbs(capsys):
    runs = {"1": {"duckdb": Run(1, 1, 1, shards={"a": "x"}), "killed": Run(1, 1, 1, shards={"a": "y"})}}
    assert not print_table(runs)
    runs["1"]["killed"].shards = {"a": "x"}
    assert print_table(runs)
