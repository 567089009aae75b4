import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from trainer.data import teacher as teacher_module
from trainer.data.datasets import RunData
from trainer.data.teacher import embed_tokens, teacher_vectors, texts_to_distill
from trainer.encoders.loading import SentenceTransformerEncoder

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


def test_texts_are_spread_evenly_over_datasets_weighted_by_the_root_of_their_sizes():
    pairs = {side: [f"{side} {row}" for row in range(100)] for side in ("input", "response")}
    captions = [f"caption {row}" for row in range(25)]
    data = RunData({"pairs": Dataset.from_dict(pairs), "captions/c": Dataset.from_dict({"caption": captions})})
    # Roots 10 and 5 of 15: two thirds of 30 texts from the pairs, half of them from each column.
    places = [0, 11, 22, 33, 44, 55, 66, 77, 88, 99]
    expected = [f"{side} {row}" for side in ("input", "response") for row in places]
    expected += [f"caption {int(row)}" for row in np.linspace(0, 24, 10)]
    assert texts_to_distill(data, 30)["text"][:] == expected
    assert len(texts_to_distill(data, 1)) == 3  # at least one text of each column
    assert len(texts_to_distill(data, 1000)) == 225


def test_empty_and_repeated_texts_are_not_distilled():
    pairs = {"input": ["a", "", "b", "a"], "response": ["b", "c", "", "A"]}
    data = RunData({"pairs": Dataset.from_dict(pairs)})
    assert texts_to_distill(data, 100)["text"][:] == ["a", "b", "c", "A"]


def test_vectors_are_stored_in_half_precision_and_a_zero_vector_stays_zero(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Teacher, "encode", lambda self, texts: np.zeros((len(texts), 3), dtype=np.float32))
    vectors = teacher_vectors(str(folder), TEXTS, tmp_path / "cache")
    assert vectors.dtype == np.float16 and vectors.shape == (5, 3) and not vectors.any()


def counted(monkeypatch) -> list[list[str]]:
    calls: list[list[str]] = []
    encode = Teacher.encode
    monkeypatch.setattr(Teacher, "encode", lambda self, texts: calls.append(texts) or encode(self, texts))
    return calls


def test_texts_are_encoded_in_parts_and_an_interrupted_run_goes_on_after_the_last(folder, tmp_path, monkeypatch):
    calls, cache = counted(monkeypatch), tmp_path / "cache"
    vectors = teacher_vectors(str(folder), TEXTS, cache)
    assert calls == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]
    next(cache.rglob("4.npz")).unlink()
    np.testing.assert_array_equal(teacher_vectors(str(folder), TEXTS, cache), vectors)
    assert calls[3:] == [["eeeee"]]


def test_the_precision_the_size_of_parts_and_the_names_of_files_are_part_of_the_key(folder, tmp_path, monkeypatch):
    calls, cache = counted(monkeypatch), tmp_path / "cache"
    teacher_vectors(str(folder), TEXTS, cache)
    other = next(dtype for dtype in (torch.bfloat16, torch.float32) if dtype != teacher_module._dtype())
    with monkeypatch.context() as patch:
        patch.setattr(teacher_module, "_dtype", lambda: other)
        teacher_vectors(str(folder), TEXTS, cache)
    assert len(calls) == 6
    with monkeypatch.context() as patch:
        patch.setattr(teacher_module, "CHUNK", 4)
        assert len(teacher_vectors(str(folder), TEXTS, cache)) == 5
    assert len(calls) == 8
    (folder / "a.json").write_text("{}")
    teacher_vectors(str(folder), TEXTS, cache)
    (folder / "a.json").rename(folder / "b.json")
    teacher_vectors(str(folder), TEXTS, cache)
    assert len(calls) == 14
    for name in (".gitattributes", "card.md", ".cache/x"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("not part of the model")
    teacher_vectors(str(folder), TEXTS, cache)
    assert len(calls) == 14


@pytest.mark.parametrize(("is_fast", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_the_teacher_computes_in_bfloat16_where_it_is_fast(is_fast, dtype, monkeypatch):
    monkeypatch.setattr(teacher_module, "has_fast_bfloat16", lambda device: (is_fast, "why"))
    assert teacher_module._dtype() == dtype


def test_a_teacher_of_sentence_transformers_computes_in_that_precision(monkeypatch):
    teacher, other = SentenceTransformerEncoder.__new__(SentenceTransformerEncoder), object()
    teacher.model = torch.nn.Linear(2, 2)
    encoders = {"teacher": teacher, "other": other}
    monkeypatch.setattr(teacher_module, "load_encoder", encoders.__getitem__)
    assert teacher_module._load("teacher", torch.bfloat16) is teacher and teacher.model.weight.dtype == torch.bfloat16
    assert teacher_module._load("other", torch.bfloat16) is other


def test_tokens_are_embedded_without_prefix_centered_and_normalized_and_special_tokens_are_not(
    folder, tmp_path, monkeypatch
):
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "##ing": 2, "cat": 3, "##s": 4, "##": 5}
    backend = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]")
    calls = counted(monkeypatch)
    vectors = embed_tokens(str(folder), tokenizer, 8, tmp_path / "cache")
    assert [text for texts in calls for text in texts] == ["ing", "cat", "s", "##"]
    embeddings = np.array([[length, 2.0, 1.0] for length in (3, 3, 1, 2)])
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    centered = embeddings - embeddings.mean(axis=0)
    expected = np.zeros((8, 3))
    expected[2:6] = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=2e-2)  # differences of vectors in half precision


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
