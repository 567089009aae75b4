"""Output folders at URLs: what interrupted runs left there is removed, and nothing else."""

from pathlib import Path

import pytest

from data_scripts.files import folders
from data_scripts.files.folders import new_folder
from data_scripts.files.storage import is_url, storage_path


@pytest.fixture(params=["file", "s3"])
def place(request, tmp_path, s3_server) -> Path:
    """A folder of outputs, at a URL."""
    (tmp_path / "place").mkdir()
    return storage_path(f"file://{tmp_path}/place" if request.param == "file" else "s3://bucket/place")


def files_in(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write(output: Path, shared: bool = False, overwrite: bool = False, name: str = "a") -> None:
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
    write(place / "pairs", shared)
    assert capsys.readouterr().out == f"removing {place / ours}, which an interrupted run left\n"
    found = files_in(place)
    assert {path.partition("/")[0] for path in found} == left - {ours} | {"pairs"}
    assert found["pairs/a"] == b"new" and found[f"{name}/mine"]
    write(place / "pairs", shared, overwrite=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shared", [False, True])
def test_a_finished_run_leaves_only_its_output(place, shared):
    write(place / "pairs", shared)
    assert set(files_in(place)) == {"pairs/a", "pairs/SHA256SUMS", "pairs/.written-by-convsim"}
    write(place / "pairs", shared, overwrite=True, name="b")
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
