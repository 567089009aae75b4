"""python -m trainer.report: end to end over tiny runs, again from its cache, and mistakes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accelerate.state import AcceleratorState

from tests.trainer.report.data import write_data
from tests.trainer.report.folders import write_run
from tests.trainer.report.reading import shows, table_with
from trainer.command_line import parse_arguments
from trainer.evaluation.results import read_results
from trainer.report import __main__ as command
from trainer.report import measurements as module
from trainer.report.plan import ReportPlan
from trainer.training.train import train

RUNS = ("siamese", "dan", "transformer")
HEADS = {"embedding_size": 8, "response_hidden_sizes": [8], "nli_hidden_size": 8}
LAYERS = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
DAN = {"word_embedding_size": 8, "bigram_buckets": 16, "hidden_sizes": [8]}


def tiny_run(folder: Path, name: str, **settings: Any) -> None:
    """A run on the datasets in `folder`/data."""
    preset = folder / f"{name}.yaml"
    datasets = {each: str(folder / "data" / each) for each in ("stsb", "cqa", "sts")}
    own = {"output_dir": str(folder / name), "cache_dir": str(folder / "cache"), "batch_size": 16, "log_every": 1}
    options = datasets | own | {"trackers": ["none"], "device": "cpu", "mixed_precision": "no"} | settings
    preset.write_text(json.dumps(options))
    AcceleratorState._reset_state(reset_partial_state=True)  # as in a new process
    train(parse_arguments([str(preset)]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The datasets in data/, and a run of each kind."""
    folder = tmp_path_factory.mktemp("report")
    write_data(folder / "data")
    tiny_run(
        folder, "siamese", model_type="cbow", model_config={"embedding_size": 8}, tasks={"neighbors": 1}, epochs=1,
        documents=[str(folder / "data/books")], best_metric="last", similarity_scale=1, eval_every=1,
    )  # fmt: skip
    pairs = {"pairs": [str(folder / "data/pairs")], "tokenizer": str(folder / "siamese/model"), "max_steps": 2}
    tiny_run(folder, "dan", model_config=HEADS | DAN, tasks={"response_prediction": 1}, **pairs)
    tiny_run(
        folder, "transformer", model_type="transformer", model_config=HEADS | LAYERS, snli=str(folder / "data/snli"),
        tasks={"response_prediction": 1, "snli": 1}, **pairs,
    )  # fmt: skip
    return folder


def call(folder: Path, *argv: str) -> int:
    data = ["--data", str(folder / "data"), "--pairs", str(folder / "data" / "pairs")]
    return command.main([*argv, *data])


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files in the report's folder without its cache: name and contents."""
    for path in sorted(folder.iterdir()):
        if path.name != ".measured":
            yield path.name, path.read_bytes()


@pytest.fixture(scope="module")
def report(folder: Path) -> Path:
    """The report over the runs."""
    assert call(folder, *(str(folder / name) for name in RUNS), "-o", str(folder / "report")) == 0
    return folder / "report"


def test_a_report_is_a_page_its_values_and_plots_without_local_paths(folder: Path, report: Path) -> None:
    found = dict(written(report))
    assert set(found) == {"README.md", "report.json", "figure2.png", "figure7.png"}
    for name, contents in found.items():
        assert str(folder).encode() not in contents, name
    page = found["README.md"].decode()
    for name in found:
        assert name.partition(".")[2] != "png" or f"]({name})" in page
    tables = {"runs", "table1", "table2", "table3", "table5", "table6", "attention", "overlap", "siamese_table1"}
    tables |= {"siamese_published", "sets", "figure2", "siamese_table3", "norms", "neighbors", "claims"}
    assert tables <= set(json.loads(found["report.json"]))


def test_scores_of_the_runs_are_those_of_their_results(folder: Path, report: Path) -> None:
    values = json.loads((report / "report.json").read_text())
    results = {name: read_results(folder / name / "results.json") for name in RUNS}
    assert [row["run"] for row in values["table1"]] == ["dan", "transformer", "", ""]
    for row in values["table1"][:2]:
        assert row["p_at_1"] == results[row["run"]]["response_prediction"]["p_at_1"]
    (snli,) = values["table2"]
    assert snli["run"] == "transformer" and snli["accuracy"] == results["transformer"]["snli"]["accuracy"]
    for row in values["table3"]:
        assert row["test"] == results[row["run"]]["stsb_tuned" if row["tuned"] else "stsb"]["test"]
    for row in values["siamese_table1"]:
        for name, scores in row["sets"].items():
            year, _, each = name.partition(" ")
            known = results[row["run"]]["sts"][year][each]["pearson"]  # encoded in other batches
            assert scores["pearson"] == pytest.approx(known, abs=1e-4)


