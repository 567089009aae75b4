"""Parquet files within bounded memory."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.files import parquet
from data_scripts.files.errors import InputError
from data_scripts.files.parquet import UNREADABLE, bounded_batches, check_row_groups


def test_rows_are_read_in_batches_across_row_groups(tmp_path):
    table = pa.table({"a": [f"text {number}" for number in range(2_500)], "b": range(2_500)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1_200)
    batches = list(bounded_batches(tmp_path / "a.parquet", ["b"]))
    assert pa.Table.from_batches(batches).equals(table.select(["b"])) and max(map(len, batches)) == 1_000


def test_a_row_group_that_is_too_large_is_refused(tmp_path, monkeypatch, capsys):
    path = tmp_path / "train-00000-of-00001.parquet"
    pq.write_table(pa.table({"text": ["x" * 1_000, "y"]}), path, row_group_size=1)
    check_row_groups(path)
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 1_000)
    with pytest.raises(InputError, match="row group 1 has more than 0 GiB; write smaller row groups"):
        next(bounded_batches(path))
    assert main(["leakage", str(tmp_path), "--against", f"own={tmp_path}"]) == 2
    assert "row group 1 has more than" in capsys.readouterr().err


def test_a_damaged_page_is_an_error(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a" * 500]}), path, compression="none", write_page_checksum=True)
    path.write_bytes(path.read_bytes().replace(b"a" * 100, b"b" * 100, 1))
    with pytest.raises(UNREADABLE, match="CRC"):
        list(bounded_batches(path))
