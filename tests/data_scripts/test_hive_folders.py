"""Folders named COLUMN=VALUE, as Hive names partitions, give no column its value."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.loading import load_pairs
from tests.data_scripts.reddit.test_reddit import comment

CHAT = "id,thread,speaker,text\n" + "".join(
    f"{number},t{number // 4},{'ab'[number % 2]},this is message {number} of a long chat\n" for number in range(40)
)
COMMENTS = "".join(
    json.dumps(comment(f"c{number}", parent_id=f"t1_c{number - 1}", body=f"the words of comment {number}")) + "\n"
    for number in range(20)
)
CAPTIONS = '{"image_id": "1", "caption": "A dog."}\n{"image_id": "1", "caption": "An animal."}\n'


def rows(folder: Path) -> list[dict]:
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.ParquetFile(file).read().to_pylist()]


@pytest.mark.parametrize(
    ("command", "name", "content", "folder"),
    [
        ("conversations", "chat.csv", CHAT, "row=3"),
        ("reddit", "RC_2001-01.jsonl", COMMENTS, "body=x"),
        ("captions", "train.jsonl", CAPTIONS, "caption=x"),
    ],
)
def test_a_folder_named_as_a_column_changes_nothing(tmp_path, command, name, content, folder):
    (tmp_path / name).write_text(content)
    assert main([command, str(tmp_path / name), "--output", str(tmp_path / "plain")]) == 0
    expected = rows(tmp_path / "plain")
    assert expected
    output = tmp_path / folder / "out"
    output.parent.mkdir()
    assert main([command, str(tmp_path / name), "--output", str(output)]) == 0
    assert rows(output) == expected
    if command == "conversations":
        loaded = [row for split in load_pairs(str(output)).values() for row in split]
        assert sorted(row["input"] for row in loaded) == sorted(row["input"] for row in expected)
