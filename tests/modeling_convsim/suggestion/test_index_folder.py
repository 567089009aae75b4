"""An index replaces an index and nothing else, and is there at every moment."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from modeling_convsim.suggestion import index_folder, storage
from modeling_convsim.suggestion.calibration import Calibration
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.index_folder import MARKER, lock_index
from modeling_convsim.suggestion.storage import IndexSettings, read_index, write_index, write_settings
from tests.killing import kill_at_each_call

SETTINGS = IndexSettings("a/model", "0" * 64, None, "response", 1, 0.95, None)
CALIBRATION = Calibration(threshold=0.5, precision=0.9, coverage=0.5, pairs=10, min_precision=0.9, candidates=None)


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


def test_folders_with_names_like_temporary_ones_stay(index):
    for name in (".index.partial", ".index.0123456789ab.partial", ".index.x.0123456789ab.partial"):
        index.with_name(name).mkdir()
        (index.with_name(name) / "thesis.tex").write_text("years of work")
    write(index, "new")
    assert len(list(index.parent.glob("*/thesis.tex"))) == 3 and text_of(index) == "new"


@pytest.mark.parametrize("can_exchange", [True, False])
def test_killed_at_any_call_it_leaves_the_old_index_or_the_new_one(index, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(index_folder, "_exchange", lambda one, other: False)

    def replace_quickly(text: str) -> None:  # without pyarrow, whose threads a forked process does not have
        with index_folder.new_index_folder(index) as folder:
            for name in ("replies.parquet", "vectors.npy"):
                (folder / name).write_bytes((index / name).read_bytes())
            storage._write_settings(folder, storage.replace(SETTINGS, model=text))

    replace_quickly("old")
    for calls in kill_at_each_call(lambda: replace_quickly("new")):
        if can_exchange:
            assert read_index(index).settings.model in ("old", "new"), calls
        with pytest.raises(RuntimeError), index_folder.new_index_folder(index):
            raise RuntimeError
        assert read_index(index).settings.model in ("old", "new"), calls
        assert [path.name for path in index.parent.iterdir()] == ["index"], calls
        replace_quickly("old")


@pytest.mark.parametrize("failing", [1, 2])
def test_a_rename_that_fails_leaves_the_old_index(index, monkeypatch, failing):
    monkeypatch.setattr(index_folder, "_exchange", lambda one, other: False)
    rename, calls = Path.rename, []

    def fail(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == failing:
            raise OSError(errno.EBUSY, "busy", str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match=r"index: cannot be written \(Device or resource busy\)"):
        write(index, "new")
    assert text_of(index) == "old" and [path.name for path in index.parent.iterdir()] == ["index"]


def test_a_full_disk_is_one_line_and_keeps_the_old_index(index, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "write_array", fail)
    with pytest.raises(OSError, match=r"index: cannot be written \(No space left on device\); free some disk space"):
        write(index, "new")
    assert text_of(index) == "old" and [path.name for path in index.parent.iterdir()] == ["index"]


def test_a_second_process_is_refused_while_the_first_builds(index):
    child = os.fork()
    if child == 0:
        code = 1
        with lock_index(index):
            code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with lock_index(index):
            os.write(writing, b"locked")
            os.read(os.pipe()[0], 1)  # until it is killed
    os.read(reading, 6)
    try:
        with pytest.raises(ValueError, match="another process is writing this index; wait until it has finished"):
            write(index, "new")
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    with lock_index(index):  # a dead process's lock does not block, and the block's own may be taken again
        write(index, "new")
    assert text_of(index) == "new" and [path.name for path in index.parent.iterdir()] == ["index"]


def test_settings_of_an_index_that_was_rebuilt_are_not_written(index):
    calibrated = storage.replace(SETTINGS, calibration=CALIBRATION)
    write_settings(index, calibrated)
    assert read_index(index).settings == calibrated
    with pytest.raises(ValueError, match="has been rebuilt since it was opened"):
        write_settings(index, storage.replace(calibrated, replies=2))
    (index / "index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"index was written in format 1"):
        write_settings(index, calibrated)


def test_the_marker_is_not_part_of_an_index(index):
    assert sorted(path.name for path in index.iterdir()) == [
        "SHA256SUMS",
        "index.json",
        "replies.parquet",
        "vectors.npy",
    ]
    assert not (index / MARKER).exists()


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


def test_a_calibrated_index_has_the_checksum_of_its_new_settings(index):
    calibrated = storage.replace(SETTINGS, calibration=CALIBRATION)
    write_settings(index, calibrated)
    assert "index.json" in (index / "SHA256SUMS").read_text() and read_index(index).settings == calibrated
