"""Samples for a teacher, and its cached embeddings."""

from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

from modeling_convsim.files.errors import InputError
from trainer.data import teacher as teacher_module
from trainer.data.datasets import RunData
from trainer.data.teacher import CachedTeacher, embed_tokens, encode_columns, sample_rows

TEXTS = ["a", "bb", "ccc", "dddd", "eeeee"]


class Teacher:
    """Its vectors depend on the value in its folder's file of weights."""

    def __init__(self, folder: str) -> None:
        self.value = float(Path(folder, "model.safetensors").read_text())

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text), self.value, 1.0] for text in texts], dtype=np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(teacher_module, "load_encoder", Teacher)
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "model.safetensors").write_text("2")
    return tmp_path / "teacher"


@pytest.fixture
def calls(monkeypatch) -> list[list[str]]:
    """The texts of each call of `Teacher.encode`."""
    calls: list[list[str]] = []
    encode = Teacher.encode
    monkeypatch.setattr(Teacher, "encode", lambda self, texts: calls.append(texts) or encode(self, texts))
    return calls


def expected(value: float) -> np.ndarray:
    vectors = np.array([[length, value, 1.0] for length in range(1, 6)])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def run_data(pairs: int) -> RunData:
    texts = {side: [f"{side} {row}" for row in range(pairs)] for side in ("input", "response")}
    captions = [f"caption {row}" for row in range(25)]
    threads = Dataset.from_dict(texts | {"thread": ["t"] * pairs})
    return RunData({"pairs": threads, "captions/c": Dataset.from_dict({"group": [0] * 25, "caption": captions})})


def test_rows_are_sampled_from_datasets_weighted_by_the_root_of_their_sizes():
    # Roots 10 and 5 of 15: two thirds of 30 texts from the pairs, each of which has two.
    sizes = {count: [len(rows) for rows in sample_rows(run_data(100), count).values()] for count in (1, 30, 1000)}
    assert sizes == {1: [1, 1], 30: [10, 10], 1000: [100, 25]}
    sample = sample_rows(run_data(100), 1000)
    assert [rows.column_names for rows in sample.values()] == [["input", "response"], ["caption"]]
    assert sorted(sample["captions/c"]["caption"]) == sorted(f"caption {row}" for row in range(25))
    (of_kind,) = sample_rows(run_data(100), 30, ["pairs"]).values()
    assert [row["input"][5:] == row["response"][8:] for row in of_kind] == [True] * 15


def test_a_smaller_sample_is_the_beginning_of_a_larger_one_whatever_other_rows_there_are(monkeypatch):
    large, small = (sample_rows(run_data(100), count, ["pairs"])["pairs"]["input"][:] for count in (120, 40))
    assert small == large[:20] and small != [f"input {row}" for row in range(20)]  # not in the order of the dataset
    monkeypatch.setattr(teacher_module, "HASHED_TOGETHER", 7)
    fewer = sample_rows(run_data(80), 160, ["pairs"])["pairs"]["input"][:]
    assert [text for text in fewer if text in large] == [text for text in large if text in fewer]
    assert len(set(fewer) & set(large)) > 40


def test_rows_with_an_empty_text_are_not_sampled(monkeypatch):
    monkeypatch.setattr(teacher_module, "HASHED_TOGETHER", 2)
    pairs = {"input": ["a", "", "b", "a"], "response": ["b", "c", "", "A"]}
    empty = Dataset.from_dict({"input": ["", "a"], "response": ["b", ""]})
    samples = sample_rows(RunData({"pairs/one": Dataset.from_dict(pairs), "pairs/two": empty}), 100)
    assert list(samples) == ["pairs/one"]
    rows = samples["pairs/one"]
    assert sorted(zip(rows["input"], rows["response"], strict=True)) == [("a", "A"), ("a", "b")]


