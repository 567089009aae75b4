"""The index of replies of an adapted model, and what it suggests for held-out messages."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from data_scripts.files.errors import InputError, one_line
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import MIN_SUGGESTIONS, Calibration, Judge, choose_examples
from trainer.adapt.cross_validation import Choice
from trainer.adapt.suggestions import choose_weights, suggest_by_weights
from trainer.evaluation.response_prediction import contexts_of

MOST_CALIBRATED = 5_000  # held-out messages
EXAMPLES = 3
LONGEST_EXAMPLE = 100  # characters


def build_index(
    folder: Path, encoder: Encoder, splits: DatasetDict, choice: Choice | None, judge: Judge
) -> tuple[ReplyIndex, dict[str, Any]]:
    """Build, calibrate and save the index of the replies of the training split, in `folder/replies`.

    The weights of messages and consensus are chosen on dev, or on the held-out folds of cross-validation, on which the
    suggestions are measured too.

    Args:
        folder: that of the run.
        encoder: the adapted model.
        splits: the pairs.
        choice: what cross-validation chose, if there is no dev split.
        judge: the base, which compares suggestions with real replies.

    Returns:
        The index, and its calibration: "measured_by", "pairs", "table" of threshold, precision and coverage,
        "message_weight" and "consensus_weight".

    Raises:
        InputError: the folder holds something else.
    """
    train = splits["train"]
    try:
        index = ReplyIndex.build(encoder, train["response"][:], train["input"][:])
        suggested = choice.suggested if choice else suggest_by_weights(index, _sample(splits["validation"]), judge)
        weights = choice.weights if choice else choose_weights(suggested)
        if not weights.message:
            index = ReplyIndex.build(encoder, train["response"][:], train["input"][:], message_weight=0)
        best = suggested[weights]
        measured = Calibration.measure(best.scores, best.are_right) if len(best.scores) >= MIN_SUGGESTIONS else None
        index.settings = replace(
            index.settings,
            message_weight=weights.message,
            consensus_weight=weights.consensus,
            calibration=measured,
            examples=choose_examples(splits["test"]["input"]) if "test" in splits else [],
        )
        index.save(folder / "replies")
    except ValueError as error:
        raise InputError(str(error)) from error
    calibration: dict[str, Any] = {"measured_by": "cross-validation" if choice else "dev", "pairs": len(best.scores)}
    calibration |= {f"{name}_weight": value for name, value in weights._asdict().items()}
    return index, calibration | {"table": [asdict(row) for row in measured.table] if measured else []}


def _sample(pairs: Dataset) -> Dataset:
    rows = np.random.default_rng(0).permutation(len(pairs))[:MOST_CALIBRATED]
    return pairs.select(np.sort(rows))


def format_calibration(calibration: dict[str, Any]) -> str:
    """A table of precision against coverage."""
    lines = [
        f"best suggestion by threshold, for {calibration['pairs']:,} held-out messages ({calibration['measured_by']}), "
        "right if it answers to the same effect as the real reply",
        f"  {'threshold':>9}  {'precision':>9}  {'coverage':>8}",
    ]
    for row in calibration["table"]:
        lines.append(f"  {row['threshold']:>9.3f}  {row['precision']:>9.1%}  {row['coverage']:>8.1%}")
    return "\n".join(lines)


def suggest_examples(index: ReplyIndex, pairs: Dataset | None) -> list[dict[str, Any]]:
    """Some held-out messages, chosen at random among short ones, with the best reply of the index and the true one."""
    if pairs is None:
        return []
    texts = list(zip(pairs["input"][:], pairs["response"][:], contexts_of(pairs), strict=True))
    short = [pair for pair in texts if max(map(len, pair[:2])) <= LONGEST_EXAMPLE] or texts
    rows = np.random.default_rng(0).permutation(len(short))[:EXAMPLES]
    examples = []
    for message, reply, context in (short[row] for row in rows):
        best = next(iter(index.suggest(message, k=1, context=context)), None)
        if best:
            examples.append(
                {
                    "message": message,
                    "suggestion": best.text,
                    "score": best.score,
                    "in_reply_to": best.message,
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
