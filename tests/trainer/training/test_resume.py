"""Interrupted and resumed runs have the same results as uninterrupted ones."""

import json
import os
import shutil
import signal
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import yaml
from datasets import Dataset
from safetensors.torch import load_file

from modeling_convsim.files.errors import InputError
from tests.limits import file_size_limit
from tests.trainer.tiny_datasets import write
from tests.trainer.training.tiny_runs import read_metrics, read_results
from trainer import processes
from trainer.runs import Run
from trainer.training import model, schedule
from trainer.training.checkpoints import Progress, complete_checkpoint, load_checkpoint
from trainer.training.loop import TrainingLoop


def assert_same_results(expected: Path, actual: Path, is_stopped: bool = False) -> None:
    """Compare weights bit for bit, checkpoints and the log; a stopped run has logged one more step."""
    names = [[path.name for path in Run(folder).checkpoints] for folder in (expected, actual)]
    assert names[0] == names[1]
    for name in (names[0][-1], "model"):
        weights, others = (load_file(folder / name / "model.safetensors") for folder in (expected, actual))
        assert weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)
    logs = [[row for row in read_metrics(folder) if "dev" in row or not is_stopped] for folder in (expected, actual)]
    assert logs[0] == logs[1]


AVERAGED_DAN = {"average_from": 0.2, "best_metric": "last"}
TRANSFORMER = {"residual": True, "learned_token_weights": True, "hidden_dropout": 0.2}


@pytest.mark.parametrize(("kind", "step", "left"), [("transformer", 6, "4"), ("average", 10, "8")])
def test_a_killed_and_resumed_run_has_the_same_results_bit_for_bit(
    run_trainer, interrupted_at, preset, tiny_transformer, tmp_path, monkeypatch, kind, step, left
):
    monkeypatch.setattr(schedule, "AVERAGED", 2)
    changes: dict = dict(AVERAGED_DAN)
    if kind == "transformer":  # its word vectors and token weights are in the checkpoint
        changes = {"model_type": "transformer", "model_config": tiny_transformer | TRANSFORMER}
        changes |= {"word_vectors": "skip_gram", "token_weights": "sif"}
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), **changes)) == 0
    with interrupted_at(step):
        run_trainer(preset(output_dir=str(resumed), **changes))
    assert [path.name for path in Run(resumed).checkpoints] == [f"checkpoint-{number}" for number in left.split()]
    monkeypatch.setattr(model, "cached_word_vectors", lambda *_, **__: pytest.fail("trains word vectors again"))
    assert run_trainer(preset(output_dir=str(resumed), **changes), "--resume", "true") == 0
    assert_same_results(uninterrupted, resumed)


def test_a_stopped_or_killed_run_is_resumed_from_its_last_checkpoint(
    run_trainer, interrupted_at, preset, tmp_path, monkeypatch, capsys
):
    """SIGTERM saves a checkpoint, before and after the first evaluation, between two rows of the log."""
    uninterrupted, changes = tmp_path / "uninterrupted", {"log_every": 5}
    assert run_trainer(preset(output_dir=str(uninterrupted), **changes)) == 0
    take_step = TrainingLoop.step
    for stopped in (2, 7):

        def step_and_signal(self: TrainingLoop, index: int, stopped: int = stopped) -> None:
            take_step(self, index)
            if index + 1 == stopped:
                os.kill(os.getpid(), signal.SIGTERM)

        path = preset(output_dir=str(tmp_path / str(stopped)), **changes)
        with monkeypatch.context() as patch:
            patch.setattr(TrainingLoop, "step", step_and_signal)
            assert run_trainer(path) == 143
        saved = f"checkpoint-{stopped} is saved: continue with --resume true"
        assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ") and saved in line]
        assert run_trainer(path, "--resume", "true") == 0
        assert_same_results(uninterrupted, tmp_path / str(stopped), is_stopped=True)

    path, killed = preset(output_dir=str(tmp_path / "killed"), **changes), tmp_path / "killed"
    with interrupted_at(10):
        run_trainer(path)
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"step": 10, "pai')
    assert run_trainer(path, "--resume", "true") == 0
    assert_same_results(uninterrupted, killed)


