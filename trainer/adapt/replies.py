"""The index of replies of an adapted model, and what it suggests for held-out messages."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from modeling_convsim.files.errors import InputError, one_line
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import MIN_SUGGESTIONS, RIGHT_COSINE, Calibration, choose_examples
from trainer.adapt.adaptation import Adapted
from trainer.adapt.suggestions import choose_weights, suggest_held_out
from trainer.evaluation.ranking import contexts_of

EXAMPLES = 3
LONGEST_EXAMPLE = 100  # characters


def build_index(folder: Path, adapted: Adapted) -> tuple[ReplyIndex, dict[str, Any]]:
    """Build, calibrate and save the index of the replies of the training split, in `folder/replies`.

    The weights of messages and consensus are chosen on held-out messages, on which the suggestions are measured too.

    Args:
        folder: that of the run.
        adapted: the adapted model.

    Returns:
        The index, and its calibration: "measured_by", "pairs", "table" of threshold, precision and coverage,
        "message_weight" and "consensus_weight".

    Raises:
        InputError: the folder holds something else.
    """
    train, test = adapted.pairs["train"], adapted.pairs.get("test")
    try:
        suggested = suggest_held_out(adapted.trials, adapted.choice.trial_encoders, adapted.judge)
        weights = choose_weights(suggested)
        best = suggested[weights]
        index = ReplyIndex.build(
            adapted.choice.encoder, train["response"][:], train["input"][:], message_weight=weights.message
        )
        are_right = best.cosines >= RIGHT_COSINE
        measured = Calibration.measure(best.scores, are_right) if len(are_right) >= MIN_SUGGESTIONS else None
        index.settings = replace(
            index.settings,
            consensus_weight=weights.consensus,
            calibration=measured,
            examples=[] if test is None else choose_examples(test["input"]),
        )
        index.save(folder / "replies")
    except ValueError as error:
        raise InputError(str(error)) from error
    calibration: dict[str, Any] = {"measured_by": adapted.measured_by, "pairs": len(best.scores)}
    calibration |= {f"{name}_weight": value for name, value in weights._asdict().items()}
    return index, calibration | {"table": [asdict(row) for row in measured.table] if measured else []}


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
            suggested = {"suggestion": best.text, "score": best.score, "in_reply_to": best.message}
            examples.append({"message": message, **suggested, "reply": reply})
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
