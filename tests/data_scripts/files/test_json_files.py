"""JSON files of the project that somebody has edited: what is wrong is named, with its place."""

import json
from dataclasses import dataclass, field
from typing import Literal

import pytest

from data_scripts.files.errors import InputError
from data_scripts.files.folders import RECORD, has_record
from data_scripts.files.json_files import from_json, read_object


@dataclass(frozen=True)
class Row:
    score: float


@dataclass(frozen=True)
class Settings:
    name: str
    count: int
    side: Literal["left", "right"]
    best: Row | None
    rows: list[Row] = field(default_factory=list)
    note: str | None = None


RIGHT = {"name": "a", "count": 3, "side": "left", "best": None}


def test_an_object_becomes_a_dataclass_with_those_in_it():
    assert from_json(Settings, RIGHT) == Settings("a", 3, "left", None)
    values = RIGHT | {"best": {"score": 1}, "rows": [{"score": 0.5}], "note": "n"}
    assert from_json(Settings, values) == Settings("a", 3, "left", Row(1), [Row(0.5)], "n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 1.5}, "Expected `int`, got `float` - at `$.count`"),
        ({"best": {"score": "x"}}, "Expected `float`, got `str` - at `$.best.score`"),
        ({"best": {}}, "Object missing required field `score` - at `$.best`"),
        ({"more": 1}, "more is unknown, expected some of name, count, side, best, rows, note"),
    ],
)
def test_a_value_of_another_type_is_named(change, message):
    with pytest.raises(ValueError) as refused:
        from_json(Settings, RIGHT | change)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "not readable as JSON"), (b"\xff", "not readable as JSON"), (b"[" * 100_000, "not readable as JSON"),
     (b"[1]", r"holds \[1\], expected a JSON object"), (None, "No such file")],
)  # fmt: skip
def test_a_file_without_an_object_is_named_with_the_remedy(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=f"a.json: .*{message}.*; make it again"):
        read_object(tmp_path / "a.json", "make it again")


@pytest.mark.parametrize("files", [7, None, [1], {"a": 1}])
def test_a_record_with_other_files_than_names_records_nothing(tmp_path, files):
    (tmp_path / RECORD).write_text(json.dumps({"kind": "dataset", "files": files}))
    assert not has_record(tmp_path, "dataset")
