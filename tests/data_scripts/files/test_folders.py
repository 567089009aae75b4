"""Folders appear when they are complete, on a disk and at URLs; damage is found by their checksums."""

import errno
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from data_scripts.files import folders
from data_scripts.files.datasets import load_columns, load_pairs
from data_scripts.files.errors import InputError
from data_scripts.files.folders import (
    CHECKSUMS,
    RECORD,
    find_damage,
    new_folder,
    read_checksums,
    replace_files,
    verify_dataset,
    write_checksums,
)
from data_scripts.files.storage import is_url, lock_beside, storage_path
from data_scripts.schemas import PAIR_SCHEMA
from tests.killing import kill_at_each_call


def write(output: Path, text: str, overwrite: bool = True) -> None:
    with new_folder(output, overwrite) as (folder, scratch):
        (folder / "report.json").write_text(text)
        (folder / "nli").mkdir()
        (folder / "nli" / "train.parquet").write_text(text)
        (scratch / "spill").write_text("spill")


def contents(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def expected(text: str) -> dict[str, str]:
    record = {"kind": "dataset", "files": ["SHA256SUMS", "nli/train.parquet", "report.json"]}
    digest = hashlib.sha256(text.encode()).hexdigest()
    checksums = f"{digest}  nli/train.parquet\n{digest}  report.json\n"
    files = {"report.json": text, "nli/train.parquet": text, "SHA256SUMS": checksums}
    return {**files, RECORD: json.dumps(record, indent=1) + "\n"}


def test_a_new_folder_is_renamed_only_when_it_is_complete(tmp_path):
    output = tmp_path / "deep" / "pairs"
    with new_folder(output, overwrite=False) as (folder, scratch):
        (folder / "report.json").write_text("{}")
        (scratch / "spill").write_text("")
        assert not output.exists()
    assert sorted(file.name for file in output.iterdir()) == [RECORD, "SHA256SUMS", "report.json"]
    assert [file.name for file in output.parent.iterdir()] == ["pairs"]


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path):
    write(tmp_path / "pairs", "old")
    with pytest.raises(RuntimeError), new_folder(tmp_path / "pairs", overwrite=True) as (folder, _):
        (folder / "half").write_text("half")
        raise RuntimeError
    assert contents(tmp_path / "pairs") == expected("old")
    assert [file.name for file in tmp_path.iterdir()] == ["pairs"]


def test_a_folder_of_pairs_is_replaced_only_with_overwrite(tmp_path):
    write(tmp_path / "pairs", "old")
    with pytest.raises(InputError, match="exists already; name another folder, or replace it with --overwrite"):
        write(tmp_path / "pairs", "new", overwrite=False)
    write(tmp_path / "pairs", "new")
    assert contents(tmp_path / "pairs") == expected("new")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["thesis.tex"], "is not a dataset that a command wrote"),
        (["report.json", "thesis.tex"], "is not a dataset that a command wrote"),  # a report of the user's
        ([RECORD], "is not a dataset that a command wrote"),  # not a record of ours
    ],
)
def test_a_folder_that_no_command_wrote_is_never_replaced(tmp_path, files, message):
    for name in files:
        (tmp_path / name).write_text("years of work")
    with pytest.raises(InputError, match=message):
        write(tmp_path, "new")
    assert contents(tmp_path) == dict.fromkeys(files, "years of work")


@pytest.mark.parametrize("name", ["thesis.tex", "nli/notes.txt", "new/deep.txt"])
def test_a_file_of_the_user_s_among_those_of_a_command_is_not_lost(tmp_path, name):
    write(tmp_path / "pairs", "old")
    (tmp_path / "pairs" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "pairs" / name).write_text("years of work")
    with pytest.raises(InputError, match=f"holds {name}, which the command did not write there; move it away"):
        write(tmp_path / "pairs", "new")
    assert contents(tmp_path / "pairs") == {**expected("old"), name: "years of work"}


def test_a_file_that_comes_while_the_command_runs_is_not_lost(tmp_path):
    write(tmp_path / "pairs", "old")
    with pytest.raises(InputError, match=r"holds thesis\.tex"), new_folder(tmp_path / "pairs", overwrite=True):
        (tmp_path / "pairs" / "thesis.tex").write_text("years of work")
    assert contents(tmp_path / "pairs") == {**expected("old"), "thesis.tex": "years of work"}


def test_an_output_of_another_kind_is_not_replaced(tmp_path):
    write(tmp_path / "out", "old")
    with (
        pytest.raises(InputError, match="is not a tokenizer that a command wrote"),
        new_folder(tmp_path / "out", overwrite=True, kind="tokenizer"),
    ):
        pass


def test_a_second_process_is_refused_while_the_first_writes(tmp_path):
    held = FileLock(lock_beside(tmp_path / "pairs"))
    with held, pytest.raises(InputError, match="pairs: another process is writing"):
        write(tmp_path / "pairs", "second")
    write(tmp_path / "pairs", "third")  # the first process has ended


