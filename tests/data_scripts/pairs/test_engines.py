import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.files.errors import InputError
from data_scripts.pairs import engines

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


def test_spark_gives_the_pairs_that_duckdb_gives(spark, by_duckdb, tmp_path):
    # Some comments occur twice, some of them edited, so that ranking is compared too.
    comments = [pq.read_table(file) for file in sorted((by_duckdb / "comments").glob("*.parquet"))]
    late = comments[0].slice(0, 500)
    late = late.set_column(4, "body", pa.array([f"{text} (edited)" for text in late["body"].to_pylist()], pa.string()))
    pq.write_table(pa.concat_tables([*comments, late, comments[1].slice(0, 500)]), tmp_path / "comments.parquet")
    found = {}
    for engine in ("duckdb", "spark"):
        options = ["--engine", engine, "--max_repeats", "3"]
        options += ["--spark_master", "local[2]"] if engine == "spark" else []
        assert main(["reddit", str(tmp_path / "comments.parquet"), "--output", str(tmp_path / engine), *options]) == 0
        report = json.loads((tmp_path / engine / "report.json").read_text(encoding="utf-8"))
        assert report["settings"].pop("engine") == engine
        found[engine] = read(tmp_path / engine), report
    assert found["spark"] == found["duckdb"]
    assert found["spark"][1]["comments"]["id seen before"] == 1_000


@pytest.mark.parametrize(("engine", "word"), [("duckdb", "ANTI JOIN"), ("spark", "LEFT ANTI JOIN")])
def test_explain_prints_the_engines_sql_and_reads_nothing(capsys, engine, word):
    assert main(["reddit", "not.there.atall", "--engine", engine, "--explain"]) == 0
    assert word in capsys.readouterr().out


def test_rows_that_spark_wrote_elsewhere_are_missed(tmp_path):
    for part, rows in enumerate((3, 2)):
        pq.write_table(pa.table({"key": list(range(rows))}), tmp_path / f"part-0000{part}.parquet")
    assert len(engines.written_files(tmp_path, 5)) == 2
    (tmp_path / "part-00001.parquet").unlink()
    with pytest.raises(InputError, match=rf"wrote 5 rows to {tmp_path}, but 3 are there; all machines"):
        engines.written_files(tmp_path, 5)
