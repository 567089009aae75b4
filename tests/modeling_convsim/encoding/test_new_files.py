import errno
import os
from pathlib import Path

import numpy as np
import pytest

from modeling_convsim.encoding.new_files import locked, new_file, new_locked_file, write_array
from modeling_convsim.encoding.vector_files import write_vectors
from tests.killing import kill_at_each_call
from tests.limits import file_size_limit


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["a.npy", "a.parquet"])
def test_vectors_that_fail_keep_the_old_file_and_a_user_s_file_like_a_temporary_one(tmp_path, name):
    def encode(texts):
        yield np.ones((len(list(texts)), 2), np.float32)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / name).write_text("old")
    (tmp_path / f".{name}.partial").write_text("years of work")
    with pytest.raises(OSError, match=rf"{name}: cannot be written \(No space left on device\); free some disk space"):
        write_vectors(tmp_path / name, ["one", "two"], encode)
    assert (tmp_path / name).read_text() == "old" and names(tmp_path) == [f".{name}.partial", name]


def test_a_rename_that_fails_keeps_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "a.npy").write_text("old")

    def fail(source: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(source), None, str(target))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match=r"a\.npy: cannot be written \(Operation not permitted\); check the permissions"):
        write_vectors(tmp_path / "a.npy", ["one"], lambda texts: iter([np.ones((len(list(texts)), 2))]))
    assert (tmp_path / "a.npy").read_text() == "old" and names(tmp_path) == ["a.npy"]


def test_an_error_of_reading_is_not_one_of_writing(tmp_path):
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "a.npy"):
        (tmp_path / "texts.txt").read_text()


@pytest.mark.parametrize("name", ["folder", "/dev/null"])
def test_what_is_not_a_file_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="is not a regular file; name another one"), new_file(tmp_path / name):
        pass


def test_killed_at_any_call_it_leaves_the_old_file_or_the_new_one(tmp_path):
    def write(text: str) -> None:
        with new_file(tmp_path / "a.txt") as temporary:
            temporary.write_text(text)

    write("old")
    for calls in kill_at_each_call(lambda: write("new")):
        assert (tmp_path / "a.txt").read_text() in ("old", "new"), calls
        write("old")


def test_what_a_killed_process_left_of_a_file_is_removed_by_the_next_one(tmp_path):
    (tmp_path / ".a.npy.0123456789ab.partial").write_text("half")
    (tmp_path / ".b.npy.0123456789ab.partial").write_text("of another file")
    write_vectors(tmp_path / "a.npy", ["one"], lambda texts: iter([np.ones((len(list(texts)), 2), np.float32)]))
    assert names(tmp_path) == [".b.npy.0123456789ab.partial", "a.npy"]


def test_a_file_that_another_process_writes_is_not_touched(tmp_path):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with locked(tmp_path / "a.npy", "file"):
            os.write(writing, b"locked")
            os.read(os.pipe()[0], 1)  # until it is killed
    os.read(reading, 6)
    try:
        with (
            pytest.raises(ValueError, match=r"a\.npy: another process is writing this file; wait until"),
            new_locked_file(tmp_path / "a.npy"),
        ):
            pass
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@pytest.mark.parametrize("missing", [1, 5_000])
def test_an_array_that_does_not_fit_on_the_disk_is_an_error(tmp_path, missing):
    """`np.save` is silent if only the last bytes do not fit."""
    array = np.arange(10_000, dtype=np.float16).reshape(100, 100)
    write_array(tmp_path / "a.npy", array)
    assert np.array_equal(np.load(tmp_path / "a.npy"), array)
    with file_size_limit((tmp_path / "a.npy").stat().st_size - missing), pytest.raises(OSError, match="File too large"):
        write_array(tmp_path / "b.npy", array)
