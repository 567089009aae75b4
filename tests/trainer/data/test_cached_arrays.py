"""Cached arrays are read as they were written, or not at all."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import xxhash

from data_scripts.errors import InputError
from trainer.data.cached_arrays import digest_texts, read_array, temporary_name, write_array

ARRAY = np.arange(300, dtype=np.float32).reshape(100, 3)


def test_an_array_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "vectors.npz"
    write_array(path, ARRAY)
    found = read_array(path)
    assert found is not None and found.dtype == ARRAY.dtype
    np.testing.assert_array_equal(found, ARRAY)
    write_array(path, 2 * ARRAY)
    np.testing.assert_array_equal(read_array(path), 2 * ARRAY)
    assert [file.name for file in path.parent.iterdir()] == ["vectors.npz"]


def test_a_missing_array_is_none_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_array(tmp_path / "vectors.npz") is None and not caplog.records


@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty", "another array", "objects"])
def test_a_damaged_array_is_not_read(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "vectors.npz"
    write_array(path, ARRAY)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[600] ^= 1
    elif damage == "truncated":
        del content[-30:]
    elif damage == "empty":
        content.clear()
    else:
        name, array = ("other.npy", ARRAY) if damage == "another array" else ("vectors.npy", np.array([{}], object))
        stored, buffer = io.BytesIO(), io.BytesIO()
        np.save(stored, array)
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(name, stored.getvalue())
        content = bytearray(buffer.getvalue())
    path.write_bytes(content)
    assert read_array(path) is None
    assert f"{path}: damaged (" in caplog.text and "it is computed again" in caplog.text


def test_the_array_of_another_file_is_not_read(tmp_path: Path) -> None:
    write_array(tmp_path / "vectors.npz", ARRAY)
    (tmp_path / "vectors.npz").rename(tmp_path / "others.npz")
    assert read_array(tmp_path / "others.npz") is None


def test_a_file_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a user's")
    with pytest.raises(InputError, match=r"file/vectors\.npz: cannot be written .* with --cache_dir"):
        write_array(tmp_path / "file" / "vectors.npz", ARRAY)
    assert (tmp_path / "file").read_text() == "a user's"


def test_temporary_names_are_hidden_distinct_and_in_the_same_folder(tmp_path: Path) -> None:
    names = {temporary_name(tmp_path / "vectors.npz") for _ in range(100)}
    assert len(names) == 100
    assert all(name.parent == tmp_path and name.name.startswith(".") and name.suffix == ".npz" for name in names)


def test_digests_differ_if_texts_are_divided_in_other_places() -> None:
    def digest(*batches: list[str]) -> str:
        result = xxhash.xxh3_128()
        for batch in batches:
            digest_texts(result, batch)
        return result.hexdigest()

    lists = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], ["c", "ab"], ["äbc"], ["a\x00", "bc"]]
    assert len({digest(texts) for texts in lists}) == len(lists)
    assert digest(["ab", "c"]) == digest(["ab", "c"])