def test_columns_are_encoded_by_a_teacher_that_is_loaded_once(folder, tmp_path, calls, monkeypatch):
    loads: list[str] = []
    monkeypatch.setattr(teacher_module, "load_encoder", lambda source: loads.append(source) or Teacher(source))
    samples = {
        "pairs": Dataset.from_dict({"input": ["a", "bb"], "response": ["ccc", "dddd"]}),
        "captions/c": Dataset.from_dict({"caption": ["eeeee"]}),
    }
    vectors = encode_columns(str(folder), samples, tmp_path / "cache")
    assert loads == [str(folder)] and calls == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]
    parts = [vectors["pairs"]["input"], vectors["pairs"]["response"], vectors["captions/c"]["caption"]]
    np.testing.assert_allclose(np.concatenate(parts), expected(2), atol=1e-3)
    # Each column is in the cache.
    more = {**samples, "captions/d": Dataset.from_dict({"caption": ["f"]})}
    encode_columns(str(folder), more, tmp_path / "cache")
    assert calls[3:] == [["f"]]


def test_a_change_of_the_teacher_or_of_its_precision_creates_new_entries(folder, tmp_path, calls, monkeypatch):
    cache = tmp_path / "cache"

    def is_encoded_again(source: Path = folder) -> bool:
        before = len(calls)
        CachedTeacher(str(source), cache).encode(TEXTS)
        return len(calls) > before

    assert is_encoded_again() and not is_encoded_again()
    for name in (".gitattributes", "README.md", ".cache/x"):  # not part of the model
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("text")
    moved = folder.rename(tmp_path / "moved")  # the name does not matter
    assert not is_encoded_again(moved)
    (moved / "model.safetensors").write_text("7")
    assert is_encoded_again(moved)
    np.testing.assert_allclose(CachedTeacher(str(moved), cache).encode(TEXTS), expected(7), atol=1e-3)
    (moved / "a.json").write_text("{}")
    assert is_encoded_again(moved)
    (moved / "a.json").rename(moved / "b.json")
    assert is_encoded_again(moved)
    other = next(dtype for dtype in (torch.bfloat16, torch.float32) if dtype != teacher_module._dtype())
    monkeypatch.setattr(teacher_module, "_dtype", lambda: other)
    assert is_encoded_again(moved)


def test_a_teacher_on_the_hub_is_known_by_its_commit(folder, tmp_path, monkeypatch):
    commits = iter(["1" * 40, "2" * 40])
    monkeypatch.setattr(
        teacher_module, "hf_hub_download", lambda *_: f"hub/models--a--b/snapshots/{next(commits)}/config.json"
    )
    monkeypatch.setattr(teacher_module, "load_encoder", lambda _: Teacher(str(folder)))
    assert (
        CachedTeacher("a/b", tmp_path / "cache").encode(TEXTS) == CachedTeacher(str(folder), tmp_path).encode(TEXTS)
    ).all()
    (folder / "model.safetensors").write_text("7")
    np.testing.assert_allclose(CachedTeacher("a/b", tmp_path / "cache").encode(TEXTS), expected(7), atol=1e-3)


def test_tokens_are_embedded_without_prefix_centered_and_normalized_and_special_tokens_are_not(folder, tmp_path, calls):
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "##ing": 2, "cat": 3, "##s": 4, "##": 5}
    backend = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]")
    vectors = embed_tokens(str(folder), tokenizer, 8, tmp_path / "cache")
    assert [text for texts in calls for text in texts] == ["ing", "cat", "s", "##"]
    embeddings = np.array([[length, 2.0, 1.0] for length in (3, 3, 1, 2)])
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    centered = embeddings - embeddings.mean(axis=0)
    table = np.zeros((8, 3))
    table[2:6] = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, table, atol=2e-2)  # differences of vectors in half precision


def test_a_teacher_that_cannot_be_used_is_refused(folder, tmp_path, monkeypatch):
    (folder / "model.safetensors").write_text("nan")
    with pytest.raises(InputError, match="NaN or infinite values; use another"):
        CachedTeacher(str(folder), tmp_path / "cache").encode(TEXTS)
    monkeypatch.undo()
    with pytest.raises(InputError, match="the model cannot be loaded"):
        CachedTeacher(str(tmp_path / "missing"), tmp_path / "cache").encode(TEXTS)
