"""A file appears when it is complete, and nothing else is replaced."""

import errno
from pathlib import Path

import pytest

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import new_folder
from modeling_convsim.files.storage import check_own_text, new_file, remove_temporary_files, resolve_links, write_text
from tests.killing import kill_at_each_call


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [RuntimeError(), KeyboardInterrupt(), OSError(errno.ENOENT, "a source")])
def test_an_error_keeps_the_old_file(tmp_path, error):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(type(error)), new_file(tmp_path / "a.txt") as temporary:
        temporary.write_text("half")
        raise error
    assert (tmp_path / "a.txt").read_text() == "old" and names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "?"), r"No space left on device\); free some disk space, or name another output"),
        (OSError(errno.EROFS, "?"), r"Read-only file system\); check the permissions of its folder"),
        (RuntimeError("[enforce fail] PytorchStreamWriter failed writing file data/0"), "No space left on device"),
        (RuntimeError("basic_ios::clear: iostream error"), "No space left on device"),
    ],
)
def test_a_disk_that_cannot_be_written_is_one_line(tmp_path, error, message):
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(InputError, match=rf"a\.txt: cannot be written \({message}"), new_file(tmp_path / "a.txt"):
        raise error
    assert (tmp_path / "a.txt").read_text() == "old" and names(tmp_path) == ["a.txt"]


def test_killed_at_any_call_it_leaves_the_old_file_or_the_new_one(tmp_path):
    write_text(tmp_path / "a.txt", "old")
    for calls in kill_at_each_call(lambda: write_text(tmp_path / "a.txt", "new")):
        assert (tmp_path / "a.txt").read_text() in ("old", "new"), calls
        remove_temporary_files(tmp_path)
        assert names(tmp_path) == ["a.txt"]
        write_text(tmp_path / "a.txt", "old")


def test_only_our_temporary_files_are_removed(tmp_path):
    users = ["a.partial", ".a.partial", "b.0123456789ab.partial", ".b.0123456789AB.partial", ".b.0123.partial"]
    for name in [*users, ".b.0123456789ab.partial"]:
        (tmp_path / name).write_text("")
    remove_temporary_files(tmp_path)
    assert names(tmp_path) == sorted(users)


@pytest.mark.parametrize("name", ["folder", "nowhere/a.txt", "/dev/null"])
def test_what_cannot_be_a_file_is_refused(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"is not a regular file|cannot be written"):
        write_text(tmp_path / name, "text")


def test_a_text_file_of_the_user_s_is_not_replaced(tmp_path):
    check_own_text(tmp_path / "README.md", "# Ours")
    (tmp_path / "README.md").write_text("# Ours\n\nand more")
    check_own_text(tmp_path / "README.md", "# Ours")
    for content in (b"# Years of work", b"\xff"):
        (tmp_path / "README.md").write_bytes(content)
        with pytest.raises(
            InputError, match=r"README\.md would be replaced, but is not a file that this command wrote"
        ):
            check_own_text(tmp_path / "README.md", "# Ours")


def test_an_output_that_is_a_link_to_itself_is_refused_and_stays(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "good").symlink_to(tmp_path / "missing")
    for path in (tmp_path / "loop", tmp_path / "loop" / "file"):
        with pytest.raises(InputError, match="is a symbolic link to itself"):
            write_text(path, "new")
        with pytest.raises(InputError, match="is a symbolic link to itself"), new_folder(path, overwrite=True):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "loop"] and (tmp_path / "loop").is_symlink()
    assert resolve_links(tmp_path / "good") == (tmp_path / "missing").resolve()
