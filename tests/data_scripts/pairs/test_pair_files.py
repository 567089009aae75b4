"""The files of a dataset of pairs, and the error if no pair is left."""

import argparse
from concurrent.futures import ThreadPoolExecutor

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.clean.filters import add_filter_arguments
from data_scripts.files.errors import InputError
from data_scripts.pairs import shards
from data_scripts.pairs.dataset import write_pairs
from data_scripts.pairs.options import add_output_arguments
from data_scripts.schemas import PAIR_SCHEMA


@pytest.mark.parametrize(("limit", "groups"), [(39, [1, 1, 1, 1]), (40, [1, 1, 1, 1]), (41, [2, 2]), (81, [3, 1])])
def test_a_file_ends_with_the_row_group_that_reaches_its_size(tmp_path, monkeypatch, limit, groups):
    monkeypatch.setattr(shards, "BATCH_ROWS", 2)
    monkeypatch.setattr(shards, "SHARD_BYTES", limit)
    row = dict.fromkeys(PAIR_SCHEMA.names, "a")  # 1 byte and an offset of 4 bytes in each of 4 columns
    with ThreadPoolExecutor(1) as executor:
        writer = shards.SplitWriter(tmp_path, "train", executor)
        for rows in (3, 1, 3):
            writer.add(pa.Table.from_pylist([row] * rows, PAIR_SCHEMA))
        writer.finish()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [f"train-{n:05d}-of-{len(groups):05d}.parquet" for n in range(len(groups))]
    assert [pq.read_metadata(file).num_row_groups for file in files] == groups
    assert (writer.rows, writer.bytes) == (7, 7 * 20)
    assert sum(pq.read_metadata(file).num_rows for file in files) == 7


def test_no_pair_is_an_error_that_shows_the_counts(tmp_path):
    pq.write_table(PAIR_SCHEMA.empty_table(), tmp_path / "empty.parquet")
    empty = ibis.duckdb.connect().read_parquet(tmp_path / "empty.parquet")
    parser = argparse.ArgumentParser()
    add_filter_arguments(parser)
    add_output_arguments(parser)
    args = parser.parse_args(["--output", str(tmp_path)])
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match=r"(?s)no pair is left to write; these are the counts:.*removed by a rule +7"):
        write_pairs(empty, tmp_path / "out", tmp_path, args, {"texts": {"removed by a rule": 7}})
    assert not list((tmp_path / "out").glob("*.parquet"))