def test_killed_at_any_call_it_leaves_the_old_folder_or_the_new_one(tmp_path):
    output = tmp_path / "pairs"
    write(output, "old")
    for calls in kill_at_each_call(lambda: write(output, "new")):
        assert contents(output) if output.exists() else any(tmp_path.glob(".pairs.*/replaced/report.json"))
        with pytest.raises(RuntimeError), new_folder(output, overwrite=True):  # it begins by putting things in order
            assert contents(output) in (expected("old"), expected("new")), calls
            raise RuntimeError
        assert [file.name for file in tmp_path.iterdir()] == ["pairs"], calls
        write(output, "old")


@pytest.mark.parametrize(
    ("code", "remedy"),
    [(errno.ENOSPC, r"\(No space left on device\); free some disk space"), (errno.EROFS, r"\(Read-only file system\)")],
)
def test_a_disk_that_cannot_be_written_is_one_line(tmp_path, code, remedy):
    write(tmp_path / "pairs", "old")
    with (
        pytest.raises(InputError, match=f"pairs: cannot be written {remedy}"),
        new_folder(tmp_path / "pairs", overwrite=True),
    ):
        raise OSError(code, os.strerror(code))
    assert contents(tmp_path / "pairs") == expected("old")


@pytest.fixture(params=["file", "s3"])
def place(request, tmp_path, s3_server) -> Path:
    """A folder of outputs, at a URL."""
    (tmp_path / "place").mkdir()
    return storage_path(f"file://{tmp_path}/place" if request.param == "file" else "s3://bucket/place")


def files_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_at_url(output: Path, shared: bool = False, overwrite: bool = False, name: str = "a") -> None:
    with new_folder(output, overwrite, shared=shared) as (folder, scratch):
        (folder / name).write_bytes(b"new")
        (scratch / "large").write_bytes(b"intermediate")


class Killed(BaseException):
    """Stands for SIGKILL: what would run after it is replaced by nothing."""


def kill_while_writing(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        context.setattr(folders, "_remove_from_storage", lambda folder: None)
        with pytest.raises(Killed), new_folder(output, False, shared=True) as (folder, scratch):
            (folder / "a").write_bytes(b"old")
            (scratch / "large").write_bytes(b"intermediate")
            raise Killed


@pytest.mark.parametrize("shared", [False, True])
def test_temporary_folders_of_killed_runs_are_removed_and_named(place, monkeypatch, capsys, shared):
    kill_while_writing(place / "pairs", monkeypatch)
    kill_while_writing(place / "other", monkeypatch)
    name = ".pairs.0123456789ab.partial"
    (place / name).mkdir(parents=True, exist_ok=True)
    (place / name / "mine").write_bytes(b"no record: not ours")
    left = {path.partition("/")[0] for path in files_in(place)}
    [ours] = [path for path in left if path.startswith(".pairs") and path != name]
    write_at_url(place / "pairs", shared)
    assert capsys.readouterr().out == f"removing {place / ours}, which an interrupted run left\n"
    found = files_in(place)
    assert {path.partition("/")[0] for path in found} == left - {ours} | {"pairs"}
    assert found["pairs/a"] == b"new" and found[f"{name}/mine"]
    write_at_url(place / "pairs", shared, overwrite=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shared", [False, True])
def test_a_finished_run_leaves_only_its_output(place, shared):
    write_at_url(place / "pairs", shared)
    assert set(files_in(place)) == {"pairs/a", "pairs/SHA256SUMS", "pairs/.written-by-convsim"}
    write_at_url(place / "pairs", shared, overwrite=True, name="b")
    assert set(files_in(place)) == {"pairs/b", "pairs/SHA256SUMS", "pairs/.written-by-convsim"}


def test_a_failed_run_leaves_nothing(place):
    for shared in (False, True):
        with pytest.raises(ValueError), new_folder(place / "pairs", False, shared=shared) as (folder, _):
            (folder / "a").write_bytes(b"half")
            raise ValueError
    assert files_in(place) == {}


def test_the_temporary_folder_is_beside_the_output_only_if_machines_share_it(place):
    for shared in (False, True):
        with new_folder(place / f"pairs{shared}", False, shared=shared) as (folder, scratch):
            assert is_url(folder) == is_url(scratch) == shared
            assert not shared or folder.parent.parent == scratch.parent.parent == place
            (folder / "a").write_bytes(b"new")


def test_files_in_folders_are_uploaded_under_their_names(place):
    with new_folder(place / "pairs", False) as (folder, _):
        (folder / "plots").mkdir()
        (folder / "plots" / "one.png").write_bytes(b"image")
    assert files_in(place)["pairs/plots/one.png"] == b"image"


TRAIN = "train-00000-of-00001.parquet"


@pytest.fixture
def pairs(tmp_path) -> Path:
    with new_folder(tmp_path / "pairs", overwrite=False) as (folder, _):
        table = pa.table([["how are you"], ["fine"], ["1"], ["talk"], [[]]], schema=PAIR_SCHEMA)
        pq.write_table(table, folder / TRAIN, write_page_checksum=True, compression="none")
        (folder / "more").mkdir()
        shutil.copyfile(folder / TRAIN, folder / "more" / TRAIN)
        (folder / "README.md").write_text("card")
    return tmp_path / "pairs"


def flip(path: Path, text: bytes = b"how are you") -> None:
    """Change a letter in the first of a file's texts."""
    content = path.read_bytes()
    path.write_bytes(content.replace(text, text[:-1] + b"x", 1))


def test_the_checksums_of_a_dataset_are_those_of_sha256sum_and_leave_out_the_card(pairs):
    digest = hashlib.sha256((pairs / TRAIN).read_bytes()).hexdigest()
    assert (pairs / CHECKSUMS).read_text() == f"{digest}  more/{TRAIN}\n{digest}  {TRAIN}\n"
    (pairs / "README.md").write_text("a better card")
    verify_dataset(pairs)
    assert load_pairs(str(pairs))["train"]["input"] == ["how are you"]


@pytest.mark.parametrize("part", [".", "more", f"more/{TRAIN}"])
def test_a_changed_file_is_named_wherever_the_dataset_is_read(pairs, part):
    flip(pairs / "more" / TRAIN)
    with pytest.raises(InputError, match=rf"pairs: more/{TRAIN} is damaged: .*restore it, or, if you changed it"):
        load_columns(str(pairs / part), ())
    with pytest.raises(InputError, match="is damaged: its checksum differs"):
        load_pairs(str(pairs))
    (pairs / CHECKSUMS).unlink()  # whoever changed the files on purpose deletes the checksums
    verify_dataset(pairs)


def test_a_file_is_read_though_another_one_is_damaged(pairs):
    flip(pairs / TRAIN)
    verify_dataset(pairs / "more")
    verify_dataset(pairs / "more" / TRAIN)
    with pytest.raises(InputError):
        verify_dataset(pairs / TRAIN)


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"0" * 64 + b"  ", b"0" * 63 + b"  weights\n"])
def test_damaged_checksums_are_named(pairs, content):
    (pairs / CHECKSUMS).write_bytes(content)
    for read in (verify_dataset, lambda folder: replace_files(folder, {TRAIN: b"new"})):
        with pytest.raises(InputError, match=f"{CHECKSUMS} is damaged"):
            read(pairs)
    assert (pairs / TRAIN).read_bytes() != b"new"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "1_Router").mkdir(parents=True)
    (folder / "weights").write_bytes(b"\x00\x01" * 1000)
    (folder / "1_Router" / "a file.json").write_bytes(b"{}")
    (folder / "README.md").write_text("a card")
    write_checksums(folder, ["weights", "1_Router/a file.json"])
    return folder


