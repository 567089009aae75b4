"""python -m trainer.report --plan, from a plan to the finished page: real runs of a few steps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from data_scripts.files.json_files import read_object
from tests.forking import ForkedJob
from tests.trainer.evaluation.invented_data import COLORS, THINGS, write_data_folder
from tests.trainer.report.reading import table_with
from trainer.report import __main__ as command
from trainer.report import jobs as processes

PLAN = Path(command.__file__).with_name("tiny.yaml")
RUNS = Path("runs", "report_tiny")
COMMAND = ["--plan", str(PLAN), "-o", "report"]


def write_data(folder: Path) -> None:
    """Write the evaluation datasets, SNLI's training pairs, and books/, sentences in order."""
    folder.mkdir()
    write_data_folder(folder)
    # The training pairs of `write_data_folder` share their premise with the evaluation pairs, so all would be removed.
    inference = [{"premise": f"A lamp, the {n}th", "hypothesis": f"Lamp {n}", "label": n % 3} for n in range(40)]
    Dataset.from_list(inference).to_parquet(folder / "snli" / "train-00000-of-00001.parquet")
    things = [(color, thing) for color in COLORS for thing in THINGS]
    sentences = [
        {"book": book, "position": position, "sentence": f"the {color} {thing} is a {color} {thing} : {word}"}
        for book, word in (("one", "old"), ("two", "new"))
        for position, (color, thing) in enumerate(things)
    ]
    (folder / "books").mkdir()
    Dataset.from_list(sentences).to_parquet(folder / "books" / "train-00000-of-00001.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory, with data/, runs/ and report/."""
    pytest.importorskip("gensim", reason="gensim is not installed")
    folder = tmp_path_factory.mktemp("plan")
    write_data(folder / "data")
    (folder / "data" / "pairs").rename(folder / "data" / "reddit")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(processes, "_start", ForkedJob)
        code = command.main(COMMAND)
        logs = "".join(path.read_text(errors="replace") for path in sorted((folder / RUNS).glob("*.log")))
        assert code == 0, logs
        yield folder


@pytest.fixture(scope="module")
def values(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "report" / "report.json").read_text())


def test_a_report_is_a_page_its_values_and_plots_without_local_paths(folder: Path, values: dict[str, Any]) -> None:
    report = folder / "report"
    files = {path.name: path.read_bytes() for path in report.iterdir() if path.is_file()}
    assert set(files) == {"README.md", "report.json", "figure7.png"}
    assert not [name for name, contents in files.items() if str(folder).encode() in contents]
    assert "](figure7.png)" in files["README.md"].decode()
    tables = {"runs", "table1", "table3", "table5", "table6", "siamese_table1", "siamese_published"}
    assert set(values) >= tables | {"siamese_table3", "norms", "claims"}


def test_every_run_of_the_plan_is_in_the_first_table(folder: Path) -> None:
    rows = {row[0]: row for row in table_with(folder / "report", "run", "system")}
    assert {name: row[1] for name, row in rows.items()} == {
        "dan": "DAN, conversations",
        "siamese": "Siamese CBOW (books)",
        "skip_gram": "word2vec skip-gram (books)",
    }
    assert rows["dan"][4:6] == ["2 steps", "32"]
    assert "is missing" not in (folder / "report" / "README.md").read_text()


def test_scores_of_the_page_are_those_of_the_runs(folder: Path, values: dict[str, Any]) -> None:
    results = {name: read_object(folder / RUNS / name / "results.json") for name in ("dan", "siamese")}
    assert values["table1"][0]["p_at_1"] == results["dan"]["response_prediction"]["p_at_1"]
    for row in values["table3"]:
        if row["run"] in results:
            assert row["test"] == results[row["run"]]["stsb_tuned" if row["tuned"] else "stsb"]["test"]
    assert {row["run"] for row in values["table6"]} == {"dan", "siamese", "skip_gram", ""}


def test_siamese_cbow_is_compared_with_the_word_vectors(values: dict[str, Any]) -> None:
    assert {row["run"] for row in values["siamese_table1"]} == {"dan", "siamese", "skip_gram"}
    compared = [row for row in values["claims"] if row["text"].startswith("Siamese CBOW beats")]
    assert [row["figures"].partition(":")[0] for row in compared] == ["`siamese` against `skip_gram`"]


def test_the_same_command_again_trains_and_measures_nothing(folder: Path) -> None:
    def contents() -> dict[Path, bytes]:
        files = [*(folder / RUNS).rglob("results.json"), *(folder / "report").rglob("*")]
        return {path: path.read_bytes() for path in files if path.is_file()}

    before = contents()
    assert command.main(COMMAND) == 0
    assert contents() == before
