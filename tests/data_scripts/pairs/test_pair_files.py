"""The files of a dataset of pairs, its publication, and what its report withholds."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.clean.filters import add_filter_arguments
from data_scripts.errors import InputError
from data_scripts.pairs import dataset as output
from data_scripts.pairs import shards
from data_scripts.pairs.dataset import write_pairs
from data_scripts.pairs.masked_pairs import _without_values
from data_scripts.pairs.options import add_output_arguments
from data_scripts.schemas import PAIR_SCHEMA
from tests.data_scripts.pairs.test_pairs import draw_pairs, written


def test_files_are_compressed_with_checksums_and_names_as_dictionaries(tmp_path, monkeypatch):
    options, writer = [], pq.ParquetWriter
    monkeypatch.setattr(
        shards.pq, "ParquetWriter", lambda *args, **given: options.append(given) or writer(*args, **given)
    )
    monkeypatch.setattr(shards, "BATCH_ROWS", 20)
    written(tmp_path / "out", draw_pairs(100))
    assert options and all(given["write_page_checksum"] is True for given in options)
    groups = []
    for path in (tmp_path / "out").glob("*.parquet"):
        metadata = pq.read_metadata(path)
        groups += [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for group in groups:
        columns = [group.column(number) for number in range(4)]
        assert {column.compression for column in columns} == {"ZSTD"}
        has_dictionary = [column.path_in_schema for column in columns if column.has_dictionary_page]
        assert has_dictionary == ["thread", "source"]
    assert max(group.num_rows for group in groups) == 20  # not one for the whole file


def test_sizes_of_files_row_groups_and_splits_are_as_documented():
    assert (shards.BATCH_ROWS, shards.SHARD_BYTES, shards.OFFSET_BYTES) == (100_000, 512 * 2**20, 4)


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


@pytest.mark.parametrize("name", [None, "me/chats"])
def test_the_folder_is_pushed_on_request_as_a_private_dataset(monkeypatch, capsys, name):
    calls: list = []
    monkeypatch.setattr(output, "upload", lambda *args, **options: calls.append((args, options)) or "https://hub/me")
    output.push(argparse.Namespace(push_to_hub=name, output=Path("some") / "out"))
    later = "The pairs are in some/out; push them later with: hf upload me/chats some/out --repo-type dataset"
    options = {
        "failed": later, "private": True, "repo_type": "dataset", "delete_patterns": "*.parquet",
        "commit_message": "Pairs of an input and a response",
    }  # fmt: skip
    assert calls == ([((Path("some") / "out", "me/chats"), options)] if name else [])
    assert capsys.readouterr().out == ("published: https://hub/me\n" if name else "")


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ({"role system": 1, "role tool": 2, "role jane": 3, "role bob": 4},
         {"role system": 1, "role tool": 2, "role (withheld)": 7}),
        ({"type x": 1, "subtype y": 2, "type": 5}, {"type (withheld)": 6, "subtype (withheld)": 2}),
        ({"empty text": 3, "role function": 1, "role developer": 2}, None),
    ],
)  # fmt: skip
def test_values_of_messages_left_out_are_withheld(counts, shown):
    assert _without_values(counts) == (shown or counts)