@pytest.mark.parametrize("name", ["weights", "1_Router/a file.json"])
@pytest.mark.parametrize("content", [b"", b"another model's"])
def test_damage_is_named(folder, name, content):
    assert find_damage(folder) is None
    (folder / name).write_bytes(content)
    assert find_damage(folder) == f"{name} is damaged: its checksum differs from that in SHA256SUMS"
    assert find_damage(folder, [name, "README.md"]) == find_damage(folder)
    assert find_damage(folder, ["README.md"]) is None


def test_a_missing_file_is_named_and_one_without_a_checksum_is_not_verified(folder):
    (folder / "README.md").write_text("another card")
    assert find_damage(folder) is None
    (folder / "weights").unlink()
    assert find_damage(folder) == "weights is missing"
    (folder / CHECKSUMS).unlink()
    assert find_damage(folder) is None


def test_replaced_and_new_files_have_checksums(folder):
    replace_files(folder, {"weights": b"new", "sts/matrix": b"eye"})
    assert (folder / "weights").read_bytes() == b"new" and find_damage(folder) is None
    assert read_checksums(folder).keys() == {"1_Router/a file.json", "sts/matrix", "weights"}
    (folder / CHECKSUMS).unlink()
    replace_files(folder, {"weights": b"newer"})
    assert not (folder / CHECKSUMS).exists()


def test_killed_at_any_call_a_replaced_file_is_not_taken_for_damaged(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for calls in kill_at_each_call(lambda: replace_files(copy, {"weights": b"new"})):
        assert find_damage(copy) is None, calls
        shutil.rmtree(copy)
        shutil.copytree(folder, copy)
    assert calls > 5


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs coreutils")
def test_sha256sum_verifies_a_folder(folder):
    check = ["sha256sum", "--check", "--strict", CHECKSUMS]
    assert subprocess.run(check, cwd=folder, capture_output=True).returncode == 0
    (folder / "weights").write_bytes(b"damaged")
    assert subprocess.run(check, cwd=folder, capture_output=True).returncode == 1
