"""A manifest finds every change of a file that it describes."""

import hashlib
import json
from pathlib import Path

import pytest

from trainer.training.manifest import find_damage, write_manifest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shards").mkdir()
    (tmp_path / "weights").write_bytes(b"\x00\x01" * 1000)
    (tmp_path / "shards" / "0").write_bytes(b"")
    write_manifest(tmp_path)
    return tmp_path


def test_an_unchanged_folder_is_whole(folder):
    assert find_damage(folder) is None
    (folder / "a_file_of_the_user").touch()
    assert find_damage(folder) is None


def replace_by_folder(folder):
    (folder / "manifest.json").unlink()
    (folder / "manifest.json").mkdir()


def test_every_file_is_on_the_disk_when_the_manifest_is_complete(folder, monkeypatch):
    flushed = []

    def flush(number: int) -> None:
        path = Path(f"/proc/self/fd/{number}").readlink()
        flushed.append((path.name, path.stat().st_size))

    monkeypatch.setattr("os.fsync", flush)
    write_manifest(folder)
    assert flushed == [("0", 0), ("weights", 2000), ("manifest.json", (folder / "manifest.json").stat().st_size)]
    assert (folder / "manifest.json").read_text().startswith('{\n  "sha256": {\n')
    assert find_damage(folder) is None and len(flushed) == 3
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("shards/0", "weights")}
    assert json.loads((folder / "manifest.json").read_text()) == {"sha256": digests}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "weights").write_bytes(b"\x00\x01" * 999), "weights has changed"),
        (lambda folder: (folder / "weights").write_bytes(b"\x00\x01" * 999 + b"\x00\x00"), "weights has changed"),
        (lambda folder: (folder / "shards" / "0").write_bytes(b"x"), "shards/0 has changed"),
        (lambda folder: (folder / "shards" / "0").unlink(), "shards/0 is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda folder: (folder / "manifest.json").write_text('{"sha256": {"wei'), "manifest.json is unreadable"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "manifest.json is unreadable"),
        (lambda folder: (folder / "manifest.json").write_bytes(b"\xff"), "manifest.json is unreadable"),
        (lambda folder: (folder / "manifest.json").write_text('{"sha256": null}'), "manifest.json is unreadable"),
        (replace_by_folder, "manifest.json cannot be read (Is a directory)"),
    ],
)
def test_damage_is_named(folder, damage, message):
    damage(folder)
    assert message in find_damage(folder)
