"""Connections to the engines."""

from pathlib import Path
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest

from data_scripts.pairs.engines import connect, stream_rows


def test_a_notebook_without_widgets_needs_no_progress_of_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """There, DuckDB refuses both settings of its progress bar."""
    open_database = ibis.duckdb.connect

    def open_in_notebook(**options: Any) -> Any:
        database = open_database(**options)
        execute = database.raw_sql

        def refuse(query: str, **options: Any) -> Any:
            if "progress_bar" in str(query):
                raise duckdb.InvalidInputException("required package 'ipywidgets' is missing")
            return execute(query, **options)

        monkeypatch.setattr(database, "raw_sql", refuse)
        return database

    monkeypatch.setattr(ibis.duckdb, "connect", open_in_notebook)
    with connect(tmp_path) as database:
        table = database.create_table("rows", pa.table({"a": [1, 2]}))
        assert [batch["a"].to_pylist() for batch in stream_rows(table)] == [[1, 2]]
