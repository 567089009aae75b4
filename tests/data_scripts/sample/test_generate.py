import json
import re
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import DatasetDict, load_dataset

from data_scripts.__main__ import main
from data_scripts.clean.text import normalize_text
from data_scripts.files.datasets import load_pairs
from data_scripts.public.nli import load_nli
from data_scripts.public.stsb import load_stsb
from data_scripts.sample.generate import read_premises, read_situations

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


def held_out(pairs: DatasetDict) -> list[dict[str, str]]:
    return [row for split in ("validation", "test") for row in pairs[split]]


def test_a_second_run_writes_the_same_bytes(sample: Path, tmp_path: Path) -> None:
    assert main(["sample", "--output", str(tmp_path / "again")]) == 0
    files = {path.relative_to(sample): path.read_bytes() for path in sample.rglob("*") if path.is_file()}
    again = {path.relative_to(tmp_path / "again") for path in (tmp_path / "again").rglob("*") if path.is_file()}
    assert again == set(files)
    assert len([name for name in files if name.suffix == ".parquet"]) == 9
    assert all((tmp_path / "again" / name).read_bytes() == content for name, content in files.items())


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("dear reader", encoding="utf-8")
    assert main(["sample", "--output", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err
    assert (tmp_path / "letter.txt").exists()


def test_the_sample_does_not_contain_the_sentences_of_figure_1(sample: Path) -> None:
    texts = [
        value
        for path in sample.rglob("*.parquet")
        for column in pq.read_table(path).to_pydict().values()
        for value in column
        if isinstance(value, str)
    ]
    assert len(texts) > 50_000
    found = [text for text in set(texts) for line in FIGURE_1 if f" {line} " in f" {words(text)} "]
    assert found == []


def test_no_held_out_response_is_trained_on(pairs: DatasetDict) -> None:
    trained = set(map(words, pairs["train"]["response"]))
    assert [row for row in held_out(pairs) if words(row["response"]) in trained] == []


def test_no_thread_is_in_two_splits(pairs: DatasetDict) -> None:
    threads = {split: set(rows["thread"]) for split, rows in pairs.items()}
    assert all(not threads[one] & threads[other] for one, other in combinations(threads, 2))


def test_a_held_out_filling_has_no_value_of_the_trained_ones(pairs: DatasetDict) -> None:
    trained = defaultdict(set)
    for thread in set(pairs["train"]["thread"]):
        situation, _, filling = thread.partition(": ")
        trained[situation].add(filling)
    for row in held_out(pairs):
        situation, _, filling = row["thread"].removesuffix(" (held out)").partition(": ")
        if filling and filling in row["response"]:  # the situation has one slot, and the reply says its value
            assert filling not in trained[situation], row


def test_each_held_out_situation_is_trained_on(pairs: DatasetDict) -> None:
    trained = {thread.partition(": ")[0] for thread in pairs["train"]["thread"]}
    assert {row["thread"].removesuffix(" (held out)").partition(": ")[0] for row in held_out(pairs)} <= trained


def test_a_query_has_one_right_response(pairs: DatasetDict) -> None:
    for split in ("validation", "test"):
        inputs = [words(text) for text in pairs[split]["input"]]
        assert max(Counter(inputs).values()) == 1


def test_no_input_belongs_to_two_situations(pairs: DatasetDict) -> None:
    situations = defaultdict(set)
    for rows in pairs.values():
        for text, thread in zip(rows["input"], rows["thread"], strict=True):
            situations[words(text)].add(thread.removesuffix(" (held out)").partition(": ")[0])
    assert {text: found for text, found in situations.items() if len(found) > 1} == {}


def test_situations_are_many_and_have_three_phrasings_on_each_side() -> None:
    blocks, slots = read_situations()
    assert len(blocks) >= 320
    texts = [
        normalize_text(text) for block in blocks for part in ([block.title], *block.texts.values()) for text in part
    ]
    assert len(texts) == len(set(texts))
    assert all(len(set(values)) == len(values) >= 6 for values in slots.values())
    assert len({block.domain for block in blocks}) >= 30
    assert min(len(texts) for block in blocks for texts in block.texts.values()) >= 3


def test_nli_labels_are_equally_frequent_and_no_premise_is_in_two_splits(sample: Path) -> None:
    nli = load_nli(str(sample / "nli"))
    for rows in nli.values():
        assert len(set(Counter(rows["label"]).values())) == 1
    premises = [set(rows["premise"]) for rows in nli.values()]
    assert all(not one & other for one, other in combinations(premises, 2))
    assert sum(nli.num_rows.values()) >= 3000
    assert len(read_premises()[0]) >= 140


def test_nli_gives_a_premise_and_hypothesis_one_label(sample: Path) -> None:
    labels = defaultdict(set)
    for rows in load_nli(str(sample / "nli")).values():
        for row in rows:
            labels[row["premise"], row["hypothesis"]].add(row["label"])
    assert {pair: found for pair, found in labels.items() if len(found) > 1} == {}


def test_sts_is_graded_and_no_sentence_is_in_two_splits(sample: Path) -> None:
    sts = load_stsb(str(sample / "sts"))
    for rows in sts.values():
        assert set(rows["score"]) == {0.0, 1.0, 3.0, 5.0}
        assert all(row["sentence1"] != row["sentence2"] for row in rows)
    sentences = [set(rows["sentence1"]) | set(rows["sentence2"]) for rows in sts.values()]
    assert all(not one & other for one, other in combinations(sentences, 2))


def test_datasets_loads_each_configuration_by_the_card(sample: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert load_dataset(str(sample), cache_dir=cache).column_names["train"] == ["input", "response", "thread", "source"]
    for name in ("nli", "sts"):
        whole = load_dataset(str(sample), name, cache_dir=cache)
        assert whole.num_rows == load_dataset(str(sample / name), cache_dir=cache).num_rows


def test_report_counts_what_is_written(sample: Path, pairs: DatasetDict) -> None:
    report = json.loads((sample / "report.json").read_text(encoding="utf-8"))
    assert report["pairs"] == pairs.num_rows
    assert report["situations"] == len(read_situations()[0])
