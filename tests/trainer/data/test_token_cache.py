"""Cached arrays and token ids are read as they were written, or computed again."""

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from modeling_convsim.files.errors import InputError
from tests.limits import file_size_limit
from trainer.data import token_cache
from trainer.data.token_cache import TokenColumn, token_columns

TEXTS = ["Hello you!", "", "the old dog runs", "zebra", "the old dog runs", "we walk . we eat . we see", "a [PAD] dog"]


def columns_of(texts: list[str], tokenizer: PreTrainedTokenizerFast, folder: Path, max_tokens: int = 5) -> TokenColumn:
    return token_columns(Dataset.from_dict({"a": texts}), ["a"], tokenizer, folder, max_tokens)["a"]


def ids_of(column: TokenColumn) -> list[list[int]]:
    ids, cu_seqlens = column.gather(np.arange(len(column)))
    assert (ids.dtype, cu_seqlens.dtype) == (np.int64, np.int64)
    return [ids[a:b].tolist() for a, b in itertools.pairwise(cu_seqlens)]


@pytest.mark.parametrize("chunk", [1, 4, 10_000])
@pytest.mark.parametrize("texts", [TEXTS, ["", ""], []])
def test_token_ids_are_the_tokenizers(tiny_tokenizer, tmp_path, monkeypatch, texts, chunk):
    monkeypatch.setattr(token_cache, "_CHUNK", chunk)
    expected = [tiny_tokenizer(text)["input_ids"][:5] for text in texts]  # first: it resets the tokenizer's truncation
    column = columns_of(texts, tiny_tokenizer, tmp_path)
    assert ids_of(column) == expected and column.ids.dtype == np.uint16
    assert [[a == b for b in column.keys] for a in column.keys] == [[a == b for b in texts] for a in texts]
    monkeypatch.setattr(token_cache, "_build", None)  # it is not tokenized again
    assert ids_of(columns_of(texts, tiny_tokenizer, tmp_path)) == expected


def test_rows_are_gathered_in_any_order(tiny_tokenizer, tmp_path):
    ids, cu_seqlens = columns_of(TEXTS, tiny_tokenizer, tmp_path).gather(np.array([5, 0, 1, 1, 3, 6]))
    expected = [tiny_tokenizer(TEXTS[row])["input_ids"][:5] for row in (5, 0, 1, 1, 3, 6)]
    assert [ids[a:b].tolist() for a, b in itertools.pairwise(cu_seqlens)] == expected


def test_an_entry_is_shared_by_equal_texts_alone(tiny_tokenizer, tmp_path, monkeypatch):
    special = copy.deepcopy(tiny_tokenizer)
    special.split_special_tokens = False
    other = tiny_tokenizer.train_new_from_iterator(TEXTS, vocab_size=20)
    entries = [
        (TEXTS, tiny_tokenizer, 5), ([*TEXTS[:-1], "we walk"], tiny_tokenizer, 5), (TEXTS, tiny_tokenizer, 51),
        (TEXTS, special, 5), (TEXTS, other, 5), (["we\x00", "walk"], other, 5), (["we", "\x00walk"], other, 5),
    ]  # fmt: skip
    for _ in range(2):
        for texts, tokenizer, max_tokens in entries:
            columns_of(texts, tokenizer, tmp_path, max_tokens)
    assert len(list(tmp_path.iterdir())) == len(entries)
    monkeypatch.setattr(token_cache, "_FORMAT", "other")
    columns_of(TEXTS, tiny_tokenizer, tmp_path)
    assert len(list(tmp_path.iterdir())) == len(entries) + 1


@pytest.mark.parametrize("name", ["ids.uint16", "offsets.int64", "keys.int64"])
@pytest.mark.parametrize("damage", ["truncate", "missing"])
def test_an_entry_that_lacks_a_file_or_its_end_is_built_again(tiny_tokenizer, tmp_path, caplog, name, damage):
    expected = ids_of(columns_of(TEXTS, tiny_tokenizer, tmp_path))
    (folder,) = tmp_path.iterdir()
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if damage == "truncate":
        (folder / name).write_bytes(content[:-2])
    assert ids_of(columns_of(TEXTS, tiny_tokenizer, tmp_path)) == expected
    assert f"{folder}: a file is missing or truncated; tokenizing its texts again" in caplog.text
    caplog.clear()
    columns_of(TEXTS, tiny_tokenizer, tmp_path)
    assert not caplog.text and list(tmp_path.iterdir()) == [folder]


def test_ids_beyond_16_bits_are_stored_in_32(tmp_path):
    words = 2**16 + 1
    backend = Tokenizer(models.WordLevel({f"w{index}": index for index in range(words)}, unk_token="w0"))
    column = columns_of([f"w{words - 1}", "w1"], PreTrainedTokenizerFast(tokenizer_object=backend), tmp_path)
    assert column.ids.dtype == np.int32 and ids_of(column) == [[words - 1], [1]]


def test_two_runs_that_build_an_entry_at_once_read_the_same_tokens(tiny_tokenizer, tmp_path):
    texts = TEXTS * 3000
    with ThreadPoolExecutor(2) as pool:  # not processes: forking one that has threads can crash the child
        columns = pool.map(lambda _: columns_of(texts, copy.deepcopy(tiny_tokenizer), tmp_path / "shared"), range(2))
        first, second = map(ids_of, columns)
    assert first == second == ids_of(columns_of(texts, tiny_tokenizer, tmp_path / "alone"))
    assert len(list((tmp_path / "shared").iterdir())) == 1


def test_an_entry_that_cannot_be_written_is_an_error(tiny_tokenizer, tmp_path):
    with file_size_limit(799), pytest.raises(InputError, match="cannot be written"):  # 400 ids of two bytes
        columns_of(["the old dog runs"] * 100, tiny_tokenizer, tmp_path)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match=r"cache\S* cannot be "):
        columns_of(TEXTS, tiny_tokenizer, tmp_path / "cache")
