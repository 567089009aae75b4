"""Spark: the pairs that DuckDB gives, object storage without a connector, and what needs no session."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.pairs import spark
from data_scripts.pairs.engines import connect
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import storage_path
from tests.data_scripts.pairs import test_contexts

SETTINGS = """
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions 2
spark.ui.enabled false
spark.sql.adaptive.enabled false
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""
SPLITS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session for all tests, with settings for little data: compiling Spark's code would take most of the time."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install -e '.[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the PATH")
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        with connect(folder, "512MiB", "spark", "local[2]") as database:
            yield database._session


def read(folder: Path) -> dict[str, pa.Table]:
    return {split: pa.concat_tables(map(pq.read_table, sorted(folder.glob(f"{split}-*")))) for split in SPLITS}


@pytest.fixture(scope="module")
def comments(data_dir, tmp_path_factory) -> Path:
    """Real comments, of which some occur twice, some of them edited, so that ranking is compared too."""
    folder = tmp_path_factory.mktemp("comments")
    dumps = sorted(map(str, (data_dir / "conversations" / "reddit_raw").glob("RC_*.bz2")))[:2]
    assert main(["reddit", *dumps, "--comments", str(folder)]) == 0
    tables = [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]
    late = tables[0].slice(0, 500)
    late = late.set_column(4, "body", pa.array([f"{text} (edited)" for text in late["body"].to_pylist()], pa.string()))
    pq.write_table(pa.concat_tables([*tables, late, tables[1].slice(0, 500)]), folder / "all.parquet")
    return folder / "all.parquet"


def test_spark_gives_the_pairs_that_duckdb_gives(session, comments, tmp_path):
    found = {}
    for engine in ("duckdb", "spark"):
        options = ["--engine", engine, "--max_repeats", "3", "--mask"]
        assert main(["reddit", str(comments), "--output", str(tmp_path / engine), *options]) == 0
        report = json.loads((tmp_path / engine / "report.json").read_text(encoding="utf-8"))
        assert report["settings"].pop("engine") == engine
        found[engine] = read(tmp_path / engine), report
    assert found["spark"] == found["duckdb"]
    counts = found["spark"][1]
    assert counts["comments"]["id seen before"] == 1_000 and counts["masked"]["user names"]
    assert counts["threads"]["pairs with earlier turns"] > 100


def test_spark_gives_the_contexts_of_a_loop_over_the_turns(session):
    nodes, database = test_contexts.random_nodes(1), ibis.pyspark.connect(session)
    for name, table in zip("pnt", test_contexts.tables(nodes), strict=True):
        session.createDataFrame(table).createOrReplaceTempView(name)
    for turns in (0, 3):
        found = test_contexts.found_contexts(*(database.table(name) for name in "pnt"), turns)
        assert found == test_contexts.contexts_of(nodes, turns)


def test_paths_without_a_scheme_are_refused_on_a_cluster(tmp_path):
    def at(master: str) -> SimpleNamespace:
        return SimpleNamespace(sparkContext=SimpleNamespace(master=master))

    url, path = storage_path(tmp_path.as_uri()), tmp_path
    spark.check_shared(at("local[*]"), [url, path])
    spark.check_shared(at("spark://host:7077"), [url])
    with pytest.raises(InputError, match=r"a local path, but Spark runs at spark://host:7077; all Spark machines"):
        spark.check_shared(at("spark://host:7077"), [url, path])
