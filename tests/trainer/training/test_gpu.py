"""A run on a GPU, compared with one on the CPU; to run these tests, set CUDA_VISIBLE_DEVICES=0."""

from pathlib import Path

import pytest
import torch

from tests.trainer.training.tiny_runs import read_metrics, read_results

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU, or CUDA_VISIBLE_DEVICES hides it")


def losses(folder: Path) -> list[float]:
    return [value for row in read_metrics(folder) for key, value in row.items() if key.endswith("/loss")]


@pytest.fixture(params=["dan", "transformer"])
def model(request, tiny_transformer) -> dict:
    if request.param == "dan":
        return {"model_config": {"embedding_size": 16, "word_embedding_size": 16, "bigram_buckets": 64}}
    return {
        "model_type": "transformer",
        "model_config": tiny_transformer | {"hidden_dropout": 0.0, "attention_dropout": 0.0},
    }


def test_a_run_on_a_gpu_has_the_losses_of_one_on_a_cpu(run_trainer, preset, model, tmp_path, monkeypatch):
    for device in ("cpu", "cuda"):
        monkeypatch.setenv("ACCELERATE_USE_CPU", str(device == "cpu"))
        path = preset(output_dir=str(tmp_path / device), mixed_precision="no", **model)
        assert run_trainer(path) == 0
    assert losses(tmp_path / "cuda") == pytest.approx(losses(tmp_path / "cpu"), rel=1e-2)


def test_a_run_in_bfloat16_is_resumed(run_trainer, interrupted_at, preset, model, tmp_path):
    def write_preset(folder: str) -> str:
        return preset(output_dir=str(tmp_path / folder), mixed_precision="bf16", **model)

    assert run_trainer(write_preset("uninterrupted")) == 0
    with interrupted_at(6):
        run_trainer(write_preset("resumed"))
    assert run_trainer(write_preset("resumed"), "--resume", "true") == 0
    assert losses(tmp_path / "resumed") == pytest.approx(losses(tmp_path / "uninterrupted"), rel=1e-2)
    assert read_results(tmp_path / "resumed")["response_prediction"]["p_at_1"] > 0
