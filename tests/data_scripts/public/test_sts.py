"""The datasets of SemEval STS 2012 to 2016: alignment by hand, counts of the real files, and damaged files."""

import json
from pathlib import Path

import datasets
import pytest

from data_scripts.__main__ import main
from data_scripts.public.sts import load_sts_sets
from modeling_convsim.files.errors import InputError


def write_set(folder: Path, year: str, name: str, pairs: str, gold: str) -> str:
    (folder / f"{year}-test").mkdir(exist_ok=True)
    (folder / f"{year}-test" / f"STS.input.{name}.txt").write_text(pairs)
    (folder / f"{year}-test" / f"STS.gs.{name}.txt").write_text(gold)
    return str(folder)


PAIRS = "Red barn\tA barn\nOld oak\tA tree\nWet dog\tDry cat\nTall man\tA giant\nHot tea\tA drink\n"


def test_pairs_with_blank_gold_lines_are_removed_and_the_others_stay_aligned(tmp_path: Path) -> None:
    loaded = load_sts_sets(write_set(tmp_path, "2015", "answers-forums", PAIRS, "4.2\n\n0.4\n \n3.0\n"))
    rows = [(row["sentence1"], row["sentence2"], round(row["score"], 4)) for row in loaded["2015"]["answ-forums"]]
    assert rows == [("Red barn", "A barn", 4.2), ("Wet dog", "Dry cat", 0.4), ("Hot tea", "A drink", 3.0)]


@pytest.mark.parametrize("gold", ["4.2\n0.4\n3.0\n", "4.2\n\n0.4\n\n3.0\n1.0\n", "4.2\n\n0.4\n\n"])
def test_a_gold_file_with_another_number_of_lines_is_refused(tmp_path: Path, gold: str) -> None:
    folder = write_set(tmp_path, "2014", "images", PAIRS, gold)
    count = len(gold.split("\n")) - 1
    with pytest.raises(InputError, match=rf"STS.gs.images.txt: {count} lines for the 5 pairs of STS.input.images.txt"):
        load_sts_sets(folder)


@pytest.mark.parametrize(
    ("pairs", "gold", "message"),
    [
        ("Red barn\tA barn\nOld oak\n", "1\n2\n", r"STS.input.images.txt:2: 1 columns; expected two sentences"),
        ("Red barn\tA barn\nOld oak\tA tree\n", "1\n7\n", r"STS.gs.images.txt:2: score '7'"),
        ("Red barn\tA barn\nOld oak\tA tree\n", "\n\n", r"test 2014 images: contains no scored pair \(2 not"),
    ],
)
def test_a_wrong_line_of_a_dataset_is_refused_with_file_and_line(
    tmp_path: Path, pairs: str, gold: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load_sts_sets(write_set(tmp_path, "2014", "images", pairs, gold))


def test_a_users_own_copy_of_2013_smt_is_read_and_missing_datasets_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = load_sts_sets(write_set(tmp_path, "2013", "SMT", PAIRS, "1\n2\n3\n4\n5\n"))
    assert {year: list(sets) for year, sets in loaded.items()} == {"2013": ["SMT"]}
    assert "STS 2013 FNWN is missing" in caplog.text and "SMT is" not in caplog.text


def test_real_sets_have_the_papers_names_and_every_scored_pair(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loaded = load_sts_sets(str(data_dir / "sts"))
    assert {year: set(sets) for year, sets in loaded.items()} == {
        "2012": {"MSRpar", "MSRvid", "OnWN", "SMTeuroparl", "SMTnews"},
        "2013": {"FNWN", "OnWN", "headlines"},
        "2014": {"OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"},
        "2015": {"answ-forums", "answ-students", "belief", "headlines", "images"},
    }
    assert "STS 2013 SMT is missing" in caplog.text
    assert sum(len(split) for sets in loaded.values() for split in sets.values()) == 11_358
    inputs = [path for path in (data_dir / "sts").glob("201?-test/STS.input.*.txt") if "ALL" not in path.name]
    assert len(inputs) == 19 and sum(path.read_bytes().count(b"\n") for path in inputs) == 16_858


def test_the_files_of_2016_are_named_by_year_and_have_more_columns(tmp_path: Path) -> None:
    folder = tmp_path / "2016-test"
    folder.mkdir()
    pairs = "Red barn\tA barn\tplaces\ttrees\nOld oak\tA tree\tx\ty\nHot tea\tA drink\tx\ty\n"
    (folder / "STS2016.input.plagiarism.txt").write_text(pairs)
    (folder / "STS2016.gs.plagiarism.txt").write_text("4\n\n1\n")
    rows = load_sts_sets(str(tmp_path))["2016"]["plagiarism"].to_list()
    assert rows == [
        {"sentence1": "Red barn", "sentence2": "A barn", "score": 4.0},
        {"sentence1": "Hot tea", "sentence2": "A drink", "score": 1.0},
    ]


def test_command_writes_all_datasets_and_counts_blank_lines(tmp_path: Path) -> None:
    write_set(tmp_path, "2012", "MSRpar", PAIRS, "1\n2\n3\n4\n5\n")
    source = write_set(tmp_path, "2015", "belief", PAIRS, "4.2\n\n0.4\n\n3.0\n")
    (tmp_path / "2012-test").rename(tmp_path / "2012-train")
    write_set(tmp_path, "2012", "MSRvid", PAIRS, "5\n4\n3\n2\n1\n")
    output = tmp_path / "out"
    assert main(["sts", source, "--output", str(output)]) == 0
    written = datasets.load_dataset("parquet", data_files=str(output / "test-*.parquet"))["train"]
    assert set(zip(written["year"], written["set"], strict=True)) == {("2012", "MSRvid"), ("2015", "belief")}
    assert load_sts_sets(str(output))["2015"]["belief"]["sentence1"] == ["Red barn", "Wet dog", "Hot tea"]
    report = json.loads((output / "report.json").read_text())
    assert report["test 2015 belief"] == {"from": source, "pairs": 3, "not scored": 2}
    assert report["train 2012 MSRpar"]["pairs"] == 5
    for folder in (source, str(output)):  # the training set of 2012 is no test set
        assert {year: list(names) for year, names in load_sts_sets(folder).items()} == {
            "2012": ["MSRvid"],
            "2015": ["belief"],
        }


def test_a_dataset_in_two_sources_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_set(tmp_path, "2014", "images", PAIRS, "1\n2\n3\n4\n5\n")
    assert main(["sts", source, source, "--output", str(tmp_path / "out")]) == 2
    assert "test 2014 images is already in an earlier source" in capsys.readouterr().err
