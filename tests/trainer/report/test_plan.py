"""Plans: the commands of their unfinished runs, and mistakes in one line. The trainer is a stand-in."""

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from modeling_convsim.files.errors import InputError
from tests.trainer.report.folders import write_run
from trainer.report import plan as module
from trainer.report.plan import PlannedRun, read_plan, run_plan
from trainer.report.word2vec import build_parser, settings_of
from trainer.settings import parse_settings

# Records its call, and writes the files of a finished run or fails.
STAND_IN = """
import sys
from dataclasses import asdict
from pathlib import Path
import yaml
from trainer.settings import parse_settings
folder = Path(sys.argv[sys.argv.index("--output_dir") + 1])
with (folder.parent / "calls.txt").open("a") as calls:
    print(folder.name, file=calls)
if folder.name == "broken":
    sys.exit("error: out of luck")
(folder / "model").mkdir(parents=True)
(folder / "model" / "config.json").write_text("{}")
settings = asdict(parse_settings(sys.argv[1 : sys.argv.index("--resume")]))
(folder / "config.yaml").write_text(yaml.safe_dump(settings))
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


LABELED = {"label": "DAN, conversations", "role": "conversations"}
DAN = {"train": "small", **LABELED}


def read(folder: Path, **runs: Any) -> list[PlannedRun]:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({"folder": str(folder / "runs"), "runs": runs}, sort_keys=False))
    return read_plan(path)


def unfinished(runs: list[PlannedRun]) -> list[str]:
    return [run.name for run in runs if run.command]


def finish(folder: Path, plan: list[PlannedRun]) -> None:
    """Write the files that a run of a plan writes."""
    (run,) = [run for run in plan if run.folder == folder]
    if run.method:
        settings = settings_of(build_parser().parse_args(run.command[2:]))
    else:
        settings = asdict(parse_settings(run.command[1 : run.command.index("--resume")]))
    write_run(folder, settings=settings)


def test_a_training_run_is_a_call_of_the_trainer_with_its_options(tmp_path: Path) -> None:
    options = {
        "initialize_from": "{folder}/first/model",
        "pairs": ["{folder}/a", "b"],
        "model_config": {"residual": True},
        "max_steps": 7,
    }
    first, second = read(tmp_path, first=DAN, second={**DAN, "options": options, "needs": ["first"]})
    runs, trainer = tmp_path / "runs", tmp_path / "trainer"
    assert (second.name, second.label, second.role) == ("second", *LABELED.values())
    assert (second.folder, second.needs) == (runs / "second", ("first",))
    assert first.command[:2] == [str(trainer / "run.py"), str(trainer / "presets" / "small.yaml")]
    settings = parse_settings(second.command[1:])
    assert settings.initialize_from == str(runs / "first/model") and settings.pairs == [str(runs / "a"), "b"]
    assert settings.model_config == {"residual": True}  # without that of the preset, since the model has its own
    assert settings.max_steps == 7
    assert settings.output_dir == str(runs / "second") and not settings.resume


def test_a_varied_setting_is_a_run_of_each_value(tmp_path: Path) -> None:
    entry = {"train": "small", "vary": {"model_config.token_dropout": [0, 0.1]}, "options": {"trackers": ["none"]}}
    runs = read(tmp_path, dropout=entry)
    assert [(run.name, run.varied) for run in runs] == [
        (f"dropout/{value}", ("model_config.token_dropout", value)) for value in ("0", "0.1")
    ]
    assert [run.label for run in runs] == ["model_config.token_dropout = 0", "model_config.token_dropout = 0.1"]
    settings = [parse_settings(run.command[1:]) for run in runs]
    assert [each.model_config for each in settings] == [{"hidden_sizes": [16], "token_dropout": v} for v in (0, 0.1)]
    assert [each.output_dir for each in settings] == [str(run.folder) for run in runs]


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "runs/dan"
    finish(folder, read(tmp_path, dan=DAN))
    (folder / "results.json").unlink()
    (folder / "checkpoint-5").mkdir()
    (run,) = read(tmp_path, dan=DAN)
    assert parse_settings(run.command[1:]).resume


def test_a_run_with_other_settings_is_refused_and_the_message_names_them(tmp_path: Path) -> None:
    finish(tmp_path / "runs/dan", read(tmp_path, dan=DAN))
    with pytest.raises(InputError, match=r"plan\.yaml: dan: .*different settings \(max_steps was 1000, is 7\); delete"):
        read(tmp_path, dan={**DAN, "options": {"max_steps": 7}})
    # Settings without effect on the model may differ.
    assert not unfinished(read(tmp_path, dan={**DAN, "options": {"log_every": 7}}))


def test_a_run_that_is_older_than_an_option_had_its_default(tmp_path: Path) -> None:
    folder, runs = tmp_path / "runs/dan", {"dan": DAN}
    finish(folder, read(tmp_path, **runs))
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    for option in ("similarity_scale", "log_every", "snli_share"):  # of a task, and of every run
        del settings[option]
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    assert not unfinished(read(tmp_path, **runs))


def test_a_run_records_the_tokens_that_its_encoder_reads_by_default(tmp_path: Path) -> None:
    first = {**DAN, "options": {"model_type": "transformer"}}
    runs = {"first": first, "second": {**DAN, "options": {"initialize_from": "{folder}/first/model"}}}
    for name in runs:
        finish(tmp_path / "runs" / name, read(tmp_path, **runs))
        config = tmp_path / "runs" / name / "config.yaml"
        config.write_text(config.read_text().replace("max_tokens: null", "max_tokens: 64"))
    assert not unfinished(read(tmp_path, **runs))
    first["options"]["max_tokens"] = 32
    with pytest.raises(InputError, match=r"different settings \(max_tokens was 64, is 32\); delete the folder"):
        read(tmp_path, **runs)


def test_existing_word_vectors_are_not_trained_again_and_other_settings_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "runs/vectors"
    entry: dict[str, Any] = {
        "embed": "cbow",
        **LABELED,
        "options": {"documents": ["a"], "tokenizer": "b", "min_count": 4},
    }
    (run,) = read(tmp_path, vectors=entry)
    assert run.command[:3] == ["-m", "trainer.report.word2vec", "cbow"] and run.method == "cbow"
    finish(folder, [run])
    assert unfinished(read(tmp_path, vectors=entry)) == []
    for changed, message in (
        ({"embed": "skip_gram"}, "method was cbow, is skip_gram"),
        ({"options": {**entry["options"], "documents": ["a", "c"]}}, "documents was ['a'], is ['a', 'c']"),
        ({"options": {**entry["options"], "min_count": 3}}, "min_count was 4, is 3"),
    ):
        with pytest.raises(
            InputError, match=re.escape(f"vectors: {folder} contains a run with different settings ({message})")
        ):
            read(tmp_path, vectors=entry | changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("folder: [runs", "plan.yaml: not readable as YAML (while parsing a flow sequence"),
        ("folder: runs", "plan.yaml: expected the keys `folder` and `runs`, which maps names to runs"),
        ("{folder: runs, runs: {a: }}", "plan.yaml: a: expected one of train, embed"),
        ("{folder: runs, runs: {a: {train: small, embed: cbow}}}", "a: expected one of train, embed"),
        ("{folder: runs, runs: {a: {train: small, options: [x]}}}", "plan.yaml: a: expected options to be a mapping"),
        ("{folder: runs, runs: {a: {train: small, needs: b}, b: {train: small}}}", "a: expected needs to be a list"),
        ("{folder: runs, runs: {a: {train: small}}}", "a: expected a label and a role, one of conversations, "),
        ("{folder: runs, runs: {a: {train: small, label: x, role: SNLI, needs: [b]}}}",
         "a: needs b, which is not in the plan"),
        ("{folder: runs, runs: {a: &a {train: small, label: x, role: SNLI, needs: [b]}, b: {<<: *a, needs: [a]}}}",
         "plan.yaml: these runs need each other: "),
        ("{folder: runs, runs: {a: {train: unknown, label: x, role: SNLI}}}",
         "a: there is no preset unknown; expected one of small"),
        ("{folder: runs, runs: {a: {train: small, label: x, role: SNLI, options: {max_step: 3}}}}",
         "plan.yaml: a: command line: "),
        ("{folder: runs, runs: {a: {train: small, vary: {seed: 3}}}}",
         "plan.yaml: a: expected vary to map one setting to a list of its values"),
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
    runs = {"after": {**DAN, "needs": ["broken"]}, "second": {**DAN, "needs": ["first"]}, "broken": DAN, "first": DAN}
    failures = run_plan(read(tmp_path, **runs), 1)
    assert failures == {
        "broken": "failed (exit code 1): error: out of luck",
        "after": "skipped, because broken failed",
    }
    assert (tmp_path / "runs/calls.txt").read_text().split() == ["broken", "first", "second"]
    assert (tmp_path / "runs/broken.log").read_text() == "error: out of luck\n"
    assert "broken: failed (exit code 1): error: out of luck" in capsys.readouterr().out
    # Finished runs are not repeated; failed runs are.
    assert set(unfinished(read(tmp_path, **runs))) == {"broken", "after"}


def test_the_shipped_plan_has_existing_presets_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(module.__file__).parent
    monkeypatch.setattr(module, "PRESETS", package.parent / "presets")
    monkeypatch.chdir("/")  # a folder in which none of its runs exists
    plan = read_plan(package / "small.yaml")
    assert len(unfinished(plan)) == len(plan) > 20
