"""The sample dataset: what `sample` writes, and what it promises of its splits."""

import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import DatasetDict, load_dataset

from data_scripts.__main__ import main
from data_scripts.loading import load_pairs
from data_scripts.sample import FOLDER

CONTRACTIONS = {"what's": "what is", "how're": "how are", "you're": "you are"}
FIGURE_1 = ("how old are you", "what is your age", "how are you")


def words(text: str) -> str:
    """The text's words in lower case, contractions written out, one space between them."""
    text = text.lower().replace("’", "'")
    for short, long in CONTRACTIONS.items():
        text = text.replace(short, long)
    return " ".join(re.findall(r"\w+", text))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "out"
    assert main(["sample", "--output", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def pairs(sample: Path) -> DatasetDict:
    return load_pairs(str(sample))


def test_the_sample_does_not_contain_the_sentences_of_figure_1() -> None:
    texts = [
        value
        for path in FOLDER.rglob("*.parquet")
        for column in pq.read_table(path).to_pydict().values()
        for value in column
        if isinstance(value, str)
    ]
    assert len(texts) > 50_000
    found = [text for text in set(texts) for line in FIGURE_1 if f" {line} " in f" {words(text)} "]
    assert found == []


def test_no_held_out_response_is_trained_on_and_a_query_has_one_right_response(pairs: DatasetDict) -> None:
    trained = set(map(words, pairs["train"]["response"]))
    for split in ("validation", "test"):
        assert not trained & set(map(words, pairs[split]["response"]))
        assert max(Counter(map(words, pairs[split]["input"])).values()) == 1


def test_datasets_loads_each_configuration_by_the_card(sample: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert load_dataset(str(sample), cache_dir=cache).column_names["train"] == ["input", "response", "thread", "source"]
    for name in ("nli", "sts"):
        whole = load_dataset(str(sample), name, cache_dir=cache)
        assert whole.num_rows == load_dataset(str(sample / name), cache_dir=cache).num_rows
