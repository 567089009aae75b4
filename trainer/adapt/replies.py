"""The index of replies of an adapted model: its calibration, and what it suggests for held-out messages."""

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from data_scripts.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import choose_threshold, tabulate_thresholds

EXAMPLES = 3
LONGEST_EXAMPLE = 100  # characters
PRECISIONS = (0.9, 0.8, 0.7, 0.6, 0.5)
CANDIDATES = 100


def build_index(folder: Path, splits: DatasetDict, precision: float) -> tuple[ReplyIndex, dict[str, Any]]:
    """Build, calibrate and save the index of the replies of the training split, in `folder/replies`.

    It is calibrated on dev, or on the test split of pairs that were cross-validated, for the required precision or the
    next one of `PRECISIONS` that is possible; without any, it has no threshold.

    Returns:
        The index, and its calibration: "pairs", "table" of threshold, precision and coverage, and, if the index has a
        threshold, "threshold" and "min_precision".

    Raises:
        InputError: the folder holds something else.
    """
    train, held_out = splits["train"], splits.get("validation", splits.get("test"))
    try:
        encoder = Encoder.from_pretrained(str(folder / "model"))
        index = ReplyIndex.build(encoder, train["response"][:], questions=train["input"][:])
        calibration = {"pairs": 0, "table": []} if held_out is None else _calibrate(index, held_out, precision)
        index.save(folder / "replies")
    except ValueError as error:
        raise InputError(str(error)) from error
    return index, calibration


def _calibrate(index: ReplyIndex, pairs: Dataset, required: float) -> dict[str, Any]:
    scores, are_right = index.score_pairs(pairs["input"][:], pairs["response"][:], CANDIDATES)
    result: dict[str, Any] = {"pairs": len(pairs), "table": list(map(asdict, tabulate_thresholds(scores, are_right)))}
    for precision in sorted({*PRECISIONS, required}, reverse=True):
        if precision > required:
            continue
        with suppress(ValueError):  # no threshold has this precision, or there are too few pairs
            index.calibration = choose_threshold(scores, are_right, precision, CANDIDATES)
            return result | {"threshold": index.calibration.threshold, "min_precision": precision}
    return result


def format_calibration(calibration: dict[str, Any]) -> str:
    """A table of precision against coverage, and the threshold of the index."""
    if not calibration["table"]:
        return "replies: too few held-out pairs to choose a threshold, so there are always suggestions"
    lines = [
        f"best suggestion by threshold, on {calibration['pairs']:,} held-out pairs: the true reply among "
        f"{CANDIDATES - 1} others",
        f"  {'threshold':>9}  {'precision':>9}  {'coverage':>8}",
    ]
    for row in calibration["table"]:
        lines.append(f"  {row['threshold']:>9.3f}  {row['precision']:>9.1%}  {row['coverage']:>8.1%}")
    if "threshold" in calibration:
        lines.append(
            f"the threshold of the index is {calibration['threshold']:.3f}, the lowest with a precision of "
            f"{calibration['min_precision']:.0%}"
        )
    else:
        lines.append(f"no threshold has a precision of {PRECISIONS[-1]:.0%}: there are always suggestions")
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
        examples.append(
            {
                "message": message,
                "suggestion": best.text,
                "score": best.score,
                "in_reply_to": best.question,
                "reply": reply,
            }
        )
    return examples


def format_examples(examples: list[dict[str, Any]]) -> str:
    """The examples as text."""
    return "\n\n".join(
        f"message     {each['message']}\nsuggestion  {each['suggestion']}  ({each['score']:.3f})\n"
        f"  given to  {each['in_reply_to']}\nreal reply  {each['reply']}"
        for each in examples
    )
