"""SNLI, MultiNLI and others in all formats: counts of real files, and damaged files."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from data_scripts.__main__ import main
from data_scripts.public.nli import load_nli
from modeling_convsim.files.errors import InputError

ROWS = [
    ("A girl juggles.", "A child performs.", "entailment"),
    ("A girl juggles.", "The girl is paid.", "neutral"),
    ("A girl juggles.", "Nobody moves.", "contradiction"),
]


def official(premise: str, hypothesis: str, label: str) -> bytes:
    fields = {"gold_label": label, "sentence1": premise, "sentence2": hypothesis, "pairID": "1", "annotator_labels": []}
    return json.dumps(fields).encode() + b"\n"


def write_official(folder: Path, extra: bytes = b"", names: tuple[str, ...] = ("dev",)) -> Path:
    for name in names:
        lines = b"".join(official(*row) for row in ROWS) + extra
        (folder / f"snli_1.0_{name}.jsonl").write_bytes(lines)
    return folder


def rows_of(split: Dataset) -> list[tuple[str, str, str]]:
    names = split.features["label"].names
    return [(row["premise"], row["hypothesis"], names[row["label"]]) for row in split]


@pytest.mark.parametrize("line", [b'{"gold_label": "neut\n', b'{"gold_label": "\xff"}\n', b"[1]\n"])
def test_a_broken_line_is_counted_with_file_and_line_and_the_others_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    splits = load_nli(str(write_official(tmp_path, line)))
    assert rows_of(splits["validation"]) == ROWS
    assert "1 lines left out" in caplog.text and "snli_1.0_dev.jsonl:4: " in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (official("One.", "Two.", "3"), r"snli_1.0_dev.jsonl:4: label '3'; expected entailment"),
        (official("One.", "Two.", "neutral").replace(b'"One."', b"1"), r"dev.jsonl:4: premise and hypothesis must be"),
        (b'{"premise": "One."}\n', r"snli_1.0_dev.jsonl:4: no column hypothesis, label; expected premise \(or"),
        (b"".join(official("One.", "Two.", f"text {number}") for number in range(200)), "more than 100 different ones"),
    ],
)
def test_a_wrong_label_or_field_is_refused_with_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_nli(str(write_official(tmp_path, line)))


def columns(labels: list[Any], label: Any) -> Dataset:
    premises, hypotheses = [row[0] for row in ROWS], [row[1] for row in ROWS]
    features = Features({"premise": Value("string"), "hypothesis": Value("string"), "label": label})
    data = {"premise": premises[: len(labels)], "hypothesis": hypotheses[: len(labels)], "label": labels}
    return Dataset.from_dict(data, features=features)


def test_a_copy_with_its_own_order_of_labels_is_read_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    label = ClassLabel(names=["contradiction", "entailment", "neutral"])
    monkeypatch.setattr(datasets, "load_dataset", lambda name: DatasetDict({"test": columns([1, 2, 0], label)}))
    assert rows_of(load_nli("some/copy")["test"]) == ROWS


@pytest.mark.parametrize(
    ("label", "values", "message"),
    [
        (Value("int64"), [0, 1, 3], "row 3: label 3"),
        (Value("int64"), [0, None, 1], "row 2: label None"),
        (Value("string"), ["neutral", "7", "neutral"], "row 2: label '7'"),
    ],
)
def test_parquet_with_a_wrong_label_is_refused_with_split_and_row(
    tmp_path: Path, label: Value, values: list[Any], message: str
) -> None:
    columns(values, label).to_parquet(tmp_path / "test.parquet")
    with pytest.raises(InputError, match=f"split test, {message}"):
        load_nli(str(tmp_path))


def test_command_writes_splits_that_load_back_and_reports_every_count(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_official(source, official("One.", "Two.", "-") + b"{\n", names=("train", "test"))
    assert main(["nli", str(source), "-o", str(tmp_path / "out")]) == 0
    assert rows_of(load_nli(str(tmp_path / "out"))["train"]) == ROWS
    assert rows_of(datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))["test"]) == ROWS
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert list(report) == ["train", "test", "lines left out", "first lines left out"]
    assert report["test"] == {"from": str(source), "rows": 3, "without a gold label": 1}
    assert report["lines left out"] == {"not JSON": 2}
    assert "snli_1.0_train.jsonl:5: not JSON" in report["first lines left out"][0]


def test_the_two_dev_splits_of_multinli_stay_separate_and_load_back(tmp_path: Path) -> None:
    source = tmp_path / "multinli_1.0"
    source.mkdir()
    for name, rows in (("train", ROWS), ("dev_matched", ROWS[:2]), ("dev_mismatched", ROWS[2:])):
        lines = b"".join(official(*row) for row in rows)
        (source / f"multinli_1.0_{name}.jsonl").write_bytes(lines)
    assert main(["nli", str(source), "-o", str(tmp_path / "out")]) == 0
    for splits in (load_nli(str(source)), load_nli(str(tmp_path / "out"))):
        assert {name: rows_of(split) for name, split in splits.items()} == {
            "train": ROWS,
            "validation_matched": ROWS[:2],
            "validation_mismatched": ROWS[2:],
        }


TABLES = {
    "numbers.tsv": 'id\tpremise\thypothesis\tlabel\n0\tA "cat.\tAn animal.\t0\n1\tA cat.\tA dog.\t2\n',
    "letters.jsonl": '{"uid": 1, "context": "A \\"cat.", "hypothesis": "An animal.", "label": "e"}\n'
    '{"uid": 2, "context": "A cat.", "hypothesis": "A dog.", "label": "c"}\n',
    "words.csv": 'sentence1,sentence2,label\n"A ""cat.",An animal.,Entailment\nA cat.,"A dog.",contradiction\n',
    "official.txt": 'gold_label\tsentence1\tsentence2\nentailment\tA "cat.\tAn animal.\n'
    "contradiction\tA cat.\tA dog.\n",
    "SICK.txt": "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\n"
    '1\tA "cat.\tAn animal.\tENTAILMENT\t4.5\n2\tA cat.\tA dog.\tCONTRADICTION\t2\n',
    "SICK_2014.txt": "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    '1\tA "cat.\tAn animal.\t4.5\tENTAILMENT\n2\tA cat.\tA dog.\t2\tCONTRADICTION\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_any_format_and_spelling_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TABLES[name])
    splits = load_nli(str(tmp_path / name))
    assert list(splits) == ["train"]  # its name contains no split
    assert rows_of(splits["train"]) == [('A "cat.', "An animal.", "entailment"), ("A cat.", "A dog.", "contradiction")]


def test_several_languages_are_refused(tmp_path: Path) -> None:
    rows = [f"{code}\tneutral\tpremise {code}\thypothesis" for code in ("ar", "en", "de")]
    path = tmp_path / "xnli.dev.tsv"
    path.write_text("\n".join(["language\tgold_label\tsentence1\tsentence2", *rows]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"xnli.dev.tsv:3: not in the same language .* \(ar, en.* a separate file"):
        load_nli(str(path))


def test_the_four_premises_of_multi_premise_entailment_are_joined(tmp_path: Path) -> None:
    header = "ID\tpremise1\tpremise2\tpremise3\tpremise4\thypothesis\tgold_label\n"
    premises = "\t".join(f"12.jpg#{i}/Premise {i}." for i in range(4))
    (tmp_path / "mpe_dev.txt").write_text(f"{header}1\t{premises}\tSo.\tneutral\n")
    (tmp_path / "mpe_train.txt").write_text(f"{header}1\t{premises}\tHence.\tneutral\n")
    (tmp_path / "README.txt").write_text("Multi-Premise Entailment\n")
    splits = load_nli(str(tmp_path / "mpe_dev.txt"))
    assert rows_of(splits["validation"]) == [("Premise 0. Premise 1. Premise 2. Premise 3.", "So.", "neutral")]
    splits = load_nli(str(tmp_path))
    assert {name: rows_of(rows)[0][1] for name, rows in splits.items()} == {"train": "Hence.", "validation": "So."}


def test_labels_in_any_spelling_are_numbers(tmp_path: Path) -> None:
    labels = ("entails", "Entailment", " neutral ", "N", "1", "c", "2", "CONTRADICTION")
    lines = [json.dumps({"premise": "a", "hypothesis": "b", "label": label}) for label in labels]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines))
    assert load_nli(str(tmp_path / "dev.jsonl"))["validation"]["label"][:] == [0, 0, 1, 1, 1, 2, 2, 2]


def test_rows_without_one_of_the_labels_are_counted(tmp_path: Path) -> None:
    labels = ["neutral", "-", "-1", "", " - ", "not_entailment"]
    lines = [json.dumps({"premise": "a", "hypothesis": "b", "label": label}) for label in labels]
    (tmp_path / "test.jsonl").write_text("\n".join(lines))
    assert main(["nli", str(tmp_path / "test.jsonl"), "-o", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["test"] == {
        "from": str(tmp_path / "test.jsonl"),
        "rows": 1,
        "without a gold label": 4,
        "labeled not_entailment": 1,
    }


def test_rounds_of_a_train_split_are_joined_and_a_configuration_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    label = ClassLabel(names=["entailment", "neutral", "contradiction"])
    asked = []

    def load_dataset(*names: str, **options: str) -> DatasetDict:
        asked.append((names, options))
        return DatasetDict({name: columns([0, 1, 2], label) for name in ("train_r1", "dev_r1", "train_r2")})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    splits = load_nli("facebook/anli:plain_text@main")
    assert asked == [(("facebook/anli", "plain_text"), {"revision": "main"})]
    assert {name: rows_of(split) for name, split in splits.items()} == {"train": ROWS + ROWS, "validation_r1": ROWS}


@pytest.mark.parametrize(
    ("name", "split", "counts"),
    [
        # As plain readers count them (csv.DictReader; cut and sort).
        ("multinli_1.0_dev_matched.csv", "validation_matched", (3479, 3123, 3213)),
        ("multinli_1.0_dev_mismatched.csv", "validation_mismatched", (3463, 3129, 3240)),
        ("xnli/xnli_test_en.tsv", "test", (1670, 1670, 1670)),
        ("mpe/mpe_train.txt", "train", (2584, 2092, 3324)),
        ("counterfactual-snli/revised_combined-train.tsv", "train", (2208, 2224, 2232)),
    ],
)
def test_real_sets_have_the_labels_that_a_plain_reader_counts(
    data_dir: Path, name: str, split: str, counts: tuple[int, ...]
) -> None:
    splits = load_nli(str(data_dir / "nli" / name))
    assert tuple(Counter(splits[split]["label"])[label] for label in range(3)) == counts
