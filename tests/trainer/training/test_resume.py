"""Interrupted and resumed runs have the same results as uninterrupted ones."""

import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from datasets import Dataset
from safetensors.torch import load_file

from data_scripts.errors import InputError
from modeling_convsim.encoding.checksums import CHECKSUMS
from tests.limits import file_size_limit
from tests.trainer.training.tiny_runs import read_results, values_of, write
from trainer import hardware
from trainer.data import skip_gram
from trainer.training.checkpoints import complete_checkpoint, newest_whole_checkpoint
from trainer.training.context import Progress
from trainer.training.loop import TrainingLoop
from trainer.training.resume import check_unchanged
from trainer.training.run_folder import list_checkpoints


def test_a_killed_and_resumed_run_has_the_same_final_weights_bit_for_bit(
    run_trainer, interrupted_at, preset, tiny_transformer, tmp_path
):
    model = {"model_type": "transformer", "model_config": {**tiny_transformer, "hidden_dropout": 0.2}}
    changes: dict = {**model, "stsb": None}
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), **changes)) == 0
    with interrupted_at(6):
        run_trainer(preset(output_dir=str(resumed), **changes))
    assert [path.name for path in resumed.glob("checkpoint-*")] == ["checkpoint-4"]
    assert run_trainer(preset(output_dir=str(resumed), **changes), "--resume", "true") == 0
    assert_same_weights(*(folder / "checkpoint-12" for folder in (uninterrupted, resumed)))
    assert (uninterrupted / "metrics.jsonl").read_text() == (resumed / "metrics.jsonl").read_text()


@pytest.mark.parametrize("step", [2, 7])  # before and after the first evaluation, between two rows of the log
def test_a_run_that_sigterm_stops_saves_a_checkpoint_and_is_resumed_from_it(
    run_trainer, preset, tmp_path, monkeypatch, capsys, step
):
    changes: dict = {"stsb": None, "log_every": 5}
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), **changes)) == 0
    take_step = TrainingLoop.step

    def step_and_signal(self: TrainingLoop, index: int) -> None:
        take_step(self, index)
        if index + 1 == step:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "step", step_and_signal)
        assert run_trainer(preset(output_dir=str(resumed), **changes)) == 143
    saved = f"checkpoint-{step} is saved: continue with --resume true"
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ") and saved in line]
    assert run_trainer(preset(output_dir=str(resumed), **changes), "--resume", "true") == 0
    assert [path.name for path in list_checkpoints(resumed)] == [path.name for path in list_checkpoints(uninterrupted)]
    assert_same_weights(*(folder / "checkpoint-12" for folder in (uninterrupted, resumed)))
    assert (uninterrupted / "metrics.jsonl").read_text() == (resumed / "metrics.jsonl").read_text()


def test_a_resumed_run_has_its_word_vectors_and_token_weights_from_the_checkpoint(
    run_trainer, interrupted_at, preset, tiny_transformer, tmp_path, monkeypatch
):
    model = tiny_transformer | {"residual": True, "learned_token_weights": True}
    changes: dict = {"model_type": "transformer", "model_config": model, "stsb": None}
    changes |= {"word_vectors": "skip_gram", "token_weights": "sif"}
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), **changes)) == 0
    with interrupted_at(6):
        run_trainer(preset(output_dir=str(resumed), **changes))

    def train_again(*_, **__) -> None:
        raise AssertionError("word vectors of a resumed run are in its checkpoint")

    monkeypatch.setattr(skip_gram, "cached_word_vectors", train_again)
    assert run_trainer(preset(output_dir=str(resumed), **changes), "--resume", "true") == 0
    assert_same_weights(*(folder / "checkpoint-12" for folder in (uninterrupted, resumed)))


def test_a_resumed_siamese_cbow_has_the_same_final_weights_bit_for_bit(siamese_cbow, interrupted_at, tmp_path):
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    siamese_cbow(name="uninterrupted")
    with interrupted_at(5):
        siamese_cbow(name="resumed")
    assert [path.name for path in list_checkpoints(resumed)] == ["checkpoint-2", "checkpoint-4"]
    siamese_cbow("--resume", "true", name="resumed")
    assert_same_weights(*(folder / "model" for folder in (uninterrupted, resumed)))
    losses = [values_of("neighbors/in_order/loss", folder) for folder in (uninterrupted, resumed)]
    assert losses[0] == losses[1] and len(losses[0]) > 5


def test_a_damaged_last_checkpoint_is_named_and_the_one_before_it_is_resumed(
    run_trainer, interrupted_at, preset, tmp_path, caplog
):
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), stsb=None)) == 0
    with interrupted_at(10):
        run_trainer(preset(output_dir=str(resumed), stsb=None))
    damaged = resumed / "checkpoint-8" / "optimizer_1.bin"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with (resumed / "metrics.jsonl").open("a") as file:
        file.write('{"step": 10, "pai')
    assert run_trainer(preset(output_dir=str(resumed), stsb=None), "--resume", "true") == 0
    assert "checkpoint-8 cannot be used: optimizer_1.bin has changed since it was written" in caplog.text
    assert_same_weights(*(folder / "checkpoint-12" for folder in (uninterrupted, resumed)))
    assert (uninterrupted / "metrics.jsonl").read_text() == (resumed / "metrics.jsonl").read_text()
    names = [[path.name for path in list_checkpoints(folder)] for folder in (uninterrupted, resumed)]
    best = f"checkpoint-{read_results(uninterrupted)['run']['best_step']}"
    assert names[0] == names[1] and set(names[0]) == {"checkpoint-12", best}


