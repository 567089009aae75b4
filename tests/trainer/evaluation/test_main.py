"""python -m trainer.evaluation: a table, results.json, and one line with exit code 2 for each mistake."""

import json
from pathlib import Path

import pytest

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import evaluation_data, pairs, stsb, write_data_folder
from trainer.evaluation import __main__ as command
from trainer.evaluation.evaluators import evaluate_baseline, evaluate_encoder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_folder(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def fake_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.encoders.loading.load_encoder", lambda model: FakeEncoder())


def call(data: Path, *argv: str) -> int:
    return command.main(["model", "--data", str(data), *argv])


def refused(capsys: pytest.CaptureFixture[str], data: Path, *argv: str) -> str:
    """The message of a call that is refused, which must be one line on stderr with exit code 2."""
    assert call(data, *argv) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "Traceback" not in captured.err and not captured.out
    return lines[0]


def test_results_are_those_of_the_functions_and_the_table_shows_them(data, tmp_path, capsys):
    output = tmp_path / "results.json"
    argv = ["--tasks", "stsb, cqa,response_prediction", "--baselines", "bm25,tfidf"]
    assert call(data, *argv, "--output", str(output)) == 0
    tasks = ["stsb", "cqa", "response_prediction"]
    expected = evaluate_encoder(FakeEncoder(), evaluation_data(), "both", tasks)
    expected["baselines"] = {
        name: evaluate_baseline(name, evaluation_data(), "both", tasks) for name in ("bm25", "tfidf")
    }
    assert json.loads(output.read_text()) == expected
    assert list(tmp_path.iterdir()) == [output]
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    pearson = expected["stsb"]["dev"]["news"]["pearson"]
    assert ["stsb", "dev", "news", "pearson", f"{pearson:.4f}"] in rows
    assert ["baselines", "bm25", "response_prediction", "p_at_1", "1.0000"] in rows


def test_sts_sets_are_found_in_data_or_named_and_are_printed(data, tmp_path, capsys):
    output = tmp_path / "results.json"
    assert call(data, "--tasks", "sts", "--split", "dev", "--output", str(output)) == 0
    expected = evaluate_encoder(FakeEncoder(), evaluation_data(), "both", ["sts"])
    assert json.loads(output.read_text()) == expected
    part = expected["sts"]["2012"]["OnWN"]
    rows = [row.split() for row in capsys.readouterr().out.splitlines()]
    assert ["sts", "2012", "OnWN", "spearman", f"{part['spearman']:.4f}"] in rows
    (tmp_path / "elsewhere").symlink_to(data / "sts")
    assert call(tmp_path, "--tasks", "sts", "--sts", str(tmp_path / "elsewhere"), "--update", str(output)) == 0
    assert json.loads(output.read_text()) == expected


def test_the_results_of_a_run_are_not_replaced(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.json"
    results.write_text('{"run": {"steps": 7}}')
    argv = ["--tasks", "cqa", "--output", str(results)]
    assert "results.json: exists; name another file, or replace it with --overwrite" in refused(capsys, data, *argv)
    assert results.read_text() == '{"run": {"steps": 7}}'
    argv.append("--overwrite")
    assert call(data, *argv) == 0  # a file of its own, from an earlier evaluation
    capsys.readouterr()
    (tmp_path / "config.yaml").write_text("seed: 0")
    earlier = results.read_text()
    assert "which would be lost; use --update" in refused(capsys, data, *argv)
    assert results.read_text() == earlier


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--tasks", "chess"], "--tasks: unknown name 'chess'; expected some of response_prediction,snli"),
        (["--tasks", ","], "--tasks: unknown name ''; expected"),
        (
            ["--tasks", "cqa", "--baselines", "bm52"],
            "--baselines: unknown name 'bm52'; expected some of bm25,tfidf",
        ),
        (
            ["--tasks", "stsb", "--baselines", "bm25"],
            "none of --tasks is a ranking task; add one of response_prediction,cqa",
        ),
        (["--tasks", "response_prediction", "--pairs", "./nowhere"], "nowhere"),
        (["--tasks", "stsb", "--stsb", "./nowhere"], "nowhere"),
        (["--tasks", "snli"], "task snli: this model has no NLI classifier"),
        (["--tasks", "sample"], "has no column input"),
        (["--tasks", "cqa", "--update", "./nowhere.json"], "nowhere.json: not readable as JSON"),
        (["--tasks", "cqa", "--output", "./nowhere/results.json"], "there is no folder nowhere; create it first"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_2(data, tmp_path, monkeypatch, capsys, argv, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(capsys, data, *argv)


def test_a_damaged_file_to_update_is_refused_before_any_work(data, tmp_path, capsys):
    file = tmp_path / "results.json"
    file.write_text("{ no JSON")
    assert "results.json: " in refused(capsys, data, "--tasks", "cqa", "--update", str(file))
    assert file.read_text() == "{ no JSON"


def test_the_sample_alone_is_evaluated_and_added_to_the_runs_results(tmp_path: Path) -> None:
    for folder, rows in ((tmp_path, pairs), (tmp_path / "sts", stsb)):
        folder.mkdir(exist_ok=True)
        for split in ("train", "test"):
            rows(split).to_parquet(folder / f"{split}-00000-of-00001.parquet")
    results = tmp_path / "results.json"
    results.write_text('{"run": {"steps": 7}}')
    assert call(tmp_path, "--tasks", "sample", "--update", str(results)) == 0
    updated = json.loads(results.read_text())
    assert set(updated) == {"run", "sample"} and set(updated["sample"]) == {"sts", "figure_1"}
