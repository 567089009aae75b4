import hashlib
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.errors import InputError
from data_scripts.read.checksums import CHECKSUMS, verify_dataset
from data_scripts.read.hub_datasets import load_columns, load_pairs
from data_scripts.read.parquet_files import bounded_batches
from data_scripts.schemas import PAIR_SCHEMA
from data_scripts.write.folders import new_folder
from modeling_convsim.encoding.text_files import read_texts

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
    source = pairs / part
    with pytest.raises(InputError, match=rf"more/{TRAIN}: has changed since it was written .*; write or download"):
        load_columns(str(source), ())
    flip(pairs / TRAIN)
    with pytest.raises(InputError, match="has changed since it was written"):
        load_pairs(str(pairs))
    (pairs / CHECKSUMS).unlink()  # whoever changed the files on purpose deletes the checksums
    verify_dataset(pairs)


def test_a_file_is_read_though_another_one_is_damaged(pairs):
    flip(pairs / TRAIN)
    verify_dataset(pairs / "more")
    verify_dataset(pairs / "more" / TRAIN)
    with pytest.raises(InputError):
        verify_dataset(pairs / TRAIN)


def test_a_missing_file_and_damaged_checksums_are_named(pairs):
    (pairs / "more" / TRAIN).unlink()
    with pytest.raises(InputError, match=rf"more/{TRAIN}: is missing, but .*{CHECKSUMS} names it"):
        verify_dataset(pairs)
    for content in ("", "0" * 64, "no checksums"):
        (pairs / CHECKSUMS).write_text(content)
        with pytest.raises(InputError, match=rf"{CHECKSUMS}: damaged"):
            verify_dataset(pairs)


def test_leakage_refuses_a_damaged_dataset(pairs, capsys):
    flip(pairs / TRAIN)
    assert main(["leakage", str(pairs), "--against", str(pairs)]) == 2
    assert f"{TRAIN}: has changed since it was written" in capsys.readouterr().err


def test_a_damaged_page_is_found_in_a_file_that_was_copied_alone(pairs, tmp_path):
    copy = Path(shutil.copyfile(pairs / TRAIN, tmp_path / "copy.parquet"))
    assert [batch.to_pylist()[0]["input"] for batch in bounded_batches(copy)] == ["how are you"]
    flip(copy)
    with pytest.raises(OSError, match="CRC checksum"):
        list(bounded_batches(copy))
    with pytest.raises(ValueError, match=r"copy\.parquet cannot be read as a Parquet file .*CRC checksum"):
        list(read_texts(str(copy), "input"))
