import bz2
import html
import importlib.util
import json
import shutil
from pathlib import Path

import duckdb
import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

from data_scripts.__main__ import main
from data_scripts.clean.measures import measure
from data_scripts.errors import InputError
from data_scripts.join import engines
from data_scripts.join.replies import measure_comments
from data_scripts.schemas import COMMENT_TEXTS

SPLITS = ("train", "validation", "test")


def read(folder: Path) -> dict[str, pa.Table]:
    return {split: pa.concat_tables(map(pq.read_table, sorted(folder.glob(f"{split}-*")))) for split in SPLITS}


@pytest.fixture(scope="module")
def real_dumps(data_dir) -> list[str]:
    return sorted(map(str, (data_dir / "conversations" / "reddit_raw").glob("RC_*.bz2")))


@pytest.fixture(scope="module")
def by_duckdb(real_dumps, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("duckdb")
    options = "--output", str(folder / "pairs"), "--comments", str(folder / "comments")
    assert main(["reddit", *real_dumps, *options]) == 0
    return folder


SPARK = """
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions 2
spark.ui.enabled false
spark.sql.codegen.wholeStage false
"""


@pytest.fixture
def spark(tmp_path_factory, monkeypatch) -> None:
    """Settings for little data: compiling Spark's code to the fastest machine code would take most of the time."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install -e '.[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the PATH")
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(SPARK)
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))


@pytest.mark.timeout(600)
def test_spark_gives_the_pairs_that_duckdb_gives(spark, by_duckdb, tmp_path):
    # Some comments occur twice, some of them edited, so that ranking is compared too.
    comments = [pq.read_table(file) for file in sorted((by_duckdb / "comments").glob("*.parquet"))]
    late = comments[0].slice(0, 500)
    late = late.set_column(4, "body", pa.array([f"{text} (edited)" for text in late["body"].to_pylist()], pa.string()))
    pq.write_table(pa.concat_tables([*comments, late, comments[1].slice(0, 500)]), tmp_path / "comments.parquet")
    found = {}
    for engine in ("duckdb", "spark"):
        options = [
            "--engine",
            engine,
            "--max_repeats",
            "3",
            *(["--spark_master", "local[2]"] if engine == "spark" else []),
        ]
        assert main(["reddit", str(tmp_path / "comments.parquet"), "--output", str(tmp_path / engine), *options]) == 0
        report = json.loads((tmp_path / engine / "report.json").read_text(encoding="utf-8"))
        assert report["settings"].pop("engine") == engine
        found[engine] = read(tmp_path / engine), report
    assert found["spark"] == found["duckdb"]
    assert found["spark"][1]["comments"]["id seen before"] == 1_000


def raw_table(real_dumps: list[str]) -> pa.Table:
    """Comments as in the public tables: Reddit's escaped texts, with more columns in another order."""
    rows = [json.loads(line) for dump in real_dumps for line in bz2.decompress(Path(dump).read_bytes()).splitlines()]
    columns = {"score": [row["score"] for row in rows], "created_utc": [int(row["created_utc"]) for row in rows]}
    return pa.table(columns | {name: [row[name] for row in rows] for name in reversed(COMMENT_TEXTS)})


def test_bigquerys_sql_gives_the_pairs_that_duckdb_gives(real_dumps, by_duckdb, capsys):
    """Without access to BigQuery, its SQL is translated and run on tables like the public ones."""
    command = ["reddit", "p.reddit.c1", "p.reddit.c2", "--engine", "bigquery", "--explain"]
    assert main(command) == 0
    sql = capsys.readouterr().out
    assert sql.count("`p`.`reddit`.`c1`") and sql.count("`p`.`reddit`.`c2`")
    raw = raw_table(real_dumps)
    database = duckdb.connect()
    database.sql("ATTACH ':memory:' AS p; CREATE SCHEMA p.reddit")
    for name, part in (("c1", raw.slice(0, 9_000)), ("c2", raw.slice(9_000))):
        database.register("part", part)
        database.sql(f"CREATE TABLE p.reddit.{name} AS SELECT * FROM part")
    found = database.sql(sqlglot.transpile(sql, read="bigquery", write="duckdb")[0]).fetchall()
    expected = pa.concat_tables(read(by_duckdb / "pairs").values()).to_pylist()
    assert sorted(found) == sorted(tuple(row.values()) for row in expected)


def test_measures_in_sql_equal_those_of_the_reader(real_dumps):
    raw = raw_table(real_dumps)
    table = ibis.duckdb.connect().create_table("raw", raw.append_column("row", pa.array(range(len(raw)))))
    found = measure_comments(table).order_by("row").select("body", "characters", "alphabetic").to_pyarrow().to_pylist()
    differ = 0
    for text, row in zip(raw["body"].to_pylist(), found, strict=True):
        if html.unescape(text) == text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"):
            assert tuple(row.values()) == measure(text)
        else:
            differ += 1
    assert differ < 5  # Reddit escapes three characters only


@pytest.mark.parametrize(
    ("engine", "word"), [("duckdb", "ANTI JOIN"), ("spark", "LEFT ANTI JOIN"), ("bigquery", "NOT EXISTS")]
)
def test_explain_prints_the_engines_sql_and_reads_nothing(capsys, engine, word):
    assert main(["reddit", "not.there.atall", "--engine", engine, "--explain"]) == 0
    assert word in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.b", "--explain"], "a.b: expected PROJECT.DATASET.TABLE"),
        (["a.b.c", "--markdown", "--explain"], "--markdown: not with --engine bigquery"),
        (["a.b.c", "--comments", "x", "--output", "y"], "--comments: not with --engine bigquery"),
    ],
)
def test_what_bigquery_cannot_do_is_refused(capsys, arguments, message):
    assert main(["reddit", "--engine", "bigquery", *arguments]) == 2
    assert f"error: {message}" in capsys.readouterr().err


def test_pairs_from_bigquerys_tables_are_those_of_duckdb(real_dumps, by_duckdb, tmp_path, monkeypatch):
    """Everything except the connection: DuckDB replaces BigQuery, with a table of that name."""
    stand_in = ibis.duckdb.connect()
    stand_in.raw_sql("ATTACH ':memory:' AS p; CREATE SCHEMA p.reddit")
    stand_in.con.register("raw", raw_table(real_dumps))
    stand_in.raw_sql("CREATE TABLE p.reddit.c AS SELECT * FROM raw")
    monkeypatch.setattr(engines, "_bigquery", lambda: stand_in)
    assert main(["reddit", "p.reddit.c", "--engine", "bigquery", "--output", str(tmp_path / "out")]) == 0
    assert read(tmp_path / "out") == read(by_duckdb / "pairs")


@pytest.mark.skipif(importlib.util.find_spec("google.cloud") is not None, reason="BigQuery's client is installed")
def test_an_engine_that_is_not_installed_is_named_with_its_extra(capsys, tmp_path):
    assert main(["reddit", "a.b.c", "--engine", "bigquery", "--output", str(tmp_path / "out")]) == 2
    assert "pip install 'convsim[bigquery]'" in capsys.readouterr().err


def test_rows_that_spark_wrote_elsewhere_are_missed(tmp_path):
    for part, rows in enumerate((3, 2)):
        pq.write_table(pa.table({"key": list(range(rows))}), tmp_path / f"part-0000{part}.parquet")
    assert len(engines.written_files(tmp_path, 5)) == 2
    (tmp_path / "part-00001.parquet").unlink()
    with pytest.raises(InputError, match=rf"wrote 5 rows to {tmp_path}, but 3 are there; all machines"):
        engines.written_files(tmp_path, 5)
