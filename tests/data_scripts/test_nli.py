"""SNLI from every form it comes in: counts on the real files, and what happens to damaged ones."""

import argparse
import gzip
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import datasets
import pytest
import zstandard
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from data_scripts import nli
from data_scripts.errors import InputError
from data_scripts.nli import load_snli

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


def test_official_files_give_three_splits_with_the_labels_in_the_order_of_the_hub(tmp_path: Path) -> None:
    splits = load_snli(str(write_official(tmp_path, names=("train", "dev", "test"))))
    assert list(splits) == ["train", "validation", "test"]
    for split in splits.values():
        assert split.features["label"].names == ["entailment", "neutral", "contradiction"]
        assert split["label"] == [0, 1, 2] and rows_of(split) == ROWS


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_compressed_files_are_read(tmp_path: Path, suffix: str) -> None:
    compress = {".zst": zstandard.ZstdCompressor().compress, ".gz": gzip.compress}[suffix]
    lines = b"".join(official(*row) for row in ROWS)
    (tmp_path / f"snli_1.0_test.jsonl{suffix}").write_bytes(compress(lines))
    assert rows_of(load_snli(str(tmp_path))["test"]) == ROWS


def test_a_whole_train_file_goes_before_a_part_of_it(tmp_path: Path) -> None:
    write_official(tmp_path, names=("train",))
    (tmp_path / "snli_train_partial.jsonl").write_bytes(official(*ROWS[0]))
    assert len(load_snli(str(tmp_path))["train"]) == 3
    (tmp_path / "snli_1.0_train.jsonl").unlink()
    assert len(load_snli(str(tmp_path))["train"]) == 1


def test_missing_splits_are_left_out_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert list(load_snli(str(write_official(tmp_path)))) == ["validation"]
    assert "no train split" in caplog.text and "no test split" in caplog.text


def test_rows_without_a_gold_label_are_dropped_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    splits = load_snli(str(write_official(tmp_path, official("One.", "Two.", "-") * 2)))
    assert rows_of(splits["validation"]) == ROWS
    assert "2 without a gold label" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        b'{"gold_label": "neut\n',
        b'{"gold_label": "\xff"}\n',
        b"\n",
        official("\ud83d", "Half.", "neutral"),
        b"[" * 10**5,
    ],
)
def test_a_broken_line_is_counted_with_file_and_line_and_the_rest_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    splits = load_snli(str(write_official(tmp_path, line)))
    assert rows_of(splits["validation"]) == ROWS
    assert "1 lines left out" in caplog.text and "snli_1.0_dev.jsonl:4: " in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (official("One.", "Two.", "maybe"), r"snli_1.0_dev.jsonl:4: label 'maybe'; expected entailment"),
        (b'{"premise": "One."}\n', r"snli_1.0_dev.jsonl:4: expected an object with the texts sentence1"),
        (b"[1]\n", r"snli_1.0_dev.jsonl:4: expected an object"),
    ],
)
def test_a_wrong_label_or_field_is_refused_with_file_and_line(tmp_path: Path, line: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_snli(str(write_official(tmp_path, line)))


def test_a_file_without_one_labelled_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "snli_1.0_dev.jsonl").write_bytes(official("One.", "Two.", "-"))
    with pytest.raises(InputError, match="not one row with a gold label"):
        load_snli(str(tmp_path))


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    lines = b"".join(official(f"{number} girls juggle.", "Some do.", "neutral") for number in range(5000))
    whole = zstandard.ZstdCompressor().compress(lines)
    (tmp_path / "snli_1.0_train.jsonl.zst").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"snli_1.0_train.jsonl.zst.*truncated"):
        load_snli(str(tmp_path))


@pytest.mark.parametrize("source", ["/nowhere/at/all", "./nowhere"])
def test_a_missing_folder_is_named(source: str) -> None:
    with pytest.raises(InputError, match=f"{source}: no such folder"):
        load_snli(source)


def test_a_file_where_a_folder_is_expected_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing in the folder can be read"):
        load_snli(str(tmp_path))
    (tmp_path / "file").write_text("text")
    with pytest.raises(InputError, match="a file, expected a folder"):
        load_snli(str(tmp_path / "file"))


def columns(labels: list[Any], label: Any) -> Dataset:
    premises, hypotheses = [row[0] for row in ROWS], [row[1] for row in ROWS]
    features = Features({"premise": Value("string"), "hypothesis": Value("string"), "label": label})
    data = {"premise": premises[: len(labels)], "hypothesis": hypotheses[: len(labels)], "label": labels}
    return Dataset.from_dict(data, features=features)


