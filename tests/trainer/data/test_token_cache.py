import copy
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from tests.limits import file_size_limit
from trainer.data import token_cache
from trainer.data.token_cache import token_columns

TEXTS = ["Hello you!", "", "the old dog runs", "zebra", "the old dog runs", "we walk . we eat . we see", "a [PAD] dog"]


@pytest.fixture
def dataset():
    return Dataset.from_dict({"input": TEXTS, "response": list(reversed(TEXTS))})


def test_gathered_rows_are_the_tokenizers(dataset, tiny_tokenizer, tmp_path):
    column = token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)["input"]
    rows = np.array([5, 0, 1, 1, 3, 6])
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


@pytest.mark.parametrize("change", ["text", "tokenizer", "special tokens", "max_tokens"])
def test_a_change_creates_a_new_entry(dataset, tiny_tokenizer, tmp_path, change):
    token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)
    max_tokens = 5
    if change == "text":
        dataset = Dataset.from_dict({"input": [*TEXTS[:-1], "we walk"]})
    elif change == "max_tokens":
        max_tokens = 4
    elif change == "special tokens":
        tiny_tokenizer = copy.deepcopy(tiny_tokenizer)
        tiny_tokenizer.split_special_tokens = False
    else:
        tiny_tokenizer = tiny_tokenizer.train_new_from_iterator(TEXTS, vocab_size=20)
    token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=max_tokens)
    assert len(list(tmp_path.iterdir())) == 2


def damage_file(path: Path, damage: str) -> None:
    content = path.read_bytes()
    damaged = {"flip": content[:-1] + bytes([content[-1] ^ 1]), "truncate": content[:-2], "empty": b""}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])


@pytest.mark.parametrize("name", ["ids.uint16", "offsets.npy", "keys.npy", "manifest.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "missing"])
def test_a_damaged_entry_is_built_again(dataset, tiny_tokenizer, tmp_path, caplog, name, damage):
    whole = token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)["input"]
    ids, keys = whole.gather(np.arange(len(TEXTS)))[0].copy(), whole.keys.copy()
    (folder,) = tmp_path.iterdir()
    damage_file(folder / name, damage)
    again = token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)["input"]
    np.testing.assert_array_equal(again.gather(np.arange(len(TEXTS)))[0], ids)
    np.testing.assert_array_equal(again.keys, keys)
    assert f"{folder}: damaged (" in caplog.text and "its texts are tokenized again" in caplog.text
    caplog.clear()
    token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)
    assert not caplog.text and list(tmp_path.iterdir()) == [folder]


def test_texts_that_are_divided_differently_have_entries_of_their_own(tiny_tokenizer, tmp_path):
    for texts in (["we\x00", "walk"], ["we", "\x00walk"]):
        token_columns(Dataset.from_dict({"a": texts}), ["a"], tiny_tokenizer, tmp_path, max_tokens=5)
    assert len(list(tmp_path.iterdir())) == 2


def test_no_two_combinations_of_limit_and_format_share_an_entry(dataset, tiny_tokenizer, tmp_path, monkeypatch):
    combinations = [(5, "12"), (51, "2"), (5, "2"), (51, "12")]
    for max_tokens, version in combinations:
        monkeypatch.setattr(token_cache, "_FORMAT", version)
        token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=max_tokens)
    assert len(list(tmp_path.iterdir())) == len(combinations)


def test_columns_of_the_same_texts_share_an_entry_and_all_others_do_not(dataset, tiny_tokenizer, tmp_path):
    columns = token_columns(dataset, ["input", "response"], tiny_tokenizer, tmp_path, max_tokens=5)
    assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_array_equal(columns["response"].keys, columns["input"].keys[::-1])
    renamed = Dataset.from_dict({"text": TEXTS})
    token_columns(renamed, ["text"], tiny_tokenizer, tmp_path, max_tokens=5)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("chunk", [1, 4, 5, 6])
