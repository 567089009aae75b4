"""A run deletes what an earlier run wrote, and nothing else, and only when it is sure to train."""

import fcntl
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import RECORD
from modeling_convsim.files.storage import LOCK
from tests.killing import kill_at_each_call
from trainer.runs import Run
from trainer.settings import Settings

RUN_FILES = [
    "config.yaml",
    "metrics.jsonl",
    "results.json",
    "checkpoint-4/model.safetensors",
    "checkpoint-12/model.safetensors",
    "model/config.json",
    "model/README.md",
    "model/1_Router/router_config.json",
    "tokenizer/tokenizer.json",
    "tensorboard/events",
]


def arguments(folder: Path, **changes) -> Settings:
    return Settings(output_dir=str(folder), **changes)


def start(folder: Path, **changes) -> None:
    with Run(folder).opened(arguments(folder, **changes)):
        Run(folder).begin(arguments(folder, **changes))


def add(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("old")


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def run(tmp_path) -> Path:
    """The folder of a finished run."""
    start(tmp_path / "run")
    add(tmp_path / "run", *RUN_FILES[1:])
    return tmp_path / "run"


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize(
    "names",
    [
        ["config.yaml", "thesis.tex"],  # a user's folder of experiments
        ["config.yaml", "config.json", "model.safetensors", "README.md"],  # a published model
        RUN_FILES,  # a run's files without its record
        ["thesis.tex"],
    ],
)
def test_a_folder_that_no_run_has_begun_is_refused(tmp_path, names, overwrite):
    add(tmp_path, *names)
    message = "does not look like a run's folder" if overwrite else "is not empty: resume the run with --resume true"
    with pytest.raises(InputError, match=message):
        start(tmp_path, overwrite=overwrite)
    assert files(tmp_path) == sorted(names)


@pytest.mark.parametrize("name", ["model/config.json", "results.json", "checkpoint-4/model.safetensors"])
def test_a_run_that_left_anything_of_worth_is_not_replaced_unasked(tmp_path, name):
    start(tmp_path / "run")
    add(tmp_path / "run", name)
    with pytest.raises(InputError, match="is not empty: resume the run with --resume true, delete and replace it"):
        start(tmp_path / "run")
    start(tmp_path / "run", overwrite=True)
    assert files(tmp_path / "run") == [RECORD, "config.yaml"]


def test_what_the_run_did_not_write_stays(run):
    others = ["replies/index.json", "notes.txt", "checkpoint-best/model.safetensors", "old/model/config.json"]
    add(run, *others)
    start(run, overwrite=True)
    assert files(run) == sorted([RECORD, "config.yaml", *others])


def test_a_run_that_fails_before_it_begins_leaves_no_folder(tmp_path):
    with pytest.raises(RuntimeError), Run(tmp_path / "run").opened(arguments(tmp_path / "run")):
        raise RuntimeError
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_has_the_settings_that_training_depends_on(run):
    may_change = "license language resume overwrite trackers log_every push_to_hub hub_model_id cache_dir".split()
    settings = arguments(run, resume=True)
    for name, value in asdict(settings).items():
        others = {bool: not value, list: ["other"], dict: {"other": 1}}
        changed = replace(settings, **{name: others.get(type(value), "other")})
        if name in may_change:
            if name != "resume":
                with Run(run).opened(changed):
                    pass
        else:
            message = rf"settings differ from those of the interrupted run \({name} was "
            with pytest.raises(InputError, match=message), Run(run).opened(changed):
                pass


@pytest.mark.parametrize("resume", [True, False])
def test_a_second_run_in_the_same_folder_is_refused(run, resume):
    with (run / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as another process does
        with (
            pytest.raises(InputError, match="run: another process is writing there; wait until it has finished"),
            Run(run).opened(arguments(run, overwrite=not resume, resume=resume)),
        ):
            pass


def test_killed_at_any_call_the_run_can_be_started_again(tmp_path):
    run = tmp_path / "run"
    for calls in kill_at_each_call(lambda: start(run, overwrite=True)):
        start(run, overwrite=True)
        assert files(run) == [RECORD, "config.yaml"], calls
        add(run, "results.json", "model/config.json")


@pytest.mark.parametrize("content", ["", "- a list", "{unclosed"])
def test_a_run_with_a_damaged_config_is_not_resumed(run, content):
    (run / "config.yaml").write_text(content)
    with pytest.raises(InputError, match=r"config\.yaml: (not readable as YAML|expected the settings of a run)"):
        start(run, resume=True)