def test_a_copy_on_the_hub_is_loaded_by_name_without_its_unlabelled_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    label = ClassLabel(names=["entailment", "neutral", "contradiction"])
    asked = []

    def load_dataset(name: str) -> DatasetDict:
        asked.append(name)
        return DatasetDict({"test": columns([0, -1, 2], label), "train": columns([0, 1, 2], label)})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    splits = load_snli("stanfordnlp/snli")
    assert asked == ["stanfordnlp/snli"]
    assert rows_of(splits["test"]) == [ROWS[0], ROWS[2]] and rows_of(splits["train"]) == ROWS


def test_a_copy_with_its_own_order_of_labels_is_read_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    label = ClassLabel(names=["contradiction", "entailment", "neutral"])
    monkeypatch.setattr(datasets, "load_dataset", lambda name: DatasetDict({"test": columns([1, 2, 0], label)}))
    assert rows_of(load_snli("some/copy")["test"]) == ROWS


def test_a_name_that_the_hub_does_not_give_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(name: str) -> DatasetDict:
        raise ConnectionError("could not reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(InputError, match=r"some/snli: no such folder here, and the Hub does not .* reach"):
        load_snli("some/snli")


@pytest.mark.parametrize(
    ("label", "values"), [(Value("int64"), [0, 1, 2]), (Value("string"), [row[2] for row in ROWS])]
)
def test_parquet_with_labels_as_numbers_or_words_is_read(tmp_path: Path, label: Value, values: list[Any]) -> None:
    columns(values, label).to_parquet(tmp_path / "test.parquet")
    assert rows_of(load_snli(str(tmp_path))["test"]) == ROWS


@pytest.mark.parametrize(
    ("label", "values", "message"),
    [
        (Value("int64"), [0, 1, 3], "row 3: label 3"),
        (Value("int64"), [0, None, 1], "row 2: label None"),
        (Value("string"), ["neutral", "yes", "neutral"], "row 2: label 'yes'"),
    ],
)
def test_parquet_with_a_wrong_label_is_refused_with_split_and_row(
    tmp_path: Path, label: Value, values: list[Any], message: str
) -> None:
    columns(values, label).to_parquet(tmp_path / "test.parquet")
    with pytest.raises(InputError, match=f"split test, {message}"):
        load_snli(str(tmp_path))


def test_parquet_with_other_columns_is_refused(tmp_path: Path) -> None:
    Dataset.from_dict({"text": ["One."]}).to_parquet(tmp_path / "test.parquet")
    with pytest.raises(InputError, match=r"no column premise, hypothesis, label; .* found text"):
        load_snli(str(tmp_path))


def run_command(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    nli.add_arguments(parser)
    nli.run(parser.parse_args(arguments))


def test_command_writes_splits_that_load_back_and_reports_every_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    write_official(source, official("One.", "Two.", "-") + b"{\n", names=("train", "test"))
    run_command(str(source), "--output", str(tmp_path / "out"))
    assert rows_of(load_snli(str(tmp_path / "out"))["train"]) == ROWS
    assert rows_of(datasets.load_dataset(str(tmp_path / "out"))["test"]) == ROWS
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert list(report) == ["train", "test"]
    assert (report["test"]["rows"], report["test"]["without a gold label"], report["test"]["not JSON in UTF-8"]) == (
        3,
        1,
        1,
    )
    assert "train: 3 pairs" in capsys.readouterr().out


def test_command_leaves_nothing_behind_after_a_mistake_and_overwrites_only_when_told(tmp_path: Path) -> None:
    source, output = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    write_official(source, official("One.", "Two.", "maybe"))
    with pytest.raises(InputError, match="maybe"):
        run_command(str(source), "--output", str(output))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]
    write_official(source)
    run_command(str(source), "--output", str(output))
    with pytest.raises(InputError, match="--output"):
        run_command(str(source), "--output", str(output))
    run_command(str(source), "--output", str(output), "--overwrite")


def test_real_dev_and_test_have_the_rows_that_a_plain_reader_counts(data_dir: Path) -> None:
    splits = load_snli(str(data_dir / "snli"))
    for split, name in (("validation", "dev"), ("test", "test")):
        with zstandard.open(data_dir / "snli" / f"snli_1.0_{name}.jsonl.zst", "rt", encoding="utf-8") as file:
            gold = Counter(json.loads(line)["gold_label"] for line in file)
        assert sum(gold.values()) == 10_000
        del gold["-"]
        names = splits[split].features["label"].names
        assert Counter(names[label] for label in splits[split]["label"]) == gold
    assert len(splits["train"]) == 21_605