def test_the_tokens_do_not_depend_on_the_texts_that_are_read_at_a_time(
    dataset, tiny_tokenizer, tmp_path, monkeypatch, chunk
):
    monkeypatch.setattr(token_cache, "_CHUNK", chunk)
    column = token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)["input"]
    ids, cu_seqlens = column.gather(np.arange(len(TEXTS)))
    expected = [tiny_tokenizer(text)["input_ids"][:5] for text in TEXTS]
    assert [ids[a:b].tolist() for a, b in itertools.pairwise(cu_seqlens)] == expected and len(column) == len(TEXTS)


def test_ids_beyond_16_bits_are_stored_in_32(tmp_path):
    words = 2**16 + 1
    backend = Tokenizer(models.WordLevel({f"w{index}": index for index in range(words)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    texts = Dataset.from_dict({"a": [f"w{words - 1}", "w1"]})
    column = token_columns(texts, ["a"], tokenizer, tmp_path, max_tokens=5)["a"]
    assert column.ids.dtype == np.int32 and column.gather(np.array([0, 1]))[0].tolist() == [words - 1, 1]


def test_a_cache_that_cannot_be_written_is_refused_in_one_line(dataset, tiny_tokenizer, tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match=r"cache/.*: cannot be written .*--cache_dir"):
        token_columns(dataset, ["input"], tiny_tokenizer, tmp_path / "cache", max_tokens=5)


def test_only_empty_texts(tiny_tokenizer, tmp_path):
    column = token_columns(Dataset.from_dict({"a": ["", ""]}), ["a"], tiny_tokenizer, tmp_path, max_tokens=5)["a"]
    ids, cu_seqlens = column.gather(np.array([0, 1]))
    assert ids.tolist() == [] and cu_seqlens.tolist() == [0, 0, 0] and column.ids.dtype == np.uint16


def _build(arguments):
    texts, tokenizer, folder = arguments
    column = token_columns(
        Dataset.from_dict({"a": texts}), ["a"], tokenizer, folder, max_tokens=5, show_progress=False
    )["a"]
    return column.gather(np.arange(len(texts)))[0].tolist()


def test_two_runs_that_build_an_entry_at_once_read_the_same_tokens(tiny_tokenizer, tmp_path):
    texts = TEXTS * 3000
    with ThreadPoolExecutor(2) as pool:  # not processes: forking one that has threads can crash the child
        first, second = pool.map(_build, [(texts, copy.deepcopy(tiny_tokenizer), tmp_path) for _ in range(2)])
    assert first == second == _build((texts, tiny_tokenizer, tmp_path / "alone"))
    assert len([path for path in tmp_path.iterdir() if path.name != "alone"]) == 1


def test_a_disk_that_is_full_before_the_last_token_is_an_error(tiny_tokenizer, tmp_path):
    dataset = Dataset.from_dict({"input": ["the old dog runs"] * 100})
    with file_size_limit(799), pytest.raises(InputError, match="cannot be written"):  # 400 ids of two bytes
        token_columns(dataset, ["input"], tiny_tokenizer, tmp_path, max_tokens=5)


@pytest.mark.parametrize("count", [0, 1, 6])
def test_arrays_that_are_written_in_parts_are_those_of_numpy_save(tiny_tokenizer, tmp_path, monkeypatch, count):
    monkeypatch.setattr(token_cache, "_CHUNK", 2)
    column = token_columns(Dataset.from_dict({"a": TEXTS[:count]}), ["a"], tiny_tokenizer, tmp_path, max_tokens=5)["a"]
    ids = [tiny_tokenizer(text)["input_ids"][:5] for text in TEXTS[:count]]
    assert column.ids.tolist() == list(itertools.chain.from_iterable(ids))
    assert column.offsets.tolist() == [0, *itertools.accumulate(map(len, ids))]
    for name, array in (("offsets", column.offsets), ("keys", column.keys)):
        np.save(tmp_path / "saved.npy", array)
        (file,) = tmp_path.glob(f"*/{name}.npy")
        assert file.read_bytes() == (tmp_path / "saved.npy").read_bytes()
