"""Interrupted and resumed runs have the same results as uninterrupted ones."""

from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tests.trainer.training.tiny_runs import read_results, values_of
from trainer import hardware


@pytest.mark.parametrize("model_type", ["dan", "transformer"])
def test_a_resumed_run_has_the_same_final_weights_bit_for_bit(
    run_trainer, interrupted_at, preset, tiny_transformer, tmp_path, model_type
):
    changes: dict = {"model_type": model_type, "stsb": None}
    if model_type == "transformer":
        changes["model_config"] = {**tiny_transformer, "hidden_dropout": 0.2}
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), **changes)) == 0
    with interrupted_at(6):
        run_trainer(preset(output_dir=str(resumed), **changes))
    assert [path.name for path in resumed.glob("checkpoint-*")] == ["checkpoint-4"]
    assert run_trainer(preset(output_dir=str(resumed), **changes), "--resume", "true") == 0
    assert_same_weights(*(folder / "checkpoint-12" for folder in (uninterrupted, resumed)))
    assert (uninterrupted / "metrics.jsonl").read_text() == (resumed / "metrics.jsonl").read_text()


def test_a_resumed_siamese_cbow_has_the_same_final_weights_bit_for_bit(siamese_cbow, interrupted_at, tmp_path):
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    siamese_cbow(name="uninterrupted")
    with interrupted_at(5):
        siamese_cbow(name="resumed")
    assert [path.name for path in resumed.glob("checkpoint-*")] == ["checkpoint-4"]
    siamese_cbow("--resume", "true", name="resumed")
    assert_same_weights(*(folder / "model" for folder in (uninterrupted, resumed)))
    losses = [values_of("neighbors/in_order/loss", folder) for folder in (uninterrupted, resumed)]
    assert losses[0] == losses[1] and len(losses[0]) > 5


def test_a_run_older_than_an_option_is_resumed_with_its_default(run_trainer, refused, preset, tmp_path):
    assert run_trainer(preset(max_steps=4)) == 0
    config = tmp_path / "run" / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({key: value for key, value in settings.items() if key != "matryoshka_dims"}))
    message = refused(preset(max_steps=4, matryoshka_dims=[8]), "--resume", "true")
    assert "matryoshka_dims was [], is [8]" in message
    assert run_trainer(preset(max_steps=4), "--resume", "true") == 0


def test_a_resumed_run_keeps_its_precision_on_another_processor(run_trainer, preset, tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (True, "as this test says"))
    assert run_trainer(preset(max_steps=4)) == 0
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (False, "as this test says"))
    assert run_trainer(preset(max_steps=4), "--resume", "true") == 0
    assert read_results(tmp_path / "run")["run"]["mixed_precision"] == "bf16"


def assert_same_weights(expected: Path, actual: Path) -> None:
    weights, others = (load_file(folder / "model.safetensors") for folder in (expected, actual))
    assert weights.keys() == others.keys()
    for name in weights:
        assert torch.equal(weights[name], others[name]), name
