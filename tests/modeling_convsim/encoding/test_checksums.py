"""Checksums find every change of a file, survive a kill while a file is replaced, and are those of `sha256sum`."""

import shutil
import subprocess
from pathlib import Path

import pytest

from modeling_convsim.encoding.checksums import CHECKSUMS, find_damage, read_checksums, replace_files, write_checksums
from tests.killing import kill_at_each_call

DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "flipped": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "emptied": lambda path: path.write_bytes(b""),
    "swapped": lambda path: path.write_bytes(b"another model's"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "1_Router").mkdir(parents=True)
    (folder / "weights").write_bytes(b"\x00\x01" * 1000)
    (folder / "1_Router" / "a file.json").write_bytes(b"{}")
    (folder / "README.md").write_text("a card")
    write_checksums(folder, ["weights", "1_Router/a file.json"])
    return folder


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("name", ["weights", "1_Router/a file.json"])
def test_damage_is_named(folder, name, damage):
    assert find_damage(folder) is None
    damage(folder / name)
    assert find_damage(folder) == f"{name} is damaged: its checksum differs from that in SHA256SUMS"
    assert find_damage(folder, [name, "README.md"]) == find_damage(folder)
    assert find_damage(folder, ["README.md"]) is None


def test_a_missing_file_is_named(folder):
    (folder / "weights").unlink()
    assert find_damage(folder) == "weights is missing"


def test_a_file_or_a_folder_without_checksums_is_not_verified(folder):
    (folder / "README.md").write_text("another card")
    assert find_damage(folder) is None
    (folder / CHECKSUMS).unlink()
    (folder / "weights").write_bytes(b"")
    assert find_damage(folder) is None


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"0" * 64 + b"  ", b"0" * 63 + b"  weights\n"])
def test_damaged_checksums_are_named(folder, content):
    (folder / CHECKSUMS).write_bytes(content)
    assert CHECKSUMS in (find_damage(folder) or "")
    with pytest.raises(ValueError, match=CHECKSUMS):
        replace_files(folder, {"weights": b"new"})
    assert (folder / "weights").stat().st_size == 2000


def test_replaced_and_new_files_have_checksums(folder):
    replace_files(folder, {"weights": b"new", "sts/matrix": b"eye"})
    assert (folder / "weights").read_bytes() == b"new" and find_damage(folder) is None
    assert {name: len(digests) for name, digests in read_checksums(folder).items()} == {
        "1_Router/a file.json": 1, "sts/matrix": 1, "weights": 1,
    }  # fmt: skip
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
