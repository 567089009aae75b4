"""The index of replies of an adapted model: its threshold, and what it suggests for held-out messages."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from data_scripts.files.errors import InputError, one_line
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import Judge, choose_examples, tabulate_thresholds
from trainer.adapt.cross_validation import Choice
from trainer.adapt.suggestions import Suggested, choose_weights, suggest_by_weights
from trainer.evaluation.response_prediction import contexts_of

MOST_CALIBRATED = 5_000  # held-out messages
EXAMPLES = 3
LONGEST_EXAMPLE = 100  # characters


def build_index(
    folder: Path, encoder: Encoder, splits: DatasetDict, choice: Choice | None, precision: float, judge: Judge
) -> tuple[ReplyIndex, dict[str, Any]]:
    """Build, calibrate and save the index of the replies of the training split, in `folder/replies`.

    The weights of messages and consensus, and the threshold for the required precision, are chosen on dev, or on the
    held-out folds of cross-validation; the threshold is measured on test.

    Args:
        folder: that of the run.
        encoder: the adapted model.
        splits: the pairs.
        choice: what cross-validation chose, if there is no dev split.
        precision: the required one.
        judge: the base, which compares suggestions with real replies.

    Returns:
        The index, and its calibration: "pairs", "table" of threshold, precision and coverage, "min_precision",
        "message_weight", "consensus_weight", "threshold" or "no_threshold" (why), and "test": the suggestions for the
        test messages that reach the threshold.

    Raises:
        InputError: the folder holds something else.
    """
    train = splits["train"]
    try:
        index = ReplyIndex.build(encoder, train["response"][:], questions=train["input"][:])
        suggested = choice.suggested if choice else suggest_by_weights(index, _sample(splits["validation"]), judge)
        weights = choice.weights if choice else choose_weights(suggested)
        if not weights.message:
            index = ReplyIndex.build(encoder, train["response"][:], questions=train["input"][:], message_weight=0)
        index.message_weight, index.consensus_weight = weights
        calibration: dict[str, Any] = {"measured_by": "cross-validation" if choice else "dev"}
        calibration |= {f"{name}_weight": value for name, value in weights._asdict().items()}
        calibration |= _calibrate(index, suggested[weights], splits.get("test"), precision, judge)
        if "test" in splits:
            index.examples = choose_examples(splits["test"]["input"])
        index.save(folder / "replies")
    except ValueError as error:
        raise InputError(str(error)) from error
    return index, calibration


def _sample(pairs: Dataset) -> Dataset:
    rows = np.random.default_rng(0).permutation(len(pairs))[:MOST_CALIBRATED]
    return pairs.select(np.sort(rows))


def _calibrate(
    index: ReplyIndex, suggested: Suggested, test: Dataset | None, precision: float, judge: Judge
) -> dict[str, Any]:
    scores, are_right = suggested.scores, suggested.are_right
    result: dict[str, Any] = {
        "pairs": len(scores),
        "min_precision": precision,
        "table": list(map(asdict, tabulate_thresholds(scores, are_right))),
    }
    try:
        calibration = index.set_threshold(scores, are_right, precision)
    except ValueError as error:
        return result | {"no_threshold": str(error)}
    result |= {"threshold": calibration.threshold, "coverage": calibration.coverage}
    if test is not None:
        pairs = _sample(test)
        result["test"] = _measure(
            *index.score_pairs(pairs["input"][:], pairs["response"][:], judge, contexts=contexts_of(pairs)),
            calibration.threshold,
        )
    return result


def _measure(scores: np.ndarray, are_right: np.ndarray, threshold: float) -> dict[str, int]:
    is_suggested = scores >= threshold
    return {
        "messages": len(scores),
        "suggestions": int(is_suggested.sum()),
        "right": int(are_right[is_suggested].sum()),
    }


def format_calibration(calibration: dict[str, Any]) -> str:
    """A table of precision against coverage, and what the threshold of the index gives on test."""
    lines = [
        f"best suggestion by threshold, for {calibration['pairs']:,} held-out messages ({calibration['measured_by']}), "
        "right if it answers to the same effect as the real reply",
        f"  {'threshold':>9}  {'precision':>9}  {'coverage':>8}",
    ]
    for row in calibration["table"]:
        lines.append(f"  {row['threshold']:>9.3f}  {row['precision']:>9.1%}  {row['coverage']:>8.1%}")
    if test := calibration.get("test"):
        lines.append(
            f"the threshold of {calibration['threshold']:.3f} on {test['messages']:,} test messages, which did not "
            f"choose it: {test['suggestions']:,} suggestions, {test['right']:,} right"
        )
    return "\n".join(lines)


def describe_threshold(calibration: dict[str, Any]) -> str:
    """What the index suggests by default."""
    if "no_threshold" in calibration:
        return f"nothing unless asked (threshold none): {calibration['no_threshold']}"
    return (
        f"with a score of {calibration['threshold']:.3f} or more, for {calibration['coverage']:.0%} of messages: "
        f"{calibration['min_precision']:.0%} or more of the suggestions are right, with 90% confidence"
    )


def suggest_examples(index: ReplyIndex, pairs: Dataset | None) -> list[dict[str, Any]]:
    """Some held-out messages, chosen at random among short ones, with the best reply of the index and the true one."""
    if pairs is None:
        return []
    texts = list(zip(pairs["input"][:], pairs["response"][:], contexts_of(pairs), strict=True))
    short = [pair for pair in texts if max(map(len, pair[:2])) <= LONGEST_EXAMPLE] or texts
    rows = np.random.default_rng(0).permutation(len(short))[:EXAMPLES]
    examples = []
    for message, reply, context in (short[row] for row in rows):
        best = next(iter(index.suggest(message, k=1, threshold=-np.inf, context=context)), None)
        if best:
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
    printed = [
        {name: value if name == "score" else one_line(value) for name, value in each.items()} for each in examples
    ]
    return "\n\n".join(
        f"message     {each['message']}\nsuggestion  {each['suggestion']}  ({each['score']:.3f})\n"
        f"  given to  {each['in_reply_to']}\nreal reply  {each['reply']}"
        for each in printed
    )
