"""Output folders at URLs: what interrupted runs left there is removed, and nothing else."""

import json
import re
from pathlib import Path

import pytest

from data_scripts.errors import InputError
from data_scripts.files import folders, object_storage
from data_scripts.files.folders import RECORD, new_folder
from data_scripts.files.storage import is_object_storage, is_url, move, storage_path, upload


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


def test_the_record_of_a_temporary_folder_is_removed_last(tmp_path, monkeypatch):
    output = storage_path(f"file://{tmp_path}/pairs")
    kill_while_writing(output, monkeypatch)
    removed, remove = [], type(output.fs).rm

    def rm(filesystem, path: str, recursive: bool) -> None:
        removed.append({file.name for file in Path(path).rglob("*") if file.is_file()})
        remove(filesystem, path, recursive=recursive)

    monkeypatch.setattr(type(output.fs), "rm", rm)
    write(output)
    assert removed == [{"a"}, {"large"}, {RECORD}]


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


def test_a_file_that_was_being_uploaded_is_replaced(tmp_path, monkeypatch):
    output = storage_path(f"file://{tmp_path}/pairs")

    def killed(file, target):
        (target.with_name(f".{target.name}.0123456789ab.partial")).write_bytes(b"ha")
        raise Killed

    with monkeypatch.context() as context:
        context.setattr(folders, "upload", killed)
        with pytest.raises(Killed):
            write(output)
    assert json.loads((tmp_path / "pairs" / ".written-by-convsim").read_text())["kind"] == "unfinished output"
    write(output)
    assert set(files_in(output)) == {"a", "SHA256SUMS", ".written-by-convsim"}


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


def test_files_are_moved_within_a_storage(place):
    (place / "new").mkdir(parents=True, exist_ok=True)
    (place / "new" / "a").write_bytes(b"words")
    move(place / "new" / "a", place / "out" / "folder" / "a")
    assert files_in(place) == {"out/folder/a": b"words"}


def test_a_moved_file_that_is_not_complete_is_an_error(place, monkeypatch):
    (place / "new").mkdir(parents=True, exist_ok=True)
    (place / "new" / "a").write_bytes(b"words")
    monkeypatch.setattr(type(place.fs), "mv", lambda self, source, target: (place / "a").write_bytes(b"wor"))
    with pytest.raises(InputError, match=re.escape(f"{place / 'a'}: 3 of 5 bytes arrived")):
        move(place / "new" / "a", place / "a")


def test_a_file_appears_at_a_disk_under_its_name_when_it_is_complete(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"words")
    target = storage_path(f"file://{tmp_path}/copy")
    seen = []
    put = type(target.fs).put_file
    monkeypatch.setattr(
        type(target.fs), "put_file", lambda self, *paths: (put(self, *paths), seen.append({*tmp_path.iterdir()}))
    )
    upload(tmp_path / "file", target)
    assert len(seen) == 1 and tmp_path / "copy" not in seen[0] and (tmp_path / "copy").read_bytes() == b"words"


def test_kinds_of_storage(tmp_path, s3_server):
    assert not is_url(tmp_path) and not is_object_storage(tmp_path)
    url = storage_path(f"file://{tmp_path}")
    assert is_url(url) and not is_object_storage(url)
    assert is_object_storage(storage_path("s3://bucket/a"))
    assert storage_path("s3:/bucket") == Path("s3:/bucket")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"AWS_ENDPOINT_URL": "http://host:1"}, {"endpoint_override": "host:1", "scheme": "http"}),
        (
            {"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "https://b"},
            {"endpoint_override": "b", "scheme": "https"},
        ),
        ({}, {}),
    ],
)
def test_the_server_of_s3_is_that_of_the_environment(monkeypatch, variables, expected):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    made = {}

    class S3FileSystem:
        type_name = "s3"

        def __init__(self, **settings):
            made.update(settings)

    monkeypatch.setattr("pyarrow.fs.S3FileSystem", S3FileSystem)
    object_storage._S3(skip_instance_cache=True)
    assert made == expected


def test_a_file_is_written_to_object_storage_once(tmp_path, s3_server):
    (tmp_path / "file").write_bytes(b"words")
    upload(tmp_path / "file", storage_path("s3://bucket/pairs/a"))
    assert s3_server.objects["pairs/a"] == b"words"
    assert not [key for _, key in s3_server.requests if key.endswith(".partial")]
