"""The finished model has the weights of the best checkpoint, and is evaluated on the requested splits."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from trainer.training import finish
from trainer.training.context import Progress
from trainer.training.finish import _final_results, _load_best


def test_the_weights_of_the_best_checkpoint_are_loaded(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        (tmp_path / f"checkpoint-{step}").mkdir()
        save_file({"weight": torch.full((1, 2), float(step))}, tmp_path / f"checkpoint-{step}" / "model.safetensors")
    model: Any = nn.Linear(2, 1, bias=False)
    _load_best(model, tmp_path, Progress(step=6, best_step=4))
    assert model.weight.tolist() == [[4, 4]]


def test_results_describe_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish, "measure_speed", lambda encoder, tokenizer: {"speed": (encoder, tokenizer)})
    monkeypatch.setattr(finish.time, "monotonic", lambda: 107.26)
    model = nn.Sequential()
    model.encoder = nn.Linear(2, 3)
    accelerator = SimpleNamespace(num_processes=2, device=torch.device("cpu", 0), mixed_precision="bf16")
    context: Any = SimpleNamespace(accelerator=accelerator, started=100.0, arguments=SimpleNamespace(seed=5))
    evaluator: Any = SimpleNamespace(model=model, tokenizer="tokenizer")
    progress = Progress(step=6, best_step=4, pairs=48, seconds=3.14159, threads=3)
    assert finish._describe_run(context, evaluator, progress, {"pairs": 70}) == {
        "seconds": 3.1, "total_seconds": 7.3, "pairs": 48, "steps": 6, "best_step": 4, "parameters": 9, "seed": 5,
        "processes": 2, "device": "cpu", "threads": 3, "mixed_precision": "bf16", "rows": {"pairs": 70},
        "speed": (model.encoder, "tokenizer"),
    }  # fmt: skip


@dataclass
class Options:
    """Some options of a run."""

    push_to_hub: bool = False
    hub_model_id: str | None = None


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a run does at its end, in order."""
    events: list[Any] = []

    def record(name: str) -> Any:
        return lambda *arguments, **options: events.append((name, *arguments, options))

    for name in ("build_folder", "write_results", "record_files", "publish"):
        monkeypatch.setattr(finish, name, record(name))
    return events


@pytest.mark.parametrize(
    ("options", "is_published"), [(Options(), False), (Options(False, "a/b"), False), (Options(True, "a/b"), True)]
)
def test_the_results_are_written_after_the_model_and_published_on_request(
    tmp_path: Path, events: list[Any], options: Options, is_published: bool
) -> None:
    context: Any = SimpleNamespace(folder=tmp_path, arguments=options)
    evaluator: Any = SimpleNamespace(model="model", tokenizer="tokenizer")
    finish._write(context, evaluator, {"snli": 1}, np.eye(1))
    settings = {"push_to_hub": options.push_to_hub, "hub_model_id": options.hub_model_id}
    assert events == [
        (
            *("build_folder", "model", "tokenizer", tmp_path / "model"),
            {"results": {"snli": 1}, "settings": settings, "sts_matrix": np.eye(1)},
        ),
        ("write_results", tmp_path / "results.json", {"snli": 1}, {}),
        ("record_files", tmp_path, ["config.yaml", "metrics.jsonl", "results.json"], {}),
        *([("publish", tmp_path, "a/b", {})] if is_published else []),
    ]


@pytest.mark.parametrize(("is_main", "waits"), [(True, [1.25]), (True, [0.5, 1.25]), (False, [0.5, 1.25])])
def test_the_main_process_alone_writes_the_results_of_the_best_checkpoint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_main: bool,
    waits: list[float],
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(finish, "seconds_waited", lambda: waits[0])
    monkeypatch.setattr(finish, "gather", lambda own: waits if own == waits[0] else [])
    events: list[Any] = []

    def final_results(context: Any, evaluator: Any, matrices: dict[str, Any]) -> dict[str, Any]:
        matrices["stsb_tuned"] = "matrix"
        return {"snli": 1}

    monkeypatch.setattr(finish, "_final_results", final_results)
    monkeypatch.setattr(finish, "_load_best", lambda *arguments: events.append(arguments))
    monkeypatch.setattr(finish, "_describe_run", lambda *arguments: arguments)
    monkeypatch.setattr(finish, "find_hub_sources", lambda settings: ("sources", settings["hub_model_id"]))
    monkeypatch.setattr(finish, "find_licenses", lambda settings: ("licenses", settings["hub_model_id"]))
    monkeypatch.setattr(finish, "_write", lambda *arguments: events.append(arguments))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: events.append(count))
    monkeypatch.setattr(finish, "wait_for_all", lambda: events.append("waits"))
    context: Any = SimpleNamespace(
        accelerator=SimpleNamespace(is_main_process=is_main),
        threads=3,
        folder=tmp_path,
        arguments=Options(hub_model_id="a/b"),
    )
    evaluator: Any = SimpleNamespace(model="model")
    results = finish.finish_run(context, evaluator, "progress", "rows", "leakage")  # type: ignore[arg-type]
    expected = {
        "snli": 1, "run": (context, evaluator, "progress", "rows"), finish.HUB_SOURCES: ("sources", "a/b"),
        "licenses": ("licenses", "a/b"), "leakage": "leakage",
    }  # fmt: skip
    done = [("model", tmp_path, "progress"), (context, evaluator, expected, "matrix")] if is_main else []
    assert results == (expected if is_main else {}) and events == [3, *done, "waits"]
    lines = ["Seconds that each process waited for others between steps: 0.5, 1.2"]
    assert caplog.messages == (lines if is_main and len(waits) == 2 else [])


class FakeEvaluator:
    """Its score is the weight of its model; remembers how it is called."""

    def __init__(self) -> None:
        self.model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.model.weight, 1 / 3)
        self.calls: list[tuple[str, bool]] = []

    def evaluate(self, split: str, intervals: bool = False, matrices: Any = None) -> dict[str, Any]:
        self.calls.append((split, intervals))
        weight = self.model.weight.item()
        matrices["stsb_tuned"] = np.full((1, 1), weight)
        return {"snli": {"accuracy": weight}, "stsb_tuned": {"test": {"all": {"pearson": weight}}}}


@pytest.mark.parametrize("split", ["both", "dev"])
@pytest.mark.parametrize("half", [False, True])
def test_the_published_weights_are_evaluated_on_the_requested_splits(split: str, half: bool) -> None:
    evaluator, matrices = FakeEvaluator(), {}
    context = SimpleNamespace(arguments=SimpleNamespace(final_split=split, half_precision=half))
    results = _final_results(context, evaluator, matrices)  # type: ignore[arg-type, var-annotated]
    whole, rounded = float(np.float32(1 / 3)), float(np.float16(1 / 3))
    published = rounded if half else whole
    assert evaluator.calls == [(split, True)] * (1 + half)
    assert results["snli"] == {"accuracy": published} and matrices["stsb_tuned"] == published
    assert results["stsb_tuned"]["test"]["all"]["pearson"] == published
    # Tuning is not compared: it changes by more than the rounding of the weights.
    assert results.get("full_precision") == ({"snli": {"accuracy": whole}} if half else None)
