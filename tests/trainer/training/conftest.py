"""Fixtures of the tests of whole runs: tiny synthetic datasets, a preset, and `trainer/run.py` in this process."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import yaml
from accelerate.state import AcceleratorState
from datasets import Dataset

from tests.trainer.training.tiny_runs import COLORS, THINGS, read_results, write
from trainer import run
from trainer.training.loop import TrainingLoop


@pytest.fixture(scope="module")
def datasets(tmp_path_factory) -> Path:
    """Pairs of a question about the color of a thing and its answer, and NLI and STS on the same things."""
    folder = tmp_path_factory.mktemp("datasets")
    pairs = [
        {"input": f"what color is the {thing} of {name}", "response": f"the {thing} of {name} is {color}"}
        | {"thread": f"{thing}/{name}", "source": "synthetic"}
        for thing in THINGS
        for name in ("ann", "bob", "eve", "tom")
        for color in COLORS
    ]
    order = np.random.default_rng(0).permutation(len(pairs))
    for split, part in (("train", order[:240]), ("validation", order[240:360]), ("test", order[360:])):
        write(folder / "pairs", split, [pairs[index] for index in part])
    for split, things in (("train", THINGS[:9]), ("validation", THINGS[9:]), ("test", THINGS[9:])):
        write(folder / "nli", split, nli_rows(things))
        write(folder / "sts", split, sts_rows(things))
    return folder


def nli_rows(things: list[str]) -> list[dict]:
    rows = []
    for thing in things:
        for color, other in zip(COLORS, COLORS[1:] + COLORS[:1], strict=True):
            premise = f"a {color} {thing} stands here"
            rows.append({"premise": premise, "hypothesis": f"there is a {thing}", "label": 0})
            rows.append({"premise": premise, "hypothesis": f"the {thing} is old", "label": 1})
            rows.append({"premise": premise, "hypothesis": f"the {thing} is {other}", "label": 2})
    return rows


def sts_rows(things: list[str]) -> list[dict]:
    return [
        {"sentence1": f"a {color} {thing}", "sentence2": f"one {other} {thing}"}
        | {"score": 5.0 if color == other else 2.0, "genre": "captions"}
        for thing in things
        for color, other in zip(COLORS, COLORS[:5] + COLORS[:5], strict=True)
    ]


@pytest.fixture(scope="module")
def positive_pairs(datasets) -> dict[str, list[str]]:
    """Captions by image, paraphrases with and without scores, and NLI, as options of a run."""
    captions = [
        {"group": f"{color} {thing}", "captions": [f"a {color} {thing}", f"one {thing}, {color}", f"{color} {thing}s"]}
        for color in COLORS
        for thing in THINGS
    ]
    write(datasets / "captions", "train", captions)
    pairs = [
        {"sentence1": f"where is the {thing} of {name}", "sentence2": f"in which place is the {other} of {name}"}
        | {"score": float(thing == other)}
        for name in ("ann", "bob", "eve", "tom")
        for thing, other in zip(THINGS * 2, THINGS + THINGS[1:] + THINGS[:1], strict=True)
    ]
    write(datasets / "rated", "train", pairs)
    write(datasets / "unrated", "train", [pair | {"score": None} for pair in pairs if pair["score"]])
    return {
        "captions": [str(datasets / "captions")],
        "paraphrases": [str(datasets / "rated"), str(datasets / "unrated")],
        "nli": [str(datasets / "nli")],
    }


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
            "snli": str(datasets / "nli"),
            "stsb": str(datasets / "sts"),
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
            "device": "cpu",
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


@pytest.fixture
def run_trainer(monkeypatch) -> Callable[..., int]:
    """Runs `python trainer/run.py …` in this process, as a user would; returns its exit code."""

    def run_main(*argv: str) -> int:
        monkeypatch.setattr(sys, "argv", ["trainer/run.py", *argv])
        AcceleratorState._reset_state(reset_partial_state=True)  # as in a new process
        try:
            return run.main()
        except SystemExit as stopped:  # from the parser
            return int(stopped.code or 0)

    return run_main


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
def siamese_cbow(datasets, tmp_path, run_trainer) -> Callable[..., dict]:
    """Trains a tiny Siamese CBOW on synthetic books, with more options; returns the run's results."""
    rows = [
        {"book": book, "position": position, "sentence": f"{THINGS[(position + shift) // 8]} {color}"}
        for book, shift in (("one", 0), ("two", 9), ("three", 20))
        for position in range(70)
        if position % 23 != 22  # a gap, like that of a removed sentence
        for color in [COLORS[position % len(COLORS)]]
    ]
    write(datasets / "in_order", "train", rows)

    def train(*options: str, name: str = "run") -> dict:
        changes = {"documents": datasets / "in_order", "stsb": "none", "sts": "none", "cache_dir": datasets / "cache"}
        changes |= {"model_config": '{"embedding_size": 8}', "batch_size": 32, "learning_rate": 1, "eval_every": 2}
        changes |= {"log_every": 1, "trackers": "none", "device": "cpu", "output_dir": tmp_path / name}
        words = [word for key, value in changes.items() for word in (f"--{key}", str(value))]
        preset = Path(run.__file__).parent / "presets" / "siamese_cbow.yaml"
        assert run_trainer(str(preset), *words, *options) == 0
        return read_results(tmp_path / name)

    return train


@pytest.fixture
def two_process_preset(tmp_path) -> Path:
    """The preset of a run of a few steps on synthetic pairs."""
    generator = np.random.default_rng(0)
    words = [f"word{index}" for index in range(40)]
    rows = [
        {"input": " ".join(generator.choice(words, 4)), "response": " ".join(generator.choice(words, 4))}
        | {"thread": str(index), "source": "synthetic"}
        for index in range(300)
    ]
    (tmp_path / "pairs").mkdir()
    for split, part in (("train", rows[:150]), ("validation", rows[150:])):
        Dataset.from_list(part).to_parquet(tmp_path / "pairs" / f"{split}-00000-of-00001.parquet")
    options = {
        "model_config": {"word_embedding_size": 8, "bigram_buckets": 16, "hidden_sizes": [8], "embedding_size": 8},
        "pairs": [str(tmp_path / "pairs")],
        "tasks": {"response_prediction": 1},
        "mask_false_negatives": True,
        "optimizer": "adamw",
        "learning_rate": 0.01,
        "max_grad_norm": 1.0,
        "mixed_precision": "no",
        "max_steps": 6,
        "batch_size": 16,
        "eval_every": 6,
        "log_every": 2,
        "trackers": ["none"],
        "cache_dir": str(tmp_path / "cache"),
    }
    path = tmp_path / "preset.yaml"
    path.write_text(yaml.safe_dump(options))
    return path
