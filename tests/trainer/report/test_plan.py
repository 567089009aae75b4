"""Plans: the commands of their unfinished runs, and mistakes in one line. The trainer is a stand-in."""

import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from data_scripts.files.errors import InputError
from trainer.command_line import parse_arguments
from trainer.report import plan as module
from trainer.report.plan import ReportPlan, read_plan, run_plan

# Records its call, and writes the files of a finished run or fails.
STAND_IN = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[sys.argv.index("--output_dir") + 1])
with (folder.parent / "calls.txt").open("a") as calls:
    print(folder.name, file=calls)
if folder.name == "broken":
    sys.exit("error: out of luck")
(folder / "model").mkdir(parents=True)
(folder / "model" / "config.json").write_text("{}")
(folder / "results.json").write_text("{}")
"""


@pytest.fixture(autouse=True)
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset `small`, and a trainer beside the presets that is the stand-in."""
    folder = tmp_path / "trainer" / "presets"
    folder.mkdir(parents=True)
    settings = {"model_config": {"hidden_sizes": [16]}, "pairs": ["some/pairs"], "tasks": {"response_prediction": 1}}
    (folder / "small.yaml").write_text(yaml.safe_dump(settings))
    (folder.parent / "run.py").write_text(STAND_IN)
    monkeypatch.setattr(module, "PRESETS", folder)


def read(folder: Path, **runs: Any) -> ReportPlan:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({"folder": str(folder / "runs"), "runs": runs}, sort_keys=False))
    return read_plan(path)


def finish(folder: Path, plan: ReportPlan) -> None:
    """Write the files that the first training run of a plan writes."""
    (job,) = [job for job in plan.jobs if job.name == folder.name]
    how = job.command.index("--resume")
    arguments = parse_arguments(job.command[2:how])
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    (folder / "results.json").write_text("{}")
    (folder / "config.yaml").write_text(yaml.safe_dump(asdict(arguments)))


def test_a_training_run_is_a_call_of_the_trainer_with_its_options(tmp_path: Path) -> None:
    options = {
        "initialize_from": "{folder}/first/model",
        "pairs": ["{folder}/a", "b"],
        "model_config": {"residual": True},
    }
    options |= {"max_steps": 7}
    plan = read(tmp_path, first={"train": "small"}, second={"train": "small", "options": options, "needs": ["first"]})
    runs = tmp_path / "runs"
    assert plan.folders == [runs / "first", runs / "second"]
    first, second = plan.jobs
    assert (second.name, second.needs, second.log) == ("second", ("first",), runs / "second.log")
    trainer = tmp_path / "trainer"
    assert first.command[:3] == [sys.executable, str(trainer / "run.py"), str(trainer / "presets" / "small.yaml")]
    settings = parse_arguments(second.command[2:])
    assert settings.initialize_from == str(runs / "first/model") and settings.pairs == [str(runs / "a"), "b"]
    assert settings.model_config == {"hidden_sizes": [16], "residual": True} and settings.max_steps == 7
    assert settings.output_dir == str(runs / "second") and not settings.resume


def test_a_sweep_is_a_call_of_the_sweep_command_which_skips_finished_runs(tmp_path: Path) -> None:
    entry = {
        "sweep": "small",
        "vary": ["seed=1,2", "batch_size=4,8"],
        "options": {"max_steps": 3, "trackers": ["none"]},
    }
    (job,) = read(tmp_path, sizes=entry).jobs
    assert job.command[1:] == [
        "-m", "trainer.sweep", str(tmp_path / "trainer/presets/small.yaml"), "--vary", "seed=1,2", "--vary",
        "batch_size=4,8", "-o", str(tmp_path / "runs/sizes"), "--max_steps", "3", "--trackers", "none",
    ]  # fmt: skip


def test_a_finished_run_is_not_repeated_and_its_folder_stays_in_the_plan(tmp_path: Path) -> None:
    runs = {"dan": {"train": "small"}, "other": {"train": "small", "needs": ["dan"]}}
    finish(tmp_path / "runs/dan", read(tmp_path, **runs))
    plan = read(tmp_path, **runs)
    assert [job.name for job in plan.jobs] == ["other"]
    assert plan.folders == [tmp_path / "runs/dan", tmp_path / "runs/other"]


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "runs/dan"
    finish(folder, read(tmp_path, dan={"train": "small"}))
    (folder / "results.json").unlink()
    (folder / "checkpoint-5").mkdir()
    (job,) = read(tmp_path, dan={"train": "small"}).jobs
    assert parse_arguments(job.command[2:]).resume


def test_a_run_with_other_settings_is_refused_and_the_message_names_them(tmp_path: Path) -> None:
    finish(tmp_path / "runs/dan", read(tmp_path, dan={"train": "small"}))
    with pytest.raises(InputError, match=r"plan\.yaml: dan: .*other settings \(max_steps was 1000, is 7\): delete it"):
        read(tmp_path, dan={"train": "small", "options": {"max_steps": 7}})
    # Settings without effect on the model may differ.
    assert read(tmp_path, dan={"train": "small", "options": {"log_every": 7}}).jobs == []


