import logging
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from data_scripts.errors import InputError
from trainer.data import teacher as teacher_module
from trainer.data.teacher import teacher_vectors

TEXTS = Dataset.from_dict({"text": ["a", "bb", "ccc", "dddd", "eeeee"]})


class Teacher:
    """Its vectors depend on the value in its folder's file of weights."""

    def __init__(self, folder: str) -> None:
        self.value = float(Path(folder, "model.safetensors").read_text())

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text), self.value, 1.0] for text in texts], dtype=np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(teacher_module, "load_encoder", Teacher)
    monkeypatch.setattr(teacher_module, "CHUNK", 2)
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "model.safetensors").write_text("2")
    return tmp_path / "teacher"


def expected(value: float) -> np.ndarray:
    vectors = np.array([[length, value, 1.0] for length in range(1, 6)])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_a_retrained_teacher_gives_its_new_vectors_and_an_unchanged_one_is_not_loaded(folder, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    np.testing.assert_allclose(teacher_vectors(str(folder), TEXTS, cache), expected(2), atol=1e-3)
    (folder / "model.safetensors").write_text("7")
    np.testing.assert_allclose(teacher_vectors(str(folder), TEXTS, cache), expected(7), atol=1e-3)
    (folder / "README.md").write_text("a card")
    monkeypatch.setattr(teacher_module, "load_encoder", lambda _: pytest.fail("loaded again"))
    np.testing.assert_allclose(teacher_vectors(str(folder), TEXTS, cache), expected(7), atol=1e-3)
    moved = folder.rename(tmp_path / "moved")  # the name does not matter
    np.testing.assert_allclose(teacher_vectors(str(moved), TEXTS, cache), expected(7), atol=1e-3)


def test_a_teacher_on_the_hub_is_known_by_its_commit(folder, tmp_path, monkeypatch):
    commits = iter(["1" * 40, "2" * 40])
    monkeypatch.setattr(
        teacher_module, "hf_hub_download", lambda *_: f"hub/models--a--b/snapshots/{next(commits)}/config.json"
    )
    monkeypatch.setattr(teacher_module, "load_encoder", lambda _: Teacher(str(folder)))
    assert (teacher_vectors("a/b", TEXTS, tmp_path / "cache") == teacher_vectors(str(folder), TEXTS, tmp_path)).all()
    (folder / "model.safetensors").write_text("7")
    np.testing.assert_allclose(teacher_vectors("a/b", TEXTS, tmp_path / "cache"), expected(7), atol=1e-3)


def test_texts_that_are_divided_differently_are_different_texts(folder, tmp_path):
    first, second = (Dataset.from_dict({"text": texts}) for texts in (["a\x00", "bbb"], ["a", "\x00bbb"]))
    assert (teacher_vectors(str(folder), first, tmp_path) != teacher_vectors(str(folder), second, tmp_path)).any()


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_part_is_computed_again(folder, tmp_path, caplog, damage):
    cache = tmp_path / "cache"
    vectors = teacher_vectors(str(folder), TEXTS, cache)
    path = next(cache.rglob("2.npz"))
    content = path.read_bytes()
    for place in range(0, len(content), 7) if damage == "flip" else [0]:
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        path.write_bytes({"flip": flipped, "truncate": content[:-9], "empty": b""}[damage])
        np.testing.assert_array_equal(teacher_vectors(str(folder), TEXTS, cache), vectors)
    assert str(path) in caplog.text and "it is computed again" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        teacher_vectors(str(folder), TEXTS, cache)
    assert sorted(each.name for each in path.parent.iterdir()) == ["0.npz", "2.npz", "4.npz"]


def test_a_teacher_without_finite_vectors_and_one_that_is_missing_are_refused(folder, tmp_path, monkeypatch):
    (folder / "model.safetensors").write_text("nan")
    with pytest.raises(InputError, match="values that are not finite; use another"):
        teacher_vectors(str(folder), TEXTS, tmp_path / "cache")
    monkeypatch.undo()
    with pytest.raises(InputError, match="the model cannot be loaded"):
        teacher_vectors(str(tmp_path / "missing"), TEXTS, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_refused_in_one_line(folder, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match=r"cache/teacher-.* cannot be written .*--cache_dir"):
        teacher_vectors(str(folder), TEXTS, tmp_path / "cache")
