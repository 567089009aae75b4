"""An index replaces an index and nothing else."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from data_scripts.files.storage import lock_beside
from modeling_convsim.suggestion import storage
from modeling_convsim.suggestion.calibration import Calibration
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.index_folder import lock_index
from modeling_convsim.suggestion.storage import IndexSettings, read_index, write_index, write_settings

SETTINGS = IndexSettings("a/model", "0" * 64, None, "response", 1, 0.95, 0, None, None, None)
CALIBRATION = Calibration(threshold=0.5, precision=0.9, coverage=0.5, pairs=10, min_precision=0.9)


def write(folder: Path, text: str) -> None:
    write_index(folder, SETTINGS, Replies([text], np.array([1]), None), np.zeros((1, 2)), None)


def text_of(folder: Path) -> str:
    return read_index(folder).replies.texts[0]


@pytest.fixture
def index(tmp_path) -> Path:
    write(tmp_path / "index", "old")
    return tmp_path / "index"


@pytest.mark.parametrize("content", ["{}", "[]", "years of work", json.dumps({"model": "gpt", "replies": 3})])
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

    monkeypatch.setattr(storage, "write_array", fail)
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
    calibrated = storage.replace(SETTINGS, calibration=CALIBRATION)
    write_settings(index, calibrated)
    assert read_index(index).settings == calibrated
    with pytest.raises(ValueError, match="has been rebuilt since it was opened"):
        write_settings(index, storage.replace(calibrated, replies=2))
    (index / "index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"index was written in format 1"):
        write_settings(index, calibrated)


@pytest.mark.parametrize("name", ["index.json", "replies.parquet", "vectors.npy"])
def test_a_damaged_file_is_named(index, name):
    content = bytearray((index / name).read_bytes())
    content[-3] ^= 1
    (index / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"cannot open the index .*: {name} is damaged"):
        read_index(index)
    (index / "SHA256SUMS").unlink()  # as in an index of an earlier version
    if name == "vectors.npy":
        assert read_index(index).replies.texts == ["old"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model", 7, "model is 7, expected a text"),
        ("duplicate_cosine", "x", "duplicate_cosine is 'x', expected a number"),
        ("duplicate_cosine", 0, "duplicate_cosine is 0, expected a number above 0, at most 1"),
        ("message_weight", -1, "message_weight is -1, expected 0 or more"),
        ("calibration", {"threshold": 1}, "calibration.coverage is missing"),
    ],
)
def test_a_setting_that_was_edited_wrongly_is_named(index, name, value, message):
    settings = json.loads((index / "index.json").read_text()) | {name: value}
    (index / "index.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=rf"cannot open the index .*: index.json is damaged \({message}"):
        storage.read_settings(index)


def test_an_index_without_examples_is_opened(index):
    write_settings(index, storage.replace(SETTINGS, examples=["hello"]))
    assert read_index(index).settings.examples == ["hello"]
    settings = json.loads((index / "index.json").read_text())
    del settings["examples"]  # as in an index of an earlier version
    (index / "index.json").write_text(json.dumps(settings))
    assert storage.read_settings(index) == SETTINGS


def test_a_calibrated_index_has_the_checksum_of_its_new_settings(index):
    calibrated = storage.replace(SETTINGS, calibration=CALIBRATION)
    write_settings(index, calibrated)
    assert "index.json" in (index / "SHA256SUMS").read_text() and read_index(index).settings == calibrated