def test_a_run_whose_disk_is_full_names_the_checkpoint_and_is_resumed(
    run_trainer, refused, interrupted_at, preset, tmp_path
):
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), stsb=None)) == 0
    with interrupted_at(6):
        run_trainer(preset(output_dir=str(resumed), stsb=None))
    largest = max(path.stat().st_size for path in (resumed / "checkpoint-4").iterdir())
    with file_size_limit(largest - 1):
        message = refused(preset(output_dir=str(resumed), stsb=None), "--resume", "true")
    assert "checkpoint-8" in message and "cannot be written" in message
    assert run_trainer(preset(output_dir=str(resumed), stsb=None), "--resume", "true") == 0
    assert_same_weights(*(folder / "checkpoint-12" for folder in (uninterrupted, resumed)))


def test_a_run_is_not_resumed_with_other_data_or_without_a_whole_checkpoint(
    run_trainer, refused, preset, datasets, tmp_path
):
    pairs, checkpoint = tmp_path / "pairs", tmp_path / "run" / "checkpoint-4"
    shutil.copytree(datasets / "pairs", pairs)
    options = {"max_steps": 4, "pairs": [str(pairs)], "stsb": None}
    assert run_trainer(preset(**options)) == 0
    before = {path: path.read_bytes() for path in pairs.iterdir()}
    validation = pairs / "validation-00000-of-00001.parquet"
    rows = Dataset.from_parquet(str(validation)).to_list()
    write(pairs, "validation", [*rows[:-1], rows[-1] | {"response": "it is red"}])
    message = refused(preset(**options), "--resume", "true")
    assert "resume: pairs (validation) changed since" in message and "restore the data, or start again" in message
    for path, content in before.items():
        path.write_bytes(content)
    (checkpoint / "progress.json").write_text("{")
    message = refused(preset(**options), "--resume", "true")
    assert "no whole checkpoint (checkpoint-4: progress.json has changed" in message and "--overwrite true" in message


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"mixed_precision": "no"}, "computed in mixed_precision bf16, not no: use --mixed_precision bf16"),
        ({"fingerprints": {"tokenizer": "2", "pairs (test)": "3"}}, "resume: pairs (test), tokenizer changed since"),
    ],
)
def test_a_change_of_precision_or_data_is_refused(tmp_path, now, message):
    begun = Progress(mixed_precision="bf16", device="cpu", fingerprints={"tokenizer": "1"})
    check_unchanged(tmp_path, begun.as_dict(), begun)
    with pytest.raises(InputError, match=re.escape(message)):
        check_unchanged(tmp_path, begun.as_dict(), replace(begun, **now))


def test_another_device_or_number_of_processes_is_logged(tmp_path, caplog):
    begun = Progress(mixed_precision="bf16", device="cuda", processes=2)
    check_unchanged(tmp_path, begun.as_dict(), replace(begun, device="cpu", processes=1))
    assert "the run had device cuda and now has cpu" in caplog.text
    assert "the run had processes 2 and now has 1" in caplog.text


def test_checkpoints_that_a_resumed_run_may_need_are_kept(tmp_path, caplog):
    def save(step: int, best_step: int, steps: int = 9) -> list[str]:
        written = tmp_path / f".checkpoint-{step}"
        written.mkdir()
        (written / "weights").write_text("good")
        complete_checkpoint(written, Progress(step=step, best_step=best_step), is_last=step == steps)
        return [path.name for path in list_checkpoints(tmp_path)]

    (tmp_path / "checkpoint-mine").mkdir()
    assert save(2, 2) == ["checkpoint-2"]
    assert save(4, 2) == ["checkpoint-2", "checkpoint-4"]
    assert save(6, 6) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]
    (tmp_path / "checkpoint-6" / "weights").write_text("damaged")
    assert newest_whole_checkpoint(tmp_path).name == "checkpoint-4"
    assert save(6, 6) == ["checkpoint-2", "checkpoint-4", "checkpoint-6"]  # resumed, with the damaged one in place
    (tmp_path / "checkpoint-6" / "weights").write_text("damaged")
    (tmp_path / "checkpoint-2" / "weights").write_text("damaged")
    with pytest.raises(InputError, match=r"no whole checkpoint \(checkpoint-2: weights has changed"):
        newest_whole_checkpoint(tmp_path)
    assert "checkpoint-4 cannot be used: its best checkpoint checkpoint-2 cannot be used" in caplog.text
    assert save(8, 6) == ["checkpoint-6", "checkpoint-8"]
    assert save(9, 9) == ["checkpoint-9"] and (tmp_path / "checkpoint-mine").is_dir()


def test_a_run_older_than_an_option_is_resumed_with_its_default(run_trainer, refused, preset, tmp_path):
    assert run_trainer(preset(max_steps=4)) == 0
    config = tmp_path / "run" / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({key: value for key, value in settings.items() if key != "matryoshka_dims"}))
    (tmp_path / "run" / CHECKSUMS).unlink()
    message = refused(preset(max_steps=4, matryoshka_dims=[8]), "--resume", "true")
    assert "matryoshka_dims was [], is [8]" in message
    assert run_trainer(preset(max_steps=4), "--resume", "true") == 0


def test_a_resumed_run_keeps_its_precision_and_threads_on_another_processor(run_trainer, preset, tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (True, "as this test says"))
    assert run_trainer(preset(max_steps=4)) == 0
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (False, "as this test says"))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert run_trainer(preset(max_steps=4), "--resume", "true") == 0
    finally:
        torch.set_num_threads(threads)
    run = read_results(tmp_path / "run")["run"]
    assert run["mixed_precision"] == "bf16" and run["threads"] == (1 if threads == 1 else 2)


def assert_same_weights(expected: Path, actual: Path) -> None:
    weights, others = (load_file(folder / "model.safetensors") for folder in (expected, actual))
    assert weights.keys() == others.keys()
    for name in weights:
        assert torch.equal(weights[name], others[name]), name
