"""No training row holds a sentence of an evaluation split; the share of SNLI is a random sample of what remains."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from datasets import Dataset, DatasetDict

from modeling_convsim.files.errors import InputError
from trainer.data.datasets import (
    DATASET_KINDS,
    RunData,
    load_run_data,
    training_text_columns,
    training_texts,
)

SPLITS = ("train", "validation", "test", "test2017")
COLUMNS = {
    "snli": ("premise", "hypothesis"),
    "stsb": ("sentence1", "sentence2"),
    "cqa": ("query", "candidate"),
    "pairs": ("input", "response"),
    "sts": ("sentence1", "sentence2"),
}
# The names in `leakage` of every split that is evaluated.
EVALUATED = {
    **{(kind, "validation"): f"{kind} dev" for kind in ("snli", "stsb", "cqa")},
    **{(kind, split): f"{kind} {split}" for kind in ("snli", "stsb", "cqa") for split in ("test", "test2017")},
    ("sts", "2012"): "sts 2012 OnWN",
    ("sts", "2014"): "sts 2014 OnWN",
}


def sentence(kind: str, split: str, column: str, row: int = 0) -> str:
    return f"The {column} of {kind}, {split}, number {row}."


def split_of(kind: str, split: str) -> Dataset:
    return Dataset.from_dict({name: [sentence(kind, split, name, row) for row in range(3)] for name in COLUMNS[kind]})


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Options of a run with every dataset that is evaluated; nothing is read from files."""
    sources = {kind: DatasetDict({split: split_of(kind, split) for split in SPLITS}) for kind in COLUMNS}
    sources["sts"] = {year: {"OnWN": split_of("sts", year)} for year in ("2012", "2014")}
    for name, splits in sources.items():
        kind = replace(DATASET_KINDS[name], load=lambda source, splits=splits: splits)
        monkeypatch.setitem(DATASET_KINDS, name, kind)
    return SimpleNamespace(snli_share=1, seed=0, **{kind: "somewhere" for kind in sources}, nli=None)


def train_on(monkeypatch: pytest.MonkeyPatch, kind: str, rows: Dataset) -> None:
    splits = DATASET_KINDS[kind].load("somewhere")
    others = {name: split for name, split in splits.items() if name != "train"}
    loaded = DatasetDict({"train": rows, **others})
    monkeypatch.setitem(DATASET_KINDS, kind, replace(DATASET_KINDS[kind], load=lambda source: loaded))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("trained", ["pairs", "snli"])
def test_each_sentence_of_each_evaluation_split_is_removed_from_the_training_data(options, monkeypatch, trained, side):
    leaks = [(key, name) for key in EVALUATED for name in COLUMNS[key[0]]]
    # Sentences of the training splits of other datasets may be trained on, and so may texts of held-out conversations.
    allowed = [sentence("stsb", "train", "sentence1"), sentence("pairs", "test", "input"), "Nothing of this leaks."]
    texts = [*(sentence(kind, split, name, 2).upper() for (kind, split), name in leaks), *allowed]
    other = [f"another text, {number}" for number in range(len(texts))]
    columns = (texts, other) if side == 0 else (other, texts)
    train_on(monkeypatch, trained, Dataset.from_dict(dict(zip(COLUMNS[trained], columns, strict=True))))
    data = load_run_data(options)
    assert data.training[trained][COLUMNS[trained][side]] == allowed
    counts = {name: 2 for name in EVALUATED.values()}  # one row for each of both columns
    assert data.leakage[trained] == {**counts, "removed": len(leaks)}


def test_training_splits_are_no_evaluation_data(options: SimpleNamespace) -> None:
    data = load_run_data(options)
    assert set(data.training) == {"pairs", "snli"}
    assert "train" not in data.evaluation["pairs"] and "train" not in data.evaluation["snli"]
    assert "train" in data.evaluation["stsb"]  # the matrix is tuned on it
    assert data.leakage["pairs"]["removed"] == data.leakage["snli"]["removed"] == 0
    assert sorted(training_texts(data)) == sorted(
        sentence(kind, "train", name, row) for kind in ("pairs", "snli") for row in range(3) for name in COLUMNS[kind]
    )


