"""Paraphrases in all formats, the pairs that are left out, and damaged files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from data_scripts.__main__ import main

Row = tuple[str, str, float | None]


def run(tmp_path: Path, source: Path | str) -> dict[str, list[Row]]:
    assert main(["paraphrases", str(source), "--output", str(tmp_path / "out"), "--overwrite"]) == 0
    splits = {}
    for file in (tmp_path / "out").glob("*.parquet"):
        rows = Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "cache"))
        assert rows.column_names == ["sentence1", "sentence2", "score"]
        splits[file.name.partition("-")[0]] = [tuple(row.values()) for row in rows]
    return splits


def test_unrated_pairs_have_no_score(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text('anchor\tpositive\nIt "rains.\tRain falls.\nGo on.\tContinue.\n')
    assert run(tmp_path, file) == {"train": [('It "rains.', "Rain falls.", None), ("Go on.", "Continue.", None)]}


def test_a_rating_in_any_spelling_becomes_the_score(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "train.tsv.gz").write_bytes(gzip.compress(b"a\tb\tsource\tlabel\nOne.\t1.\tx\t1\nTwo.\t3.\tx\t0\n"))
    (folder / "dev.csv").write_text('sentence1,sentence2,score\n"One, two.",1 2.,0.25\nThree.,3.,\n')
    (folder / "test.jsonl").write_text('{"question1": "One?", "question2": "1?", "is_duplicate": true}\n')
    assert run(tmp_path, folder) == {
        "train": [("One.", "1.", 1.0), ("Two.", "3.", 0.0)],
        "validation": [("One, two.", "1 2.", 0.25), ("Three.", "3.", None)],
        "test": [("One?", "1?", 1.0)],
    }
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    scored = {split: (report[split]["pairs"], report[split]["with a score"]) for split in report}
    assert scored == {"train": (2, 2), "validation": (2, 1), "test": (1, 1)}


def test_a_negative_is_a_pair_with_the_first_sentence_of_score_0(tmp_path: Path) -> None:
    file = tmp_path / "triplets.jsonl"
    rows = [
        {"anchor": "One.", "positive": "1.", "negative": "2."},
        {"anchor": "Three.", "positive": "3.", "negative": " "},
        {"anchor": "Four.", "positive": "4.", "negative": None, "score": None},
        {"anchor": "Five.", "positive": "", "negative": "6."},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run(tmp_path, file) == {
        "train": [
            ("One.", "1.", 1.0), ("One.", "2.", 0.0), ("Three.", "3.", 1.0),
            ("Four.", "4.", None), ("Five.", "6.", 0.0),
        ]
    }  # fmt: skip
    report = json.loads((tmp_path / "out" / "report.json").read_text())["train"]
    assert (report["pairs"], report["with a score"], report["with an empty sentence, left out"]) == (5, 4, 2)


def test_empty_sentences_and_broken_lines_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    lines = ['{"a": "One.", "b": "1."}', '{"a": " ", "b": "2."}', '{"a": "Three.", "b": null}', "{"]
    file.write_text("\n".join([*lines, '{"a": "\\ud83d", "b": "4."}', ""]))
    assert run(tmp_path, file) == {"train": [("One.", "1.", None)]}
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["train"]["with an empty sentence, left out"] == 2
    assert report["lines left out"] == {"not JSON": 1, "not UTF-8": 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("left\tright\nOne.\t1.\n", "pairs.tsv:1: no column sentence1, sentence2; expected sentence1 (or anchor,"),
        ("a\tb\tscore\nOne.\t1.\thigh\n", "pairs.tsv:2: score 'high'; expected a number"),
        ("a\tb\tscore\nOne.\t1.\tnan\n", "pairs.tsv:2: score 'nan'; expected a number"),
        ("a\tb\n\t1.\n", "split train: contains no pair of sentences"),
        ("", "pairs.tsv: the file is empty"),
    ],
)
def test_a_wrong_file_is_refused_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(content)
    assert main(["paraphrases", str(file), "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.tsv"]


def test_real_pairs_have_the_number_of_their_lines(data_dir: Path, tmp_path: Path) -> None:
    rows: Any = run(tmp_path, data_dir / "more" / "paraphrase" / "quora_20k.tsv.xz")["train"]
    assert len(rows) == 20_000 and sum(score for _, _, score in rows) == 10_000  # balanced