def test_a_run_whose_disk_is_full_names_the_checkpoint_and_is_resumed(
    run_trainer, refused, interrupted_at, preset, tmp_path
):
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted))) == 0
    with interrupted_at(6):
        run_trainer(preset(output_dir=str(resumed)))
    largest = max(path.stat().st_size for path in (resumed / "checkpoint-4").iterdir())
    with file_size_limit(largest - 1):
        message = refused(preset(output_dir=str(resumed)), "--resume", "true")
    assert "checkpoint-8" in message and "cannot be written" in message
    assert run_trainer(preset(output_dir=str(resumed)), "--resume", "true") == 0
    assert_same_results(uninterrupted, resumed)


def test_a_run_is_resumed_with_its_data_settings_precision_and_threads_alone(
    run_trainer, refused, preset, datasets, tmp_path, monkeypatch
):
    monkeypatch.setattr(processes, "has_fast_bfloat16", lambda device: True)
    pairs, config = tmp_path / "pairs", tmp_path / "run" / "config.yaml"
    shutil.copytree(datasets / "pairs", pairs)
    options = {"max_steps": 4, "pairs": [str(pairs)]}
    assert run_trainer(preset(**options)) == 0
    # Another processor.
    monkeypatch.setattr(processes, "has_fast_bfloat16", lambda device: False)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    assert run_trainer(preset(**options), "--resume", "true") == 0
    torch.set_num_threads(threads)
    run = read_results(tmp_path / "run")["run"]
    assert run["mixed_precision"] == "bf16" and run["threads"] == threads

    # A run older than an option had its default.
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({key: value for key, value in settings.items() if key != "symmetric_loss"}))
    message = refused(preset(**options, symmetric_loss=True), "--resume", "true")
    assert "symmetric_loss was False, is True" in message

    validation = pairs / "validation-00000-of-00001.parquet"
    before = validation.read_bytes()
    rows = Dataset.from_parquet(str(validation)).to_list()
    write(pairs, "validation", [*rows[:-1], rows[-1] | {"response": "it is red"}])
    message = refused(preset(**options), "--resume", "true")
    assert "resume: pairs (validation) changed since" in message and "restore the data, or start again" in message
    validation.write_bytes(before)
    (tmp_path / "run" / "checkpoint-4" / "progress.json").write_text("{")
    assert "checkpoint-4/progress.json" in refused(preset(**options), "--resume", "true")


def test_a_run_that_would_compute_in_another_precision_is_refused(tmp_path):
    begun = Progress(mixed_precision="bf16")
    (tmp_path / "checkpoint-4").mkdir()
    (tmp_path / "checkpoint-4" / "progress.json").write_text(json.dumps(asdict(begun)))
    context: Any = SimpleNamespace(folder=tmp_path, accelerator=SimpleNamespace(is_main_process=True))
    with pytest.raises(InputError, match="used mixed_precision bf16, not no: use --mixed_precision bf16"):
        load_checkpoint(context, cast(Any, None), replace(begun, mixed_precision="no"))


def test_the_last_and_the_best_checkpoint_are_kept(tmp_path):
    def complete(step: int, best_step: int | None) -> list[str]:
        written = tmp_path / f".checkpoint-{step}"
        written.mkdir()
        complete_checkpoint(written, Progress(step=step, best_step=best_step))
        return [path.name for path in Run(tmp_path).checkpoints]

    (tmp_path / "checkpoint-mine").mkdir()
    (tmp_path / ".checkpoint-4-replaced").mkdir()
    assert complete(2, 2) == ["checkpoint-2"]
    assert complete(4, 2) == ["checkpoint-2", "checkpoint-4"]
    assert complete(6, 6) == ["checkpoint-6"]
    assert complete(6, 6) == ["checkpoint-6"]  # of a resumed run
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-6", "checkpoint-mine"]
