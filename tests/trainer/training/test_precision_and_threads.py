"""The precision of a run's computations and of its saved model, and its number of threads."""

import platform
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from data_scripts.errors import InputError
from tests.trainer.training.tiny_runs import read_results
from trainer import hardware
from trainer.training import train


@pytest.mark.parametrize("model_type", ["dan", "transformer"])
def test_bfloat16_trains_and_the_model_is_saved_in_float32(run_trainer, preset, tiny_transformer, tmp_path, model_type):
    changes = {"model_type": model_type, "mixed_precision": "bf16", "stsb": None, "max_steps": 2}
    if model_type == "transformer":
        changes["model_config"] = tiny_transformer
    assert run_trainer(preset(**changes)) == 0
    weights = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_half_precision_is_stored_evaluated_and_loaded_as_float32(run_trainer, preset, tmp_path):
    folder = tmp_path / "run"
    assert run_trainer(preset(half_precision=True)) == 0
    stored = load_file(folder / "model" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    heads = list((folder / "model" / "1_Router").glob("document_*/model.safetensors"))
    assert heads and {value.dtype for each in heads for value in load_file(each).values()} == {torch.float16}
    model = AutoModel.from_pretrained(folder / "model")
    assert model.dtype == torch.float32
    torch.testing.assert_close(model.embed_tokens.weight, stored["encoder.embed_tokens.weight"].float(), rtol=0, atol=0)
    results = read_results(folder)
    full, half = results["full_precision"]["stsb"]["test"]["all"]["pearson"], results["stsb"]["test"]["all"]["pearson"]
    assert half != full and half == pytest.approx(full, abs=0.01)
    checkpoint = load_file(next(folder.glob("checkpoint-*")) / "model.safetensors")
    assert {value.dtype for value in checkpoint.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("precision", "cpu", "is_sharded", "message"),
    [
        ("fp8", False, False, "is fp8; expected no, fp16 or bf16"),
        ("fp16", True, False, "is fp16, which needs a GPU"),
        ("fp16", False, True, "is fp16, but the losses of a sharded run cannot be scaled: use bf16 or no"),
        ("fp16", False, False, ""),
        ("bf16", False, True, ""),
        ("no", True, True, ""),
    ],
)
def test_a_precision_that_the_run_cannot_have_is_refused(precision, cpu, is_sharded, message):
    with pytest.raises(InputError, match=message) if message else nullcontext():
        hardware._check_precision(precision, cpu, is_sharded)


@pytest.mark.parametrize(
    ("launched", "is_fast", "expected"), [("no", True, "bf16"), ("no", False, "no"), ("bf16", False, "bf16")]
)
def test_precision_is_the_launchers_or_bfloat16_if_it_is_fast(
    run_trainer, launched, is_fast, expected, preset, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (is_fast, "as this test says"))
    with caplog.at_level("INFO"):
        assert run_trainer(preset()) == 0
    assert read_results(tmp_path / "run")["run"]["mixed_precision"] == expected
    assert ("as this test says" in caplog.text) == (launched == "no")


def test_results_hardly_depend_on_the_number_of_threads(run_trainer, preset, tmp_path):
    weights = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        folder = tmp_path / str(threads)
        assert run_trainer(preset(mixed_precision="no"), "--output_dir", str(folder)) == 0
        weights.append(load_file(folder / "model" / "model.safetensors"))
    torch.set_num_threads(before)
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4)


PAGE_FAULTS = """
import resource, sys
import torch
from trainer.hardware import keep_freed_memory

if sys.argv[1] == "keep":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(40):
    torch.ones(40, 1024, 256)  # 40 MiB
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is a function of glibc")
def test_freed_memory_is_used_again_without_page_faults():
    faults = {
        choice: int(subprocess.check_output([sys.executable, "-c", PAGE_FAULTS, choice], text=True))
        for choice in ("keep", "return")
    }
    # A few of the 40 arrays find no place between others and extend the heap.
    assert 4 * faults["keep"] < faults["return"]


def test_training_on_a_cpu_keeps_freed_memory(run_trainer, preset, monkeypatch):
    calls = []
    monkeypatch.setattr(train, "keep_freed_memory", lambda: calls.append(True))
    assert run_trainer(preset(device="cpu", max_steps=1)) == 0
    assert calls == [True]
