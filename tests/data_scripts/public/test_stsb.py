"""STS Benchmark: counts of the real files, and damaged files."""

import json
from collections import Counter
from pathlib import Path

import pytest

from data_scripts.__main__ import main
from data_scripts.public.stsb import load_stsb
from modeling_convsim.files.errors import InputError

STSB_LINES = [
    'main-captions\tMSRvid\t2012\t0001\t4.750\tA boy says "hi.\tA boy greets.',  # a quote that never closes
    "main-forum\tdeft-forum\t2014\t0002\t0.000\tBuy it.\tSell it.\tsource\tsource",
    "main-forums\tanswers-forums\t2015\t0003\t5.000\tGo on.\tGo on.",
    "main-news\theadlines\t2013\t0004\t2.5\tRain falls\u2028hard\tIt rains",  # U+2028 does not end a line
]


def write_stsb(folder: Path, lines: list[str], name: str = "train") -> Path:
    (folder / f"sts-{name}.csv").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return folder


def test_original_file_is_read_without_quoting_and_with_one_name_per_genre(tmp_path: Path) -> None:
    split = load_stsb(str(write_stsb(tmp_path, STSB_LINES)))["train"]
    assert split["sentence1"] == ['A boy says "hi.', "Buy it.", "Go on.", "Rain falls\u2028hard"]
    assert split["sentence2"] == ["A boy greets.", "Sell it.", "Go on.", "It rains"]
    assert split["score"] == [4.75, 0.0, 5.0, 2.5]
    assert split["genre"] == ["captions", "forums", "forums", "news"]
    assert split.features["score"].dtype == "float32"


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("sts-train.csv", [*STSB_LINES, "main-news\tx\t2013\t1\t5.1\tOne.\tTwo."], "5: score '5.1'; expected a number"),
        ("sts-train.csv", ["main-news\tx\t2013\t1\thigh\tOne.\tTwo."], "1: score 'high'"),
        ("sts-train.csv", ["main-news\tx\t2013\t1\t3.0\tOne."], "1: 6 columns"),
        ("sts-train.csv", ["main-jokes\tx\t2013\t1\t3.0\tOne.\tTwo."], "1: genre 'main-jokes'"),
        ("mine.csv", ["sentence1,sentence2", "a,b"], r"1: no column score; expected sentence1 \(or sentence_A"),
        ("mine.csv", ["sentence1,sentence2,score", "a,b,high"], "2: score 'high'; expected a number from 0 to 5"),
        ("mine.csv", ["sentence1,sentence2,score", "a,b,2", "a,b,6"], "3: score 6.0; expected a number from 0 to 5"),
        ("mine.csv", ["sentence1,sentence2,score", "a,b,2", "a,b"], "3: wrong number of .*; correct this line"),
    ],
)
def test_a_wrong_line_is_refused_with_file_and_line(tmp_path: Path, name: str, lines: list[str], message: str) -> None:
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}:{message}"):
        load_stsb(str(tmp_path))


SICK = """\
pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set
1\tOne.\tTwo.\tNEUTRAL\t4.5\tTRAIN
2\tThree.\tFour.\tENTAILMENT\t3.6\tTRIAL
3\tFive.\tSix.\tNEUTRAL\t1\tTEST
"""


@pytest.mark.parametrize(("name", "is_folder"), [("sick_test.tsv", False), ("sick_test.tsv", True), ("SICK.txt", True)])
def test_tables_of_scored_pairs_are_read(tmp_path: Path, name: str, is_folder: bool) -> None:
    path = tmp_path / "tables" / name
    path.parent.mkdir()
    path.write_text(SICK, encoding="utf-8")
    (path.parent / "ReadMe.txt").write_text("about it", encoding="utf-8")
    splits = load_stsb(str(path.parent if is_folder else path))
    assert {name: split.to_list() for name, split in splits.items()} == {
        "train": [{"sentence1": "One.", "sentence2": "Two.", "score": 4.5, "genre": None}],
        "validation": [{"sentence1": "Three.", "sentence2": "Four.", "score": pytest.approx(3.6), "genre": None}],
        "test": [{"sentence1": "Five.", "sentence2": "Six.", "score": 1, "genre": None}],
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["mine.csv"], ["test"]),
        (["mine_train.csv"], ["train"]),
        (["mine-dev.csv", "mine-train.csv"], ["train", "validation"]),
    ],
)
def test_a_table_is_the_split_that_its_name_states_or_test(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, names: list[str], expected: list[str]
) -> None:
    for name in names:
        (tmp_path / name).write_text('sentence1,sentence2,score,genre\n"One, two",Three,0.5,main-news\nFour,Five,1,\n')
    splits = load_stsb(str(tmp_path))
    assert list(splits) == expected and "multiplied by 5" in caplog.text
    assert splits[expected[0]]["sentence1"] == ["One, two", "Four"] and splits[expected[0]]["score"] == [2.5, 5]
    assert splits[expected[0]]["genre"] == ["news", None]


def test_command_writes_splits_that_load_back_and_reports_the_genres(tmp_path: Path) -> None:
    source, output = tmp_path / "source", str(tmp_path / "out")
    source.mkdir()
    write_stsb(source, STSB_LINES)
    assert main(["stsb", str(source), "--output", output]) == 0
    assert load_stsb(output)["train"].to_list() == load_stsb(str(source))["train"].to_list()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["train"] == {"from": str(source), "rows": 4, "captions": 1, "forums": 2, "news": 1}


def test_real_stsb_has_the_published_sizes_by_split_and_genre(data_dir: Path) -> None:
    splits = load_stsb(str(data_dir / "stsb"))
    # The benchmark's readme, its sums by source (its row for captions says 525 where 250 + 250 + 125 are 625).
    assert {name: dict(Counter(split["genre"])) for name, split in splits.items()} == {
        "train": {"news": 3299, "captions": 2000, "forums": 450},
        "validation": {"news": 500, "captions": 625, "forums": 375},
        "test": {"news": 500, "captions": 625, "forums": 254},
    }
    assert [len(split) for split in splits.values()] == [5749, 1500, 1379]
