"""Parquet files within bounded memory."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import read_records
from modeling_convsim.files.texts import BrokenLines


def test_needed_columns_are_read_across_row_groups(tmp_path):
    table = pa.table({"a": [f"text {number}" for number in range(2_500)], "b": range(2_500)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1_200)
    rows = list(read_records(tmp_path / "a.parquet").rows(["b"], BrokenLines()))
    assert rows == [(f"{tmp_path}/a.parquet: row {row + 1}", {"b": row}) for row in range(2_500)]


def test_a_damaged_page_is_an_error(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["a" * 500] * 300})
    pq.write_table(table, path, row_group_size=250, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"not readable after 0 rows .*CRC"):
        list(read_records(path).rows(["text"], BrokenLines()))
