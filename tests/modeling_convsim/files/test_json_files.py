"""JSON files of the project that somebody has edited: what is wrong is named, with its place."""

import json

import pytest

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import RECORD, has_record
from modeling_convsim.files.json_files import read_object


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "not readable as JSON"), (b"\xff", "not readable as JSON"), (b"[" * 100_000, "not readable as JSON"),
     (b"[1]", r"holds \[1\], expected a JSON object"), (None, "No such file")],
)  # fmt: skip
def test_a_file_without_an_object_is_named_with_the_remedy(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=f"a.json: .*{message}.*; restore it, or write it again"):
        read_object(tmp_path / "a.json")


@pytest.mark.parametrize("files", [7, None, [1], {"a": 1}])
def test_a_record_with_other_files_than_names_records_nothing(tmp_path, files):
    (tmp_path / RECORD).write_text(json.dumps({"kind": "dataset", "files": files}))
    assert not has_record(tmp_path, "dataset")
