"""python -m trainer.report --plan, from a plan to the finished page: real runs of a few steps."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forking import ForkedJob
from tests.trainer.report.reading import table_with
from tests.trainer.tiny_datasets import write_datasets
from trainer.report import __main__ as command
from trainer.report import plan

PLAN = Path(command.__file__).with_name("tiny.yaml")
RUNS = Path("runs", "report_tiny")
COMMAND = ["--plan", str(PLAN), "-o", "report"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory, with data/, runs/ and report/."""
    pytest.importorskip("gensim", reason="gensim is not installed")
    folder = tmp_path_factory.mktemp("plan")
    write_datasets(folder / "data")
    for kind, name in {"pairs": "reddit", "documents": "books"}.items():
        (folder / "data" / kind).rename(folder / "data" / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(plan, "_start", ForkedJob)
        code = command.main(COMMAND)
        logs = "".join(path.read_text(errors="replace") for path in sorted((folder / RUNS).glob("*.log")))
        assert code == 0, logs
        yield folder


def test_a_report_is_a_page_its_values_and_plots_without_local_paths(folder: Path) -> None:
    report = folder / "report"
    files = {path.name: path.read_bytes() for path in report.iterdir() if path.is_file()}
    assert set(files) == {"README.md", "report.json", "figure7.png"}
    assert not [name for name, contents in files.items() if str(folder).encode() in contents]
    assert "](figure7.png)" in files["README.md"].decode()
    tables = {"runs", "table1", "table3", "table5", "table6", "siamese_table1", "siamese_published"}
    assert set(json.loads(files["report.json"])) >= tables | {"siamese_table3", "norms"}


def test_every_run_of_the_plan_is_in_the_first_table(folder: Path) -> None:
    rows = {row[0]: row for row in table_with(folder / "report", "run", "system")}
    assert {name: row[1] for name, row in rows.items()} == {
        "dan": "DAN, conversations",
        "siamese": "Siamese CBOW (books)",
        "skip_gram": "word2vec skip-gram (books)",
    }
    assert rows["dan"][4:6] == ["2 steps", "32"]
    assert "is missing" not in (folder / "report" / "README.md").read_text()


def test_the_same_command_again_trains_and_measures_nothing(folder: Path) -> None:
    def contents() -> dict[Path, bytes]:
        files = [*(folder / RUNS).rglob("results.json"), *(folder / "report").rglob("*")]
        return {path: path.read_bytes() for path in files if path.is_file()}

    before = contents()
    assert command.main(COMMAND) == 0
    assert contents() == before
