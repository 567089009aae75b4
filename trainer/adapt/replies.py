"""The index of replies of an adapted model: its calibration, and what it suggests for held-out messages."""

from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from data_scripts.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from trainer.adapt.training import Splits

EXAMPLES = 3
LONGEST_EXAMPLE = 100  # characters
PRECISIONS = (0.9, 0.8, 0.7, 0.6, 0.5)


def build_index(folder: Path, splits: Splits, precision: float) -> tuple[ReplyIndex, list[dict[str, float]]]:
    """Build, calibrate and save the index of the replies of the training split, in `folder/replies`.

    It is calibrated on dev, or on the test split of pairs that were cross-validated, for the required precision or the
    next one of `PRECISIONS` that is possible; without any, it has no threshold.

    Returns:
        The index, and for each precision that is possible: threshold, precision and coverage.

    Raises:
        InputError: the folder holds something else.
    """
    held_out = splits.test if splits.dev is None else splits.dev
    try:
        index = ReplyIndex.build(Encoder.from_pretrained(str(folder / "model")), splits.train["response"][:])
        possible = [] if held_out is None else _calibrate(index, held_out, precision)
        index.save(folder / "replies")
    except ValueError as error:
        raise InputError(str(error)) from error
    return index, possible


def _calibrate(index: ReplyIndex, pairs: Dataset, required: float) -> list[dict[str, float]]:
    possible, chosen = [], None
    for precision in sorted({*PRECISIONS, required}, reverse=True):
        try:
            calibration = index.calibrate(pairs["input"][:], pairs["response"][:], precision)
        except ValueError:  # no threshold has this precision, or there are too few pairs
            continue
        possible.append(
            {
                "min_precision": precision,
                "threshold": calibration.threshold,
                "precision": calibration.precision,
                "coverage": calibration.coverage,
                "pairs": calibration.pairs,
            }
        )
        if chosen is None and precision <= required:
            chosen = calibration
    index.calibration = chosen
    return possible


def format_calibration(possible: list[dict[str, float]]) -> str:
    """A table of thresholds."""
    if not possible:
        return "replies: no threshold reaches a precision of .5 on the held-out pairs; suggestions have none"
    lines = [
        f"suggested replies by threshold, on {possible[0]['pairs']:,} held-out pairs (the true reply among 99 others)",
        f"  {'precision':>9}  {'coverage':>8}  {'threshold':>9}",
    ]
    lines += [f"  {row['precision']:>9.1%}  {row['coverage']:>8.1%}  {row['threshold']:>9.3f}" for row in possible]
    return "\n".join(lines)


def suggest_examples(index: ReplyIndex, pairs: Dataset | None) -> list[dict[str, Any]]:
    """Some held-out messages, chosen at random among short ones, with the best reply of the index and the true one."""
    if pairs is None:
        return []
    texts = list(zip(pairs["input"][:], pairs["response"][:], strict=True))
    short = [pair for pair in texts if max(map(len, pair)) <= LONGEST_EXAMPLE] or texts
    rows = np.random.default_rng(0).permutation(len(short))[:EXAMPLES]
    examples = []
    for message, reply in (short[row] for row in rows):
        best = index.suggest(message, k=1, threshold=-np.inf)[0]
        examples.append({"message": message, "suggestion": best.text, "score": best.score, "reply": reply})
    return examples


def format_examples(examples: list[dict[str, Any]]) -> str:
    """The examples as text."""
    return "\n\n".join(
        f"message     {each['message']}\nsuggestion  {each['suggestion']}  ({each['score']:.3f})\n"
        f"real reply  {each['reply']}"
        for each in examples
    )
