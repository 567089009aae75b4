"""An index replaces an index and nothing else."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from filelock import FileLock
from modeling_convsim.suggestion.calibration import Calibration, PrecisionRow
from pyarrow import parquet

from modeling_convsim.files.storage import lock_beside
from modeling_convsim.suggestion import storage
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.storage import (
    IndexFile,
    IndexSettings,
    lock_index,
    read_index,
    write_index,
    write_settings,
)

FILE = IndexFile("a/model", "0" * 64, 1, IndexSettings())
CALIBRATED = replace(FILE, settings=IndexSettings(calibration=Calibration(30, [PrecisionRow(0.5, 0.9, 1.0)])))


def write(folder: Path, text: str) -> None:
    write_index(folder, FILE, Replies([text], np.array([1]), None), np.zeros((1, 2)), None)


def text_of(folder: Path) -> str:
    return read_index(folder).replies.texts[0]


@pytest.fixture
def index(tmp_path) -> Path:
    write(tmp_path / "index", "old")
    return tmp_path / "index"


@pytest.mark.parametrize("content", ["years of work", json.dumps({"model": "gpt", "replies": 3})])
def test_a_user_s_folder_with_an_index_json_is_refused(tmp_path, content):
    (tmp_path / "index.json").write_text(content)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="exists and is not an index"):
        write(tmp_path, "new")
    assert (tmp_path / "index.json").read_text() == content and (tmp_path / "thesis.tex").exists()


def test_a_file_of_the_user_s_beside_an_index_is_not_lost(index):
    (index / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"index holds thesis.tex beside an index: move it away"):
        write(index, "new")
    assert text_of(index) == "old" and (index / "thesis.tex").exists()


def test_a_full_disk_is_one_line_and_keeps_the_old_index(index, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "write_arrays", fail)
    with pytest.raises(ValueError, match=r"index: cannot be written \(No space left on device\); free some disk space"):
        write(index, "new")
    assert text_of(index) == "old" and [path.name for path in index.parent.iterdir()] == ["index"]


def test_an_index_is_written_under_a_lock_that_may_be_taken_again(index):
    with lock_index(index):
        write(index, "new")
    assert text_of(index) == "new" and [path.name for path in index.parent.iterdir()] == ["index"]
    with FileLock(lock_beside(index)), pytest.raises(ValueError, match="another process is writing there"):
        write(index, "newer")


def test_settings_of_an_index_that_was_rebuilt_are_not_written(index):
    write_settings(index, CALIBRATED)
    assert read_index(index).file == CALIBRATED
    with pytest.raises(ValueError, match="has been rebuilt since it was opened"):
        write_settings(index, replace(CALIBRATED, replies=2))
    assert read_index(index).file == CALIBRATED


def test_an_index_of_another_format_is_refused(index):
    for values, message in (
        ({"format": 1}, "written in format 1, but this version reads format 5: rebuild it"),
        ({"format": 3, "side": "input"}, "an index of questions, of truncated vectors or of two models .*: rebuild it"),
        ({"format": 3, "side": "response", "second": {"share": 0.5}}, "or of two models of an earlier version"),
    ):
        (index / "index.json").write_text(json.dumps(values))
        with pytest.raises(ValueError, match=message):
            read_index(index)


def test_an_index_of_replies_of_the_format_before_is_opened(tmp_path):
    """As `convsim adapt` wrote it, with SHA256SUMS, which are not verified: that reads all vectors."""
    table = [{"threshold": 0.5, "precision": 0.9, "coverage": 1.0}]
    calibration = {"threshold": 0.5, "min_precision": 0.8, "precision": 0.9, "coverage": 1.0, "pairs": 30}
    values = {
        "format": 3, "model": "a/model", "weights_sha256": "0" * 64, "truncate_dim": None, "side": "response",
        "replies": 1, "duplicate_cosine": 0.8, "message_weight": 0.5, "calibration": calibration | {"table": table},
        "no_threshold": None, "question_threshold": None, "consensus_weight": 1.0, "examples": ["hi"], "second": None,
    }  # fmt: skip
    (tmp_path / "index.json").write_text(json.dumps(values))
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  vectors.npy\n")
    columns = {"text": ["yes"], "count": [2], "question": ["ok?"], "variants": [None]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "replies.parquet")
    np.save(tmp_path / "vectors.npy", np.zeros((1, 4), np.float16))
    file, replies, *_ = read_index(tmp_path)
    expected = IndexSettings(0.8, False, 0.5, 1.0, CALIBRATED.settings.calibration, ["hi"])
    assert file == IndexFile("a/model", "0" * 64, 1, expected) and replies.messages == ["ok?"]
    write_index(tmp_path, file, replies, np.zeros((1, 4)), None)
    assert read_index(tmp_path).file == file and not (tmp_path / "SHA256SUMS").exists()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model", 7, r"Expected `str`, got `int` - at `\$.model`"),
        ("settings", {"duplicate_cosine": 0}, "duplicate_cosine is 0.0, expected a number above 0, at most 1"),
        ("settings", {"calibration": {"pairs": 1}}, "Object missing required field `table`"),
    ],
)
def test_a_setting_that_was_edited_wrongly_is_named(index, name, value, message):
    values = json.loads((index / "index.json").read_text()) | {name: value}
    (index / "index.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=rf"cannot open the index .*: index.json is damaged \({message}"):
        read_index(index)