def test_the_share_of_snli_is_a_random_sample_of_the_remaining_rows(options, monkeypatch):
    leaked = [sentence("stsb", "test", "sentence1")] * 100
    remaining = [f"premise {number}" for number in range(201)]
    rows = Dataset.from_dict({"premise": [*leaked, *remaining], "hypothesis": ["so"] * 301})
    train_on(monkeypatch, "snli", rows)

    def sample(share: float, seed: int) -> list[str]:
        options.snli_share, options.seed = share, seed
        return load_run_data(options).training["snli"]["premise"][:]

    half = sample(0.5, 0)
    assert len(half) == len(set(half)) == round(201 / 2) and set(half) <= set(remaining)
    first = sum(int(text.split()[1]) < 100 for text in half)
    assert 35 <= first <= 65  # 50 expected, standard deviation 3.5
    assert half == sample(0.5, 0) and set(half) != set(sample(0.5, 1))
    assert sample(1, 3) == remaining and len(sample(0.25, 0)) == 50


def source_of(names: tuple[str, ...], text: str = "text") -> Dataset:
    return Dataset.from_dict({name: [f"{name} {text}"] for name in names})


def test_every_source_of_a_kind_is_a_dataset_named_after_its_folder(options, monkeypatch):
    def load(source: str) -> DatasetDict:
        return DatasetDict({"train": source_of(("premise", "hypothesis"), source), "test": source_of(("premise",))})

    monkeypatch.setitem(DATASET_KINDS, "nli", replace(DATASET_KINDS["nli"], load=load))
    options.nli = ["data/one/", "someone/two"]
    data = load_run_data(options)
    premises = {name: rows["premise"][:] for name, rows in data.named("nli").items()}
    assert premises == {"one": ["premise data/one/"], "two": ["premise someone/two"]}
    assert set(data.leakage) == {"pairs", "snli", "nli/one", "nli/two"} and "nli" not in data.evaluation
    options.nli = ["data/one", "b", "other/one/"]
    with pytest.raises(InputError, match="nli has two datasets named one: rename one of the folders"):
        load_run_data(options)
    monkeypatch.setitem(
        DATASET_KINDS, "nli", replace(DATASET_KINDS["nli"], load=lambda source: {"dev": None, "test": None})
    )
    options.nli = ["one"]
    with pytest.raises(InputError, match=r"^nli: one has no training split; it has dev, test$"):
        load_run_data(options)


def test_sources_of_pairs_are_trained_on_separately_and_evaluated_together(options, monkeypatch):
    def load(source: str) -> DatasetDict:
        splits = {"a": ("train", "validation"), "b": ("train", "test")}[source]
        return DatasetDict({split: source_of(COLUMNS["pairs"], f"{split} {source}") for split in splits})

    monkeypatch.setitem(DATASET_KINDS, "pairs", replace(DATASET_KINDS["pairs"], load=load))
    options.pairs = ["a", "b"]
    data = load_run_data(options)
    assert {name: rows["input"][:] for name, rows in data.named("pairs").items()} == {
        "a": ["input train a"],
        "b": ["input train b"],
    }
    assert data.of_kind("pairs").keys() == {"pairs/a", "pairs/b"} and "train" not in data.evaluation["pairs"]
    data.leakage = {"pairs/a": {"removed": 1, "stsb dev": 1}, "pairs/b": {"removed": 2}, "snli": {"removed": 3}}
    data.join_sources("pairs")
    assert data.training["pairs"]["input"][:] == ["input train a", "input train b"] and not data.named("pairs")
    assert data.leakage == {"snli": {"removed": 3}, "pairs": {"removed": 3, "stsb dev": 1}}
    data.join_sources("pairs")  # nothing is left to join
    assert len(data.training["pairs"]) == 2
    assert {split: rows["response"][:] for split, rows in data.evaluation["pairs"].items()} == {
        "validation": ["response validation a"],
        "test": ["response test b"],
    }


def _pairs(*rows: str) -> Dataset:
    return Dataset.from_list([dict(zip(("input", "response"), row.split("|"), strict=True)) for row in rows])


