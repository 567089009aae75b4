import itertools
import multiprocessing

import numpy as np
import pytest
from datasets import Dataset

from trainer.data.token_cache import token_columns

TEXTS = ["Hello you!", "", "the old dog runs", "zebra", "the old dog runs", "we walk . we eat . we see"]


@pytest.fixture
def dataset():
    return Dataset.from_dict({"input": TEXTS, "response": list(reversed(TEXTS))})


def test_gathered_rows_are_the_tokenizers(dataset, tiny_tokenizer, tmp_path):
    column = token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)["input"]
    rows = np.array([5, 0, 1, 1, 3])
    ids, cu_seqlens = column.gather(rows)
    expected = [tiny_tokenizer(TEXTS[row])["input_ids"][:5] for row in rows]
    assert [ids[a:b].tolist() for a, b in itertools.pairwise(cu_seqlens)] == expected
    assert (ids.dtype, cu_seqlens.dtype) == (np.int64, np.int64)


def test_keys_are_equal_for_equal_texts_only(dataset, tiny_tokenizer, tmp_path):
    keys = token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)["input"].keys
    assert [[a == b for b in keys] for a in keys] == [[a == b for b in TEXTS] for a in TEXTS]


def test_a_cached_column_is_not_tokenized_again(dataset, tiny_tokenizer, tmp_path, monkeypatch):
    token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)
    monkeypatch.setattr("trainer.data.token_cache._build", None)
    assert len(token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)["input"]) == len(TEXTS)


@pytest.mark.parametrize("change", ["text", "tokenizer", "max_tokens"])
def test_a_change_creates_a_new_entry(dataset, tiny_tokenizer, tmp_path, change):
    token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)
    max_tokens = 5
    if change == "text":
        dataset = Dataset.from_dict({"input": [*TEXTS[:-1], "we walk"]})
    elif change == "max_tokens":
        max_tokens = 4
    else:
        tiny_tokenizer = tiny_tokenizer.train_new_from_iterator(TEXTS, vocab_size=20)
    token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=max_tokens)
    assert len(list(tmp_path.iterdir())) == 2


def test_only_empty_texts(tiny_tokenizer, tmp_path):
    column = token_columns(Dataset.from_dict({"a": ["", ""]}), ["a"], tiny_tokenizer, tmp_path, max_tokens=5)["a"]
    ids, cu_seqlens = column.gather(np.array([0, 1]))
    assert ids.tolist() == [] and cu_seqlens.tolist() == [0, 0, 0]


def _build(arguments):
    texts, tokenizer, folder = arguments
    column = token_columns(
        Dataset.from_dict({"a": texts}), ["a"], tokenizer, folder, max_tokens=5, show_progress=False
    )["a"]
    return column.gather(np.arange(len(texts)))[0].tolist()


def test_two_runs_that_build_an_entry_at_once_read_the_same_tokens(tiny_tokenizer, tmp_path):
    texts = TEXTS * 3000
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        first, second = pool.map(_build, [(texts, tiny_tokenizer, tmp_path)] * 2)
    assert first == second == _build((texts, tiny_tokenizer, tmp_path / "alone"))
    assert len([path for path in tmp_path.iterdir() if path.name != "alone"]) == 1