def test_the_size_of_each_run_is_in_the_first_table(folder: Path, report: Path) -> None:
    rows = {line[0]: line for line in table_with(report, "run", "system")}
    assert [rows[name][1] for name in RUNS] == [
        "Siamese CBOW (books)", "DAN, conversations", "Transformer, conversations + SNLI",
    ]  # fmt: skip
    assert "60" in rows["siamese"][2] and rows["siamese"][4:6] == ["4 steps", "64"]
    assert "130" in rows["dan"][2] and rows["dan"][4:6] == ["2 steps", "32"]
    assert "40" in rows["transformer"][2] and "130" in rows["transformer"][2]


def test_the_transformers_attention_is_in_a_table_by_layer(report: Path) -> None:
    found = json.loads((report / "report.json").read_text())["attention"]
    assert list(found) == ["transformer"] and len(found["transformer"]["layers"]) == LAYERS["num_hidden_layers"]
    for shares in [*found["transformer"]["layers"], found["transformer"]["uniform"]]:
        assert sum(shares) == pytest.approx(1, abs=1e-5)
    lines = table_with(report, "system", "run", "layer")
    assert [line[2] for line in lines] == ["1", "2", "uniform"]
    assert shows(lines[2][3], found["transformer"]["uniform"][0])


def test_the_same_command_again_gives_the_same_report_from_its_cache(
    folder: Path, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(written(report))
    monkeypatch.setattr(module, "load_encoder", lambda model: pytest.fail(f"{model} was measured again"))
    assert call(folder, *(str(folder / name) for name in RUNS), "-o", str(report)) == 0
    assert dict(written(report)) == before


def test_the_report_of_a_saved_model_has_what_can_be_measured_of_it(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "stsb").symlink_to(folder / "data" / "stsb")
    output = tmp_path / "report"
    assert command.main([str(folder / "dan" / "model"), "-o", str(output), "--data", str(data)]) == 0
    values = json.loads((output / "report.json").read_text())
    expected = read_results(folder / "dan" / "results.json")["stsb"]["test"]["all"]["pearson"]
    untuned = next(row for row in values["table3"] if not row["tuned"])
    assert untuned["system"] == "model" and untuned["test"]["all"]["pearson"] == pytest.approx(expected, abs=1e-4)
    assert {"table1", "table2", "table6", "sets"}.isdisjoint(values)


def test_a_report_of_a_plan_names_failed_runs_and_has_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [write_run(tmp_path / name, {"tasks": {"response_prediction": 1}}) for name in ("named", "planned")]
    plan = ReportPlan([runs[1], tmp_path / "broken"], [])
    monkeypatch.setattr(command, "read_plan", lambda path: plan)
    monkeypatch.setattr(command, "run_plan", lambda plan, jobs: {"broken": f"failed (exit code {jobs}): out of luck"})
    (tmp_path / "data").mkdir()
    argv = ["--plan", "plan.yaml", "--jobs", "3", "-o", str(tmp_path / "report"), "--data", str(tmp_path / "data")]
    assert command.main([str(runs[0]), *argv]) == 1
    page = (tmp_path / "report" / "README.md").read_text()
    assert "`broken` is missing: failed (exit code 3): out of luck." in page
    assert [line[0] for line in table_with(tmp_path / "report", "run", "system")] == ["named", "planned"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "name RUNS, or a --plan that trains them"),
        (["nowhere"], "nowhere: expected a finished run"),
        (["nowhere", "--jobs", "0"], "--jobs 0: expected 1 or more"),
        (["nowhere", "--jobs", "2"], "--jobs 2: only a plan trains runs; name one with --plan"),
        (["--plan", "nowhere.yaml"], "nowhere.yaml: not readable as YAML"),
    ],
)
def test_a_mistake_is_one_line_with_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert command.main([*argv, "-o", str(tmp_path / "report")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith(f"error: {message}")
    assert not (tmp_path / "report").exists()
