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
from trainer.data.teacher import embed_tokens, encode_columns, sample_rows, teacher_vectors
from trainer.encoders.loading import SentenceTransformerEncoder

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
    monkeypatch.setattr(teacher_module, "CHUNK", 2)
    (tmp_path / "teacher").mkdir()
    (tmp_path / "teacher" / "model.safetensors").write_text("2")
    return tmp_path / "teacher"


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
    assert {name: rows.column_names for name, rows in sample.items()} == {
        "pairs": ["input", "response"], "captions/c": ["caption"],
    }  # fmt: skip
    assert sorted(sample["captions/c"]["caption"]) == sorted(f"caption {row}" for row in range(25))
    of_kind = sample_rows(run_data(100), 30, ["pairs"])
    assert {name: len(rows) for name, rows in of_kind.items()} == {"pairs": 15}
    assert [row["input"][5:] == row["response"][8:] for row in of_kind["pairs"]] == [True] * 15


def test_a_smaller_sample_is_the_beginning_of_a_larger_one_whatever_other_rows_there_are():
    large, small = (sample_rows(run_data(100), count, ["pairs"])["pairs"]["input"][:] for count in (120, 40))
    assert small == large[:20] and small != [f"input {row}" for row in range(20)]  # not in the order of the dataset
    fewer = sample_rows(run_data(80), 160, ["pairs"])["pairs"]["input"][:]
    assert [text for text in fewer if text in large] == [text for text in large if text in fewer]
    assert len(set(fewer) & set(large)) > 40


def test_the_rows_of_a_sample_do_not_depend_on_how_many_are_hashed_together(monkeypatch):
    expected = sample_rows(run_data(100), 40)["pairs"]["input"][:]
    monkeypatch.setattr(teacher_module, "HASHED_TOGETHER", 7)
    assert sample_rows(run_data(100), 40)["pairs"]["input"][:] == expected


def test_rows_with_an_empty_text_are_not_sampled():
    pairs = {"input": ["a", "", "b", "a"], "response": ["b", "c", "", "A"]}
    empty = Dataset.from_dict({"input": ["", "a"], "response": ["b", ""]})
    samples = sample_rows(RunData({"pairs/one": Dataset.from_dict(pairs), "pairs/two": empty}), 100)
    assert list(samples) == ["pairs/one"]
    rows = samples["pairs/one"]
    assert sorted(zip(rows["input"], rows["response"], strict=True)) == [("a", "A"), ("a", "b")]


def test_columns_are_encoded_by_a_teacher_that_is_loaded_once(folder, tmp_path, monkeypatch):
    calls, loads = counted(monkeypatch), []
    monkeypatch.setattr(teacher_module, "load_encoder", lambda source: loads.append(source) or Teacher(source))
    samples = {
        "pairs": Dataset.from_dict({"input": ["a", "bb"], "response": ["ccc", "dddd"]}),
        "captions/c": Dataset.from_dict({"caption": ["eeeee"]}),
    }
    vectors = encode_columns(str(folder), samples, tmp_path / "cache")
    assert loads == [str(folder)] and calls == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]
    assert {name: list(columns) for name, columns in vectors.items()} == {
        "pairs": ["input", "response"], "captions/c": ["caption"],
    }  # fmt: skip
    parts = [vectors["pairs"]["input"], vectors["pairs"]["response"], vectors["captions/c"]["caption"]]
    np.testing.assert_allclose(np.concatenate(parts), expected(2), atol=1e-3)
    # A larger sample has the texts of a smaller one first: only the others are encoded.
    larger = {"pairs": Dataset.from_dict({"input": ["a", "bb", "f"], "response": ["ccc", "dddd", "g"]})}
    encode_columns(str(folder), larger, tmp_path / "cache")
    assert calls[3:] == [["f"], ["g"]]


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
    max(cache.rglob("*.npz"), key=lambda path: path.stat().st_mtime_ns).unlink()
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
    assert calls[6:] == [["a", "bb", "ccc", "dddd"]]  # the other part has the same text as before
    (folder / "a.json").write_text("{}")
    teacher_vectors(str(folder), TEXTS, cache)
    (folder / "a.json").rename(folder / "b.json")
    teacher_vectors(str(folder), TEXTS, cache)
    assert len(calls) == 13
    for name in (".gitattributes", "card.md", ".cache/x"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("not part of the model")
    teacher_vectors(str(folder), TEXTS, cache)
    assert len(calls) == 13


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
    first, second = ["a\x00", "bbb"], ["a", "\x00bbb"]
    assert (teacher_vectors(str(folder), first, tmp_path) != teacher_vectors(str(folder), second, tmp_path)).any()


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_damaged_part_is_computed_again(folder, tmp_path, caplog, damage):
    cache = tmp_path / "cache"
    vectors = teacher_vectors(str(folder), TEXTS, cache)
    path = next(cache.rglob("*.npz"))
    names = sorted(each.name for each in path.parent.iterdir())
    content = path.read_bytes()
    for place in range(0, len(content), 7) if damage == "flip" else [0]:
        flipped = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        path.write_bytes({"flip": flipped, "truncate": content[:-9], "empty": b""}[damage])
        np.testing.assert_array_equal(teacher_vectors(str(folder), TEXTS, cache), vectors)
    assert str(path) in caplog.text and "it is computed again" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        teacher_vectors(str(folder), TEXTS, cache)
    assert sorted(each.name for each in path.parent.iterdir()) == names and len(names) == 3


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
