"""Fixtures of the tests of whole runs: tiny synthetic datasets, a preset, and `trainer/run.py` in this process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.trainer.tiny_datasets import write, write_datasets
from tests.trainer.training.tiny_runs import run_trainer
from trainer.training.loop import TrainingLoop


@pytest.fixture(scope="session")
def datasets(tmp_path_factory) -> Path:
    """A folder with a tiny dataset of every kind, and the cache of the runs."""
    folder = tmp_path_factory.mktemp("datasets")
    write_datasets(folder)
    return folder


@pytest.fixture
def preset(datasets, tmp_path) -> Callable[..., str]:
    """Writes a preset of the tiny run, with some options changed or dropped (None); returns its path."""

    def write_preset(**changes) -> str:
        heads = {"embedding_size": 16, "response_hidden_sizes": [16], "nli_hidden_size": 16}
        layers = {"word_embedding_size": 16, "bigram_buckets": 64, "hidden_sizes": [16], "token_dropout": 0.1}
        options = {
            "model_type": "dan",
            "model_config": layers | heads,
            "vocab_size": 100,
            "pairs": [str(datasets / "pairs")],
            "snli": str(datasets / "snli"),
            "tasks": {"response_prediction": 0.7, "snli": 0.3},
            "optimizer": "adamw",
            "learning_rate": 0.01,
            "max_grad_norm": 1.0,
            "max_steps": 12,
            "batch_size": 16,
            "eval_every": 4,
            "log_every": 2,
            "trackers": ["none"],
            "output_dir": str(tmp_path / "run"),
            "cache_dir": str(datasets / "cache"),
        } | changes
        path = tmp_path / "preset.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in options.items() if value is not None}))
        return str(path)

    return write_preset


@pytest.fixture
def tiny_transformer() -> dict:
    """The `model_config` of a tiny Transformer."""
    layers = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return layers | {"embedding_size": 16, "response_hidden_sizes": [16], "nli_hidden_size": 16}


@pytest.fixture(name="run_trainer")
def _run_trainer() -> Callable[..., int]:
    return run_trainer


@pytest.fixture
def refused(run_trainer, capsys) -> Callable[..., str]:
    """Runs `trainer/run.py`, which must fail with exit code 2 and a one-line error; returns that line."""

    def run_and_fail(*argv: str) -> str:
        assert run_trainer(*argv) == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1
        return lines[0]

    return run_and_fail


@pytest.fixture
def interrupted_at(monkeypatch) -> Callable[[int], AbstractContextManager[None]]:
    """A context in which a run must end before it takes a given step, as if it were killed."""
    take_step = TrainingLoop.step

    class Killed(BaseException):
        pass

    @contextmanager
    def interrupt(step: int) -> Iterator[None]:
        def step_or_interrupt(self: TrainingLoop, index: int) -> None:
            if index == step:
                raise Killed
            take_step(self, index)

        with monkeypatch.context() as patch:
            patch.setattr(TrainingLoop, "step", step_or_interrupt)
            with pytest.raises(Killed):
                yield

    return interrupt


@pytest.fixture
def two_process_preset(preset, tmp_path) -> Path:
    """The preset of a run of a few steps on random words, in float32."""
    texts = [" ".join(f"word{n}" for n in row) for row in np.random.default_rng(0).integers(40, size=(600, 4))]
    pairs = zip(texts[::2], texts[1::2], strict=True)
    rows = [{"input": one, "response": two, "thread": one, "source": "synthetic"} for one, two in pairs]
    write(tmp_path / "pairs", "train", rows[:150])
    write(tmp_path / "pairs", "validation", rows[150:])
    sizes = {"word_embedding_size": 8, "bigram_buckets": 16, "hidden_sizes": [8], "embedding_size": 8}
    options = {"model_config": sizes, "tasks": {"response_prediction": 1}, "mask_false_negatives": True, "snli": None}
    options |= {"mixed_precision": "no", "max_steps": 6, "eval_every": 6, "output_dir": None}
    return Path(preset(**options, pairs=[str(tmp_path / "pairs")], cache_dir=str(tmp_path / "cache")))