def test_a_run_that_is_older_than_an_option_had_its_default(tmp_path: Path) -> None:
    folder, runs = tmp_path / "runs/dan", {"dan": {"train": "small"}}
    finish(folder, read(tmp_path, **runs))
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    for option in ("similarity_scale", "log_every", "snli_share"):  # of a task, and of every run
        del settings[option]
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    assert read(tmp_path, **runs).jobs == []


def test_a_run_records_the_tokens_that_its_encoder_reads_by_default(tmp_path: Path) -> None:
    first = {"train": "small", "options": {"model_type": "transformer"}}
    runs = {"first": first, "second": {"train": "small", "options": {"initialize_from": "{folder}/first/model"}}}
    for name in runs:
        finish(tmp_path / "runs" / name, read(tmp_path, **runs))
        config = tmp_path / "runs" / name / "config.yaml"
        config.write_text(config.read_text().replace("max_tokens: null", "max_tokens: 64"))
    assert read(tmp_path, **runs).jobs == []
    first["options"]["max_tokens"] = 32
    with pytest.raises(InputError, match=r"other settings \(max_tokens was 64, is 32\): delete it"):
        read(tmp_path, **runs)


def test_existing_word_vectors_are_not_trained_again_and_other_settings_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "runs/vectors"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text("{}")
    settings = {"method": "cbow", "sources": ["a"], "min_count": 5, "sentences": None, "sif": False}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    entry = {"embed": "cbow", "sources": ["a"], "options": {"min_count": 5}}
    assert read(tmp_path, vectors=entry) == ReportPlan([folder], [])
    for changed, message in (
        ({"embed": "skip_gram"}, "method was cbow, is skip_gram"),
        ({"sources": ["a", "b"]}, "sources was ['a'], is ['a', 'b']"),
        ({"options": {"min_count": 3}}, "min_count was 5, is 3"),
        ({"options": {"sentences": 10, "sif": True}}, "sentences was None, is 10; sif was False, is True"),
    ):
        with pytest.raises(InputError, match=re.escape(f"vectors: {folder} has other settings ({message})")):
            read(tmp_path, vectors=entry | changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folder: [runs", "plan.yaml: not readable as YAML (while parsing a flow sequence"),
        ("folder: runs", "plan.yaml: expected `folder` and `runs`, a mapping of names"),
        ("{folder: runs, runs: [a, b]}", "plan.yaml: expected `folder` and `runs`"),
        ("{folder: runs, runs: {a: }}", "plan.yaml: a: expected one of train, embed, sweep"),
        ("{folder: runs, runs: {a: {train: small, sweep: small}}}", "a: expected one of train, embed, sweep"),
        ("{folder: runs, runs: {a: {train: small, options: [x]}}}", "plan.yaml: a: expected options to be a mapping"),
        ("{folder: runs, runs: {a: {train: small, needs: b}, b: {train: small}}}", "a: expected needs to be a list"),
        ("{folder: runs, runs: {a: {train: small, needs: [b]}}}", "a: needs b, which the plan does not have"),
        ("{folder: runs, runs: {a: {train: small, needs: [b]}, b: {train: small, needs: [a]}}}",
         "plan.yaml: these runs need each other: "),
        ("{folder: runs, runs: {a: {train: unknown}}}", "a: there is no preset unknown; expected one of small"),
        ("{folder: runs, runs: {a: {train: small, options: {max_step: 3}}}}", "plan.yaml: a: command line: "),
        ("{folder: runs, runs: {a: {sweep: small}}}", "plan.yaml: a: a sweep needs vary, a list of KEY=A,B"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_the_entry(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_plan(path)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_plan_is_run_and_its_failures_are_returned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {"after": {"train": "small", "needs": ["broken"]}, "second": {"train": "small", "needs": ["first"]}}
    plan = read(tmp_path, **runs, broken={"train": "small"}, first={"train": "small"})
    failures = run_plan(plan, 1)
    assert failures == {
        "broken": "failed (exit code 1): error: out of luck",
        "after": "not run: broken failed",
    }
    assert (tmp_path / "runs/calls.txt").read_text().split() == ["broken", "first", "second"]
    assert (tmp_path / "runs/broken.log").read_text() == "error: out of luck\n"
    assert "broken: failed (exit code 1): error: out of luck" in capsys.readouterr().out
    # Finished runs are not repeated; failed runs are.
    assert {job.name for job in read(tmp_path, **runs, broken={"train": "small"}, first={"train": "small"}).jobs} == {
        "broken", "after",
    }  # fmt: skip


def test_the_shipped_plan_has_existing_presets_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(module.__file__).parent
    monkeypatch.setattr(module, "PRESETS", package.parent / "presets")
    monkeypatch.chdir("/")  # a folder in which none of its runs exists
    plan = read_plan(package / "small.yaml")
    assert len(plan.jobs) == len(plan.folders) > 20
