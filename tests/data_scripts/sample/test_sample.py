"""The sample dataset: what `sample` writes, and what it promises of its splits."""

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import DatasetDict, load_dataset

from data_scripts.__main__ import main
from data_scripts.loading import load_pairs
from data_scripts.public.nli import load_nli
from data_scripts.public.stsb import load_stsb
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


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("dear reader", encoding="utf-8")
    assert main(["sample", "--output", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert (tmp_path / "letter.txt").exists()


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


def test_no_thread_premise_or_scored_sentence_is_in_two_splits(sample: Path, pairs: DatasetDict) -> None:
    threads = [set(rows["thread"]) for rows in pairs.values()]
    premises = [set(rows["premise"]) for rows in load_nli(str(sample / "nli")).values()]
    sentences = [{*rows["sentence1"], *rows["sentence2"]} for rows in load_stsb(str(sample / "sts")).values()]
    for splits in (threads, premises, sentences):
        assert len(splits) == 3 and all(not one & other for one, other in combinations(splits, 2))


def test_nli_labels_are_equally_frequent(sample: Path) -> None:
    for rows in load_nli(str(sample / "nli")).values():
        assert len(set(Counter(rows["label"]).values())) == 1


def test_datasets_loads_each_configuration_by_the_card(sample: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert load_dataset(str(sample), cache_dir=cache).column_names["train"] == ["input", "response", "thread", "source"]
    for name in ("nli", "sts"):
        whole = load_dataset(str(sample), name, cache_dir=cache)
        assert whole.num_rows == load_dataset(str(sample / name), cache_dir=cache).num_rows
