"""Folders appear when they are complete, on a disk and at URLs."""

import json
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import RECORD, UNFINISHED, has_record, new_folder
from modeling_convsim.files.storage import LOCK, locked, storage_path
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
    record = {"kind": "dataset", "files": ["nli/train.parquet", "report.json"]}
    return {"report.json": text, "nli/train.parquet": text, RECORD: json.dumps(record, indent=1) + "\n"}


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path):
    write(tmp_path / "pairs", "old")
    with pytest.raises(RuntimeError), new_folder(tmp_path / "pairs", overwrite=True) as (folder, _):
        (folder / "half").write_text("half")
        raise RuntimeError
    assert contents(tmp_path / "pairs") == expected("old")
    assert [file.name for file in tmp_path.iterdir()] == ["pairs"]


# A report of the user's, or a record that is not ours, changes nothing.
@pytest.mark.parametrize("files", [["thesis.tex"], ["report.json", "thesis.tex"], [RECORD]])
def test_a_folder_that_no_command_wrote_is_never_replaced(tmp_path, files):
    for name in files:
        (tmp_path / name).write_text("years of work")
    with pytest.raises(InputError, match="is not a dataset that a command wrote"):
        write(tmp_path, "new")
    assert contents(tmp_path) == dict.fromkeys(files, "years of work")


@pytest.mark.parametrize("name", ["thesis.tex", "nli/notes.txt", "new/deep.txt"])
def test_a_file_of_the_user_s_among_those_of_a_command_is_not_lost(tmp_path, name):
    write(tmp_path / "pairs", "old")
    (tmp_path / "pairs" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "pairs" / name).write_text("years of work")
    with pytest.raises(InputError, match=f"contains {name}, which the command did not write; move it away"):
        write(tmp_path / "pairs", "new")
    assert contents(tmp_path / "pairs") == {**expected("old"), name: "years of work"}


def test_a_file_that_comes_while_the_command_runs_is_not_lost(tmp_path):
    write(tmp_path / "pairs", "old")
    with pytest.raises(InputError, match=r"contains thesis\.tex"), new_folder(tmp_path / "pairs", overwrite=True):
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
    held = FileLock(tmp_path / f".pairs{LOCK}")
    with held, pytest.raises(InputError, match="pairs: another process is writing"):
        write(tmp_path / "pairs", "second")
    with locked(tmp_path / "pairs"):  # the first process has ended; a lock that is taken twice is held to the end
        write(tmp_path / "pairs", "third")
        with pytest.raises(Timeout):
            held.acquire(timeout=0)


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


@pytest.fixture(params=["file", "s3"])
def place(request, tmp_path, s3_server) -> Path:
    """A folder of outputs, at a URL."""
    (tmp_path / "place").mkdir()
    return storage_path(f"file://{tmp_path}/place" if request.param == "file" else "s3://bucket/place")


def files_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


TRAIN = "train-00000-of-00001.parquet"


def write_at_url(output: Path, overwrite: bool = False, name: str = TRAIN) -> None:
    with new_folder(output, overwrite) as (folder, scratch):
        (folder / name).write_bytes(b"new")
        (scratch / "large").write_bytes(b"intermediate")


def test_a_finished_run_leaves_only_its_output_at_a_url(place):
    write_at_url(place / "pairs")
    assert set(files_in(place)) == {f"pairs/{TRAIN}", f"pairs/{RECORD}"}
    with pytest.raises(InputError, match="exists already; name another folder, or replace it with --overwrite"):
        write_at_url(place / "pairs")
    write_at_url(place / "pairs", overwrite=True, name="report.json")
    assert set(files_in(place)) == {"pairs/report.json", f"pairs/{RECORD}"}


def test_what_an_interrupted_run_leaves_at_a_url_is_replaced_and_nothing_else(place):
    with pytest.raises(ValueError), new_folder(place / "pairs", False) as (folder, _):
        (folder / "train-part-00000-00000.parquet").write_bytes(b"half")
        raise ValueError
    assert not has_record(place / "pairs", "dataset") and has_record(place / "pairs", UNFINISHED)
    (place / "pairs" / "thesis.tex").write_bytes(b"years of work")
    with pytest.raises(InputError, match="exists and is not a dataset that a command wrote"):
        write_at_url(place / "pairs")
    (place / "pairs" / "thesis.tex").unlink()
    write_at_url(place / "pairs")
    assert set(files_in(place)) == {f"pairs/{TRAIN}", f"pairs/{RECORD}"}