def test_a_pair_that_another_source_holds_out_is_no_training_pair(options, monkeypatch):
    sources = {
        "a": DatasetDict(
            train=_pairs("of a|1", "held by b|2", "HELD by c|3", "held by a|4"), test=_pairs("held by a|4")
        ),
        "b": DatasetDict(train=_pairs("of b|5", "held by a|4"), validation=_pairs("Held by b|2", "of b|5")),
        "c": DatasetDict(train=_pairs("held by b|another", "held by |a4"), test=_pairs("held by c|3")),
    }
    monkeypatch.setitem(DATASET_KINDS, "pairs", replace(DATASET_KINDS["pairs"], load=lambda source: sources[source]))
    monkeypatch.setattr("trainer.data.datasets.HASHED_TOGETHER", 3)
    options.pairs = ["a", "b", "c"]
    data = load_run_data(options)
    # A source separates its own splits by thread.
    assert {name: rows["input"][:] for name, rows in data.named("pairs").items()} == {
        "a": ["of a", "held by a"],
        "b": ["of b"],
        "c": ["held by b", "held by "],
    }
    leaks = {name: {key: count for key, count in counts.items() if count} for name, counts in data.leakage.items()}
    assert leaks["pairs/a"] == {"pairs dev": 1, "pairs test": 1, "removed": 2}
    assert leaks["pairs/b"] == {"pairs test": 1, "removed": 1} and leaks["pairs/c"] == {}


def test_a_pair_of_several_sources_is_used_once(options, monkeypatch, caplog):
    sources = {
        "a": DatasetDict(train=_pairs("one|1", "two|2", "two|2")),  # repetitions within a source are its own
        "b": DatasetDict(train=_pairs("TWO|2", "one|2", "held|0", "new|3"), test=_pairs("of the test|0")),
        "c": DatasetDict(
            train=_pairs("new|3", "one|1", "held|0", "of c|4"),
            validation=_pairs("held|0"),
            test=_pairs("OF THE TEST|0", "of the test|1", "last|2", "last|2"),
        ),
    }
    monkeypatch.setitem(DATASET_KINDS, "pairs", replace(DATASET_KINDS["pairs"], load=lambda source: sources[source]))
    options.pairs = ["a", "b", "c"]
    data = load_run_data(options)
    assert {name: rows["input"][:] for name, rows in data.named("pairs").items()} == {
        "a": ["one", "two", "two"],
        "b": ["one", "new"],
        "c": ["held", "of c"],
    }
    assert data.leakage["pairs/b"]["removed"] == 1 and data.leakage["pairs/c"]["removed"] == 0
    assert data.evaluation["pairs"]["test"]["input"][:] == ["of the test", "of the test", "last", "last"]
    assert data.evaluation["pairs"]["test"]["response"][:] == ["0", "1", "2", "2"]
    assert [record.getMessage() for record in caplog.records if "also in" in record.getMessage()] == [
        "test split: left out 1 pairs that are also in an earlier dataset",
        "pairs/b: removed 1 training pairs that are also in pairs/a",
        "pairs/c: removed 1 training pairs that are also in pairs/a",
        "pairs/c: removed 1 training pairs that are also in pairs/b",
    ]


def test_an_image_with_an_evaluation_sentence_is_removed_with_all_its_captions(options, monkeypatch):
    captions = [["one", sentence("stsb", "test", "sentence2")], ["two", "three"], []]
    images = {"train": Dataset.from_dict({"group": ["x", "y", "z"], "captions": captions, "size": [1, 2, 3]})}
    monkeypatch.setattr("trainer.data.datasets.load_captions", lambda source: images)
    options.captions = ["somewhere"]
    data = load_run_data(options)
    assert data.training["captions/somewhere"].to_list() == [
        {"group": "y", "caption": "two"}, {"group": "y", "caption": "three"},
    ]  # fmt: skip
    assert data.leakage["captions/somewhere"]["removed"] == 2 and data.leakage["captions/somewhere"]["stsb test"] == 1


def test_the_columns_of_texts_are_those_of_the_kind_or_are_found_by_name() -> None:
    rows = {
        "nli/a": source_of(("text", "premise", "hypothesis", "label")),
        "documents/b": source_of(("book", "sentence")),
    }
    assert training_text_columns(RunData(rows)) == {"nli/a": ["premise", "hypothesis"], "documents/b": ["sentence"]}
    turns = Dataset.from_dict({"input": ["b"], "response": ["c"], "context": [["a"]]})  # which other rows have too
    assert training_text_columns(RunData({"documents/pairs": turns})) == {"documents/pairs": ["input", "response"]}
