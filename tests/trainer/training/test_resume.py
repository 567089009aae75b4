"""Interrupted and resumed runs have the same results as uninterrupted ones; damaged checkpoints are not used."""

import os
import shutil
import signal
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from datasets import Dataset
from safetensors.torch import load_file

from data_scripts.files.errors import InputError
from data_scripts.files.folders import CHECKSUMS
from tests.limits import file_size_limit
from tests.trainer.tiny_datasets import write
from tests.trainer.training.tiny_runs import read_metrics, read_results
from trainer import hardware
from trainer.data import word_vectors
from trainer.training import schedule
from trainer.training.checkpoints import (
    _check_unchanged,
    complete_checkpoint,
    newest_whole_checkpoint,
)
from trainer.training.context import Progress
from trainer.training.loop import TrainingLoop
from trainer.training.run_folder import list_checkpoints


def assert_same_results(expected: Path, actual: Path, is_stopped: bool = False) -> None:
    """Compare weights bit for bit, checkpoints and the log; a stopped run has logged one more step."""
    names = [[path.name for path in list_checkpoints(folder)] for folder in (expected, actual)]
    assert names[0] == names[1]
    for name in (names[0][-1], "model"):
        weights, others = (load_file(folder / name / "model.safetensors") for folder in (expected, actual))
        assert weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)
    logs = [[row for row in read_metrics(folder) if "dev" in row or not is_stopped] for folder in (expected, actual)]
    assert logs[0] == logs[1]


AVERAGED_DAN = {"average_from": 0.2, "best_metric": "last"}
TRANSFORMER = {"residual": True, "learned_token_weights": True, "hidden_dropout": 0.2}


@pytest.mark.parametrize(("kind", "step", "left"), [("transformer", 6, "4"), ("average", 10, "4 8")])
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
    assert [path.name for path in list_checkpoints(resumed)] == [f"checkpoint-{number}" for number in left.split()]
    monkeypatch.setattr(word_vectors, "cached_word_vectors", lambda *_, **__: pytest.fail("trains word vectors again"))
    assert run_trainer(preset(output_dir=str(resumed), **changes), "--resume", "true") == 0
    assert_same_results(uninterrupted, resumed)


def test_a_stopped_or_damaged_run_is_resumed_from_its_last_whole_checkpoint(
    run_trainer, interrupted_at, preset, tmp_path, monkeypatch, capsys, caplog
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

    path, damaged = preset(output_dir=str(tmp_path / "damaged"), **changes), tmp_path / "damaged"
    with interrupted_at(10):
        run_trainer(path)
    (damaged / "checkpoint-8" / "optimizer_1.bin").write_bytes(b"cut")
    with (damaged / "metrics.jsonl").open("a") as file:
        file.write('{"step": 10, "pai')
    assert run_trainer(path, "--resume", "true") == 0
    assert "checkpoint-8 cannot be used: optimizer_1.bin is damaged" in caplog.text
    assert_same_results(uninterrupted, damaged)


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
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (True, "as this test says"))
    pairs, config = tmp_path / "pairs", tmp_path / "run" / "config.yaml"
    shutil.copytree(datasets / "pairs", pairs)
    options = {"max_steps": 4, "pairs": [str(pairs)]}
    assert run_trainer(preset(**options)) == 0
    # Another processor.
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (False, "as this test says"))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    assert run_trainer(preset(**options), "--resume", "true") == 0
    torch.set_num_threads(threads)
    run = read_results(tmp_path / "run")["run"]
    assert run["mixed_precision"] == "bf16" and run["threads"] == threads

    # A run older than an option had its default.
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({key: value for key, value in settings.items() if key != "matryoshka_dims"}))
    (tmp_path / "run" / CHECKSUMS).unlink()
    message = refused(preset(**options, matryoshka_dims=[8]), "--resume", "true")
    assert "matryoshka_dims was [], is [8]" in message

    validation = pairs / "validation-00000-of-00001.parquet"
    before = validation.read_bytes()
    rows = Dataset.from_parquet(str(validation)).to_list()
    write(pairs, "validation", [*rows[:-1], rows[-1] | {"response": "it is red"}])
    message = refused(preset(**options), "--resume", "true")
    assert "resume: pairs (validation) changed since" in message and "restore the data, or start again" in message
    validation.write_bytes(before)
    (tmp_path / "run" / "checkpoint-4" / "progress.json").write_text("{")
    message = refused(preset(**options), "--resume", "true")
    assert "no whole checkpoint (checkpoint-4: progress.json is damaged" in message and "--overwrite true" in message


def test_a_run_that_would_compute_in_another_precision_is_refused(tmp_path):
    begun = Progress(mixed_precision="bf16", device="cpu")
    with pytest.raises(InputError, match="computed in mixed_precision bf16, not no: use --mixed_precision bf16"):
        _check_unchanged(tmp_path, asdict(begun), replace(begun, mixed_precision="no"))


def complete(folder: Path, step: int, best_step: int | None, is_last: bool = False, **progress: Any) -> list[str]:
    """Complete a checkpoint; returns the names of all of them."""
    written = folder / f".checkpoint-{step}"
    (written / "shards").mkdir(parents=True)
    (written / "shards" / "0").write_text("good")
    complete_checkpoint(written, Progress(step=step, best_step=best_step, **progress), is_last)
    return [path.name for path in list_checkpoints(folder)]


def test_checkpoints_that_a_resumed_run_may_need_are_kept(tmp_path, caplog):
    (tmp_path / "checkpoint-mine").mkdir()
    (tmp_path / ".checkpoint-4-replaced").mkdir()
    assert complete(tmp_path, 2, 2) == ["checkpoint-2"]
    assert complete(tmp_path, 4, 2) == ["checkpoint-2", "checkpoint-4"]
    assert complete(tmp_path, 6, 6) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]
    (tmp_path / "checkpoint-6" / "shards" / "0").write_text("damaged")
    assert newest_whole_checkpoint(tmp_path).name == "checkpoint-4"
    # Resumed, with the damaged one in place.
    assert complete(tmp_path, 6, 6) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]
    assert (tmp_path / "checkpoint-6" / "shards" / "0").read_text() == "good"
    (tmp_path / "checkpoint-6" / "shards" / "0").write_text("damaged")
    (tmp_path / "checkpoint-2" / "shards" / "0").unlink()
    with pytest.raises(InputError, match=r"no whole checkpoint \(checkpoint-2: shards/0 is missing"):
        newest_whole_checkpoint(tmp_path)
    assert "checkpoint-4 cannot be used: its best checkpoint checkpoint-2 cannot be used" in caplog.text
    assert complete(tmp_path, 8, 6) == ["checkpoint-6", "checkpoint-8"]
    assert complete(tmp_path, 9, 9, is_last=True) == ["checkpoint-9"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-9", "checkpoint-mine"]
