"""Shows results of a model trained on the shipped sample: nearest sentences, replies, figure 1 of the paper."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from data_scripts.loading import load_pairs
from data_scripts.public.stsb import load_stsb
from modeling_convsim.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.registry import EvaluationInputs
from trainer.evaluation.similarity import cosine
from trainer.evaluation.stsb import evaluate_stsb

# Worded differently from the texts of the sample.
QUERIES = (
    "How many years old is your little brother?",
    "Until when is the shop open on Friday?",
    "I have forgotten the password, how do I reset it?",
    "Should I carry an umbrella tomorrow?",
    "My head hurts so badly.",
)
FIGURE_1 = ("How old are you?", "What is your age?", "How are you?")
SHOWN = 3


def evaluate_sample(encoder: SentenceEncoder, folder: Path) -> dict[str, dict]:
    """Print nearest sentences and replies for a few queries, and evaluate `encoder` on the sample.

    Args:
        encoder: a model trained on the sample, or any other.
        folder: the output of `convsim data sample`.

    Returns:
        `sts`: "pearson" and "spearman" on the sample's test pairs; `figure_1`: the cosine of "How old are you?" with
        "What is your age?" (`old_age`) and with "How are you?" (`old_how`), and whether the first is the larger.

    Raises:
        InputError: the folder does not hold the sample, or the model cannot encode responses.
    """
    pairs, sts_sets = load_pairs(str(folder)), load_stsb(str(folder / "sts"))
    if "train" not in pairs or "test" not in sts_sets:
        raise InputError(f"{folder}: the sample is incomplete; write it with convsim data sample -o {folder}")
    train = pairs["train"]
    inputs, responses = (list(dict.fromkeys(train[column])) for column in ("input", "response"))
    queries = encoder.encode(QUERIES)
    askers = encoder.encode(QUERIES, side="query")
    try:
        reply_scores = askers @ encoder.encode(responses, side="response").T
    except ValueError as error:
        raise InputError(f"task sample: {error}") from error
    input_vectors = encoder.encode(inputs)
    for query, vector, scores in zip(QUERIES, queries, reply_scores, strict=True):
        print(f"\n{query}\n  nearest sentences")
        _print_best(inputs, cosine(np.broadcast_to(vector, input_vectors.shape), input_vectors))
        print("  best replies")
        _print_best(responses, scores)

    old, age, how = encoder.encode(FIGURE_1)
    old_age, old_how = (float(cosine(old[None], other[None])[0]) for other in (age, how))
    holds = old_age > old_how
    print(f"\nFigure 1: {FIGURE_1[0]!r} should be closer to {FIGURE_1[1]!r} ({old_age:.3f})")
    print(f"          than to {FIGURE_1[2]!r} ({old_how:.3f}): {'it is' if holds else 'it is NOT'}\n")
    sts = evaluate_stsb(encoder, EvaluationInputs(sts_sets, {"test": sts_sets["test"]}))["test"]["all"]
    return {"sts": sts, "figure_1": {"old_age": old_age, "old_how": old_how, "holds": holds}}


def _print_best(texts: Sequence[str], scores: np.ndarray) -> None:
    for index in np.argsort(-scores, kind="stable")[:SHOWN]:
        print(f"    {scores[index]:6.3f}  {texts[index]}")
