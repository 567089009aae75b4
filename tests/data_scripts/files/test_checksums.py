import hashlib
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.files.checksums import (
    CHECKSUMS,
    find_damage,
    read_checksums,
    replace_files,
    verify_dataset,
    write_checksums,
)
from data_scripts.files.datasets import load_columns, load_pairs
from data_scripts.files.errors import InputError
from data_scripts.files.folders import new_folder
from data_scripts.schemas import PAIR_SCHEMA
from tests.killing import kill_at_each_call

TRAIN = "train-00000-of-00001.parquet"


@pytest.fixture
def pairs(tmp_path) -> Path:
    with new_folder(tmp_path / "pairs", overwrite=False) as (folder, _):
        table = pa.table([["how are you"], ["fine"], ["1"], ["talk"]], schema=PAIR_SCHEMA)
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
