"""The index of replies of an adapted model: its threshold, and what it suggests for held-out messages."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from data_scripts.files.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import choose_threshold, tabulate_thresholds
from trainer.adapt.cross_validation import Choice
from trainer.adapt.ranking import CANDIDATES

EXAMPLES = 3
LONGEST_EXAMPLE = 100  # characters


def build_index(
    folder: Path, splits: DatasetDict, choice: Choice | None, precision: float
) -> tuple[ReplyIndex, dict[str, Any]]:
    """Build, calibrate and save the index of the replies of the training split, in `folder/replies`.

    The threshold is chosen for the required precision on dev, or on the held-out folds of cross-validation, and
    measured on test.

    Returns:
        The index, and its calibration: "pairs", "table" of threshold, precision and coverage, "min_precision",
        "threshold" or "no_threshold" (why), and "test": the suggestions for the test messages that reach the threshold.

    Raises:
        InputError: the folder holds something else.
    """
    train = splits["train"]
    try:
        encoder = Encoder.from_pretrained(str(folder / "model"))
        index = ReplyIndex.build(encoder, train["response"][:], questions=train["input"][:])
        calibration = _calibrate(index, splits, choice, precision)
        index.save(folder / "replies")
    except ValueError as error:
        raise InputError(str(error)) from error
    return index, calibration


def _calibrate(index: ReplyIndex, splits: DatasetDict, choice: Choice | None, precision: float) -> dict[str, Any]:
    scores, are_right = (choice.scores, choice.are_right) if choice else _score(index, splits["validation"])
    result: dict[str, Any] = {
        "pairs": len(scores),
        "measured_by": "cross-validation" if choice else "dev",
        "min_precision": precision,
        "table": list(map(asdict, tabulate_thresholds(scores, are_right))),
    }
    try:
        index.calibration = choose_threshold(scores, are_right, precision, CANDIDATES)
    except ValueError as error:
        return result | {"no_threshold": str(error)}
    result |= {"threshold": index.calibration.threshold, "coverage": index.calibration.coverage}
    if "test" in splits:
        result["test"] = _measure(*_score(index, splits["test"]), index.calibration.threshold)
    return result


def _score(index: ReplyIndex, pairs: Dataset) -> tuple[np.ndarray, np.ndarray]:
    return index.score_pairs(pairs["input"][:], pairs["response"][:], CANDIDATES)


def _measure(scores: np.ndarray, are_right: np.ndarray, threshold: float) -> dict[str, int]:
    is_suggested = scores >= threshold
    return {
        "messages": len(scores),
        "suggestions": int(is_suggested.sum()),
        "right": int(are_right[is_suggested].sum()),
    }


def format_calibration(calibration: dict[str, Any]) -> str:
    """A table of precision against coverage, the threshold of the index, and what it gives on test."""
    lines = [
        f"best suggestion by threshold, for {calibration['pairs']:,} held-out messages ({calibration['measured_by']}): "
        f"the true reply among {CANDIDATES - 1} others",
        f"  {'threshold':>9}  {'precision':>9}  {'coverage':>8}",
    ]
    for row in calibration["table"]:
        lines.append(f"  {row['threshold']:>9.3f}  {row['precision']:>9.1%}  {row['coverage']:>8.1%}")
    if "no_threshold" in calibration:
        return "\n".join([*lines, f"the index has no threshold: {calibration['no_threshold']}"])
    lines.append(
        f"the threshold of the index is {calibration['threshold']:.3f}: a precision of "
        f"{calibration['min_precision']:.0%} or more with 90% confidence, for {calibration['coverage']:.1%} of messages"
    )
    if test := calibration.get("test"):
        right, suggestions = test["right"], test["suggestions"]
        lines.append(
            f"on {test['messages']:,} test messages, which did not choose it: {suggestions:,} suggestions, "
            f"{right:,} right" + (f" ({right / suggestions:.0%})" if suggestions else "")
        )
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
