"""Runs that cannot start or cannot continue: one line names the error and the remedy."""

import re

import pytest
import torch
from safetensors.torch import load_file

from trainer.training.run_folder import list_checkpoints
from trainer.training.trainable_model import TrainableModel


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"captions": ["nowhere/at/all"], "tasks": {"captions": 1}, "pairs": None}, "nowhere/at/all"),
        ({"nli": ["a/nli", "b/nli"], "tasks": {"entailment": 1}, "pairs": None}, "nli has two datasets named nli"),
        ({"tasks": {"captions": 1}}, "tasks trains on 'captions', so captions is needed"),
        ({"tasks": {"distillation": 1}}, "tasks trains on 'distillation', so teacher is needed"),
        ({"tasks": {"snly": 1}}, "tasks has 'snly'; did you mean 'snli'.; expected one of captions"),
        ({"score_teacher_share": 0.5}, "score_teacher_share has no effect with score_teachers: none: name models in"),
        ({"score_teacher_share": 0}, "score_teacher_share is 0.*; expected more than 0"),
        ({"score_teachers": ["nowhere"]}, "nowhere: the model cannot be loaded"),
        ({"tasks": {"neighbors": 1}}, "tasks trains on 'neighbors', so documents is needed"),
        ({"tasks": {"snli": 1}, "snli_share": 0}, "snli_share is 0, but the run trains on snli alone"),
        ({"pairs": ["nowhere/at/all"]}, "nowhere/at/all"),
        ({"device": "cuda"}, "device is cuda, but torch finds no GPU: use --device cpu"),
        ({"sharded": True}, "sharded divides the layers among several processes, but the run has one: .* drop sharded"),
        ({"num_processes": 2}, "num_processes is 2, but the run has 1"),
        ({"learning_rate": 1e39}, "learning_rate is 1e.39; expected a number between -3.4"),
        ({"learning_rate": 1e38, "optimizer": "adamw"}, "learning_rate is 1e.38, and 2e.39 for the embedding matrices"),
        ({"late_learning_rate": 1e38, "late_from": 0.5}, "late_learning_rate is 1e.38, and 2e.39 for the embedding"),
        ({"max_grad_norm": float("inf")}, "max_grad_norm is inf; expected a number between"),
        ({"mixed_precision": "fp16"}, "mixed_precision is fp16, which needs a GPU"),
        ({"model_config": {"embedding_siz": 3}}, "model_config has 'embedding_siz'; did you mean 'embedding_size'"),
        ({"model_config": {"embedding_size": -3}}, "model_config: .*embedding_size is -3"),
        ({"matryoshka_dims": [8, 0]}, r"matryoshka_dims is \[8, 0\]; expected sizes above 0 and below .* 16"),
        ({"matryoshka_dims": [16]}, r"matryoshka_dims is \[16\]; expected sizes above 0 and below .* 16"),
        (
            {"matryoshka_dims": [8], "tasks": {"snli": 1}, "pairs": None},
            "matryoshka_dims has no effect with tasks: snli",
        ),
        (
            {"best_metric": "stsb.dev.all.pearsn"},
            "'stsb.dev.all.pearsn' is not among the dev results of this run; did you mean 'stsb.dev.all.pearson'",
        ),
        ({"initialize_from": "nowhere/at/all", "vocab_size": None}, "initialize_from: nowhere/at/all cannot be loaded"),
        ({"resume": True}, "resume: .* has no config.yaml with a checkpoint-N"),
        ({"push_to_hub": True, "hub_model_id": "a/b/c"}, "invalid repository id 'a/b/c'"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused_in_one_line(refused, preset, monkeypatch, changes, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search(message, refused(preset(**changes)))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "STEPS is 4, .* mini_batch_size"),
        ("ACCELERATE_USE_FSDP", "true", "configured for FSDP, .* --sharded true"),
        ("ACCELERATE_USE_DEEPSPEED", "true", "configured for DeepSpeed, .* --sharded true"),
        ("ACCELERATE_MIXED_PRECISION", "fp16", "mixed_precision is fp16, which needs a GPU"),
        ("ACCELERATE_MIXED_PRECISION", "fp8", "mixed_precision of `accelerate launch` is fp8; expected no, fp16"),
    ],
)
def test_what_accelerate_is_configured_for_is_used_or_refused(refused, preset, monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search(message, refused(preset(max_steps=1)))


def test_a_task_without_rows_is_refused(refused, preset):
    message = refused(preset(snli_share=0.001))  # of 270 rows
    assert "snli has 0 training pairs, expected 2 or more" in message


def test_an_earlier_run_is_overwritten_only_on_request(run_trainer, refused, preset, tmp_path):
    assert run_trainer(preset(max_steps=1)) == 0
    before = (tmp_path / "run" / "results.json").read_bytes()
    assert "is not empty: resume the run with --resume true" in refused(preset(max_steps=1))
    assert "settings differ from those of the interrupted run (max_steps was 1, is 2)" in refused(
        preset(max_steps=2), "--resume", "true"
    )
    assert (tmp_path / "run" / "results.json").read_bytes() == before


def test_a_mistake_in_the_settings_or_the_data_deletes_nothing(run_trainer, refused, preset, tmp_path):
    assert run_trainer(preset(max_steps=1)) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    for changes in ({"batch_size": 1}, {"pairs": ["nowhere/at/all"]}, {"best_metric": "stsb.dev.all.pearsn"}):
        refused(preset(vocab_size=20, **changes), "--overwrite", "true")
        assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert run_trainer(preset(max_steps=1, vocab_size=20), "--overwrite", "true") == 0
    assert (tmp_path / "run" / "tokenizer" / "tokenizer.json").stat().st_size < len(
        before[tmp_path / "run" / "tokenizer" / "tokenizer.json"]
    )


def test_a_run_that_failed_before_its_first_checkpoint_can_be_started_again(run_trainer, refused, preset):
    assert "best_metric" in refused(preset(best_metric="cqa.dev.map"))
    assert run_trainer(preset(max_steps=1)) == 0


def test_a_vocabulary_that_does_not_match_the_model_is_refused(run_trainer, refused, preset, tmp_path):
    first = tmp_path / "small"
    assert run_trainer(preset(output_dir=str(first), vocab_size=20, max_steps=1)) == 0
    second = tmp_path / "large"
    assert run_trainer(preset(output_dir=str(second), max_steps=1)) == 0
    mixed = preset(
        initialize_from=str(first / "model"), tokenizer=str(second / "model"), model_config=None, vocab_size=None
    )
    assert "use the tokenizer that the model was trained with" in refused(mixed)


def test_a_diverging_run_is_stopped(refused, preset):
    message = refused(preset(optimizer="sgd", learning_rate=1e38, max_grad_norm=None))
    assert (
        re.search("the loss of [a-z_]+ is not finite at step 3: lower learning_rate", message)
        and "has no checkpoint" in message
    )


def test_a_diverging_run_leaves_no_checkpoint_that_is_not_finite(refused, preset, tmp_path):
    changes = {"optimizer": "sgd", "learning_rate": 1e38, "max_grad_norm": None, "best_metric": "last", "stsb": None}
    message = refused(preset(**changes, eval_every=1, log_every=100, mixed_precision="no"))
    assert "is not finite at step 3" in message and "the checkpoint of an earlier step, checkpoint-2" in message
    for checkpoint in list_checkpoints(tmp_path / "run"):
        weights = load_file(checkpoint / "model.safetensors").values()
        assert all(value.isfinite().all() for value in weights)


def test_weights_that_are_not_finite_are_found_before_their_first_loss(refused, preset, tmp_path, monkeypatch):
    def diverge(self: TrainableModel) -> None:
        self.full.embedding_tables()[-1].data[-1, -1] = torch.nan  # a row that few batches have

    monkeypatch.setattr(TrainableModel, "apply_gradients", diverge)
    assert "the weights are not finite after step 1: lower" in refused(preset(eval_every=1, best_metric="last"))
    assert not list_checkpoints(tmp_path / "run")
