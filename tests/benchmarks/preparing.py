"""What a run does with its pairs before the first step: seconds and memory for several numbers of pairs.

    python -m tests.benchmarks.preparing data/reddit [--pairs 250000 500000 1000000] [--target 600000000]

repeats the training pairs of a folder up to each number, and runs each phase in a fork of this process, in one thread:
the removal of evaluation sentences, the vocabulary, the token cache, token weights, skip-gram vectors (one pass) and
the order of an epoch. Seconds are those of the processor, which other load does not change. Memory is the peak of what
a phase allocates (`RssAnon`), without mapped files, of which the system keeps in memory what fits. It prints a table,
with the values expected for a larger number of pairs:

    seconds = seconds of the most pairs * target / most pairs; word vectors at most those of 300,000,000 tokens
    memory = memory of the most pairs + (target - most pairs) * growth since the second most / their difference

where a growth below 5 % is no growth. That of word vectors is in proportion to the words that have one, at most
30,000. A tokenizer's trainer also counts all distinct words, which repeated pairs do not add.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, load_dataset
from transformers import PreTrainedTokenizerFast

from data_scripts.tools.leakage import remove_leaked
from data_scripts.tools.tokenizer import train_tokenizer
from tests.benchmarks.processes import call
from trainer.data import skip_gram
from trainer.data.datasets import RunData, training_texts
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.token_weights import sif_weights
from trainer.training.batching import BatchPlan

VOCABULARY, WIDTH, MAX_TOKENS = 30_000, 300, 64
SMALLEST_GROWTH = 0.05
Row = dict[str, float]  # "seconds", "MB" of a phase, "bytes" of the token cache


def leakage(folder: str) -> Row:
    """Remove the pairs with an evaluation sentence, of which there are some."""
    pairs = _pairs(folder)
    sentences = {"evaluation": [*pairs[:10]["input"], *map(str, range(10_000))]}
    return _time(lambda: remove_leaked(pairs, ["input", "response"], sentences))[0]


def vocabulary(folder: str) -> Row:
    """Train a tokenizer of words, and save it for the other phases."""
    data = RunData({"pairs": _pairs(folder)})
    row, tokenizer = _time(lambda: train_tokenizer(training_texts(data), "word", VOCABULARY, 2))
    tokenizer.save_pretrained(Path(folder, "tokenizer"))
    return row


def token_cache(folder: str) -> Row:
    """Tokenize both columns."""
    row, _ = _time(lambda: _columns(folder))
    files = [path for path in Path(folder, "cache").rglob("*") if path.is_file()]
    return row | {"bytes": sum(path.stat().st_size for path in files)}


def token_weights(folder: str) -> Row:
    """Count the tokens."""
    columns = _columns(folder)
    return _time(lambda: sif_weights(columns, VOCABULARY))[0]


def word_vectors(folder: str) -> Row:
    """Train skip-gram vectors in one pass over the tokens, and one that counts them."""
    columns = _columns(folder)
    skip_gram.PASS_TOKENS = 0
    row, vectors = _time(lambda: skip_gram.train_word_vectors(columns, VOCABULARY, WIDTH, 0, 1))
    return row | {"tokens": sum(len(column.ids) for column in columns), "words": int(vectors.any(axis=1).sum())}


def order(folder: str) -> Row:
    """Shuffle the rows of an epoch."""
    pairs = len(_pairs(folder))
    return _time(lambda: BatchPlan(0, {"pairs": pairs}, {"pairs": 1.0}, np.full(1000, 128)).batch(0))[0]


PHASES = {
    "evaluation sentences": leakage,
    "vocabulary": vocabulary,
    "token cache": token_cache,
    "token weights": token_weights,
    "word vectors": word_vectors,
    "order of an epoch": order,
}


def measure(source: Path, folder: Path, pairs: int) -> dict[str, Row]:
    """Run every phase on a number of pairs."""
    files = sorted(source.glob("train*.parquet"))
    table = pa.concat_tables([pq.read_table(path, columns=["input", "response"]) for path in files])
    (folder / "pairs").mkdir(parents=True)
    repeated = pa.concat_tables([table] * -(-pairs // len(table))).slice(0, pairs)
    pq.write_table(repeated, folder / "pairs" / "train.parquet")
    _pairs(str(folder))  # before the phases: `datasets` converts it to Arrow
    del table, repeated
    return {name: _run(phase, folder) for name, phase in PHASES.items()}


def _run(phase: Callable[[str], Row], folder: Path) -> Row:
    sampled: list[float] = []
    function = f"tests.benchmarks.preparing.{phase.__name__}"
    row = call(function, [str(folder)], True, lambda pid: sampled.append(_megabytes(pid)), watch_every=0.02)
    return row | {"MB": max(sampled) - row["MB"]}


def _time(work: Callable[[], Any]) -> tuple[Row, Any]:
    """Return the seconds of some work, the memory before it, and its result."""
    before, started = _megabytes(os.getpid()), time.process_time()
    result = work()
    return {"seconds": time.process_time() - started, "MB": before}, result


def _megabytes(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it has ended
        return 0.0
    kilobytes = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
    return int(kilobytes[0]) / 1024 if kilobytes else 0.0


def _pairs(folder: str) -> Dataset:
    files = str(Path(folder, "pairs", "*.parquet"))
    return load_dataset("parquet", data_files=files, split="train", cache_dir=str(Path(folder, "arrow")))


def _columns(folder: str) -> list[TokenColumn]:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(Path(folder, "tokenizer"))
    cache = Path(folder, "cache")
    return list(token_columns(_pairs(folder), ["input", "response"], tokenizer, cache, MAX_TOKENS, False).values())


def format_table(measured: dict[int, dict[str, Row]], target: int) -> str:
    """Return the table: a row for each phase, two columns for each number of pairs, and two for the target."""
    before, most = sorted(measured)[-2:]
    sizes = [*measured, target]
    lines = [
        "| | " + " | ".join(f"{size / 1e6:g} million: s | MB" for size in sizes) + " |",
        "|---" * (1 + 2 * len(sizes)) + "|",
    ]
    for phase in PHASES:
        rows = [measured[size][phase] for size in measured]
        last = measured[most][phase]
        if phase == "word vectors":
            seconds = last["seconds"] * min(target / most, skip_gram.MAX_TOKENS / last["tokens"])
            memory = last["MB"] * VOCABULARY / last["words"]
        else:
            seconds = last["seconds"] * target / most
            growth = last["MB"] - measured[before][phase]["MB"]
            grows = growth > SMALLEST_GROWTH * last["MB"]
            memory = last["MB"] + ((target - most) * growth / (most - before) if grows else 0)
        rows.append({"seconds": seconds, "MB": memory})
        lines.append(f"| {phase} | " + " | ".join(f"{row['seconds']:,.1f} | {row['MB']:,.0f}" for row in rows) + " |")
    bytes_each = measured[most]["token cache"]["bytes"] / most
    tokens = measured[most]["word vectors"]["tokens"] / most
    lines.append(f"\nThe token cache has {bytes_each:.1f} bytes and {tokens:.1f} tokens per pair.")
    return "\n".join(lines)


def main() -> None:
    """Measure all numbers of pairs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of pairs")
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[250_000, 500_000, 1_000_000], help="two numbers of pairs or more"
    )
    parser.add_argument("--target", type=int, default=600_000_000, help="number of pairs to extrapolate to")
    options = parser.parse_args()
    if len(set(options.pairs)) < 2:
        parser.error("--pairs: expected two numbers or more, whose difference shows the growth")
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as scratch:
        measured = {pairs: measure(options.source, Path(scratch, str(pairs)), pairs) for pairs in options.pairs}
    print(format_table(measured, options.target))


if __name__ == "__main__":
    main()
