"""The index of replies of an adapted model, and examples of its suggestions for held-out messages."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from data_scripts.dataset_folders import format_table as format_report
from modeling_convsim.files.errors import InputError, one_line
from modeling_convsim.files.json_files import from_json
from modeling_convsim.files.storage import write_text
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.estimate import fit_curve, make_review
from modeling_convsim.suggestion.probability import Curve
from modeling_convsim.suggestion.ratings import HeldOut
from trainer.adapt.adaptation import Adapted
from trainer.adapt.suggestions import Suggested
from trainer.evaluation.results import format_table

EXAMPLES = 3
LONGEST_EXAMPLE = 72  # characters; fits on a line of a terminal, with the probability


def build_index(folder: Path, adapted: Adapted, suggested: Suggested) -> ReplyIndex:
    """Build and save the index of the replies of the training split, in `folder/replies`.

    Raises:
        InputError: the folder contains something else.
    """
    train, weights = adapted.pairs["train"], suggested.weights
    try:
        index = ReplyIndex.build(
            adapted.choice.encoder, train["response"][:], train["input"][:], message_weight=weights.message
        )
        index.settings = replace(
            index.settings,
            consensus_weight=weights.consensus,
            diversity=weights.diversity,
            curve=fit_curve(suggested.suggestions, suggested.chances),
        )
        index.review = make_review(suggested.suggestions, suggested.pairs)
        index.save(folder / "replies")
    except ValueError as error:
        raise InputError(str(error)) from error
    return index


def summarize(suggested: Suggested, index: ReplyIndex) -> dict[str, Any]:
    """The part "suggestions" of results.json: the weights, and the curve of probabilities."""
    curve = index.settings.curve
    return {
        "messages": len(suggested.suggestions),
        "weights": suggested.weights._asdict(),
        "curve": asdict(curve) if curve else None,
    }


def format_examples(index: ReplyIndex) -> list[str]:
    """Three short held-out messages, each with its suggestions, as lines."""
    curve = index.settings.curve
    short = [each for each in index.review if max(map(len, _texts(each))) <= LONGEST_EXAMPLE] or index.review
    lines = []
    for each in short[:EXAMPLES]:
        lines.append(f"> {one_line(each.message, LONGEST_EXAMPLE)}")
        for one in each.suggestions:
            chance = f"{curve.probability(one.score):.0%}" if curve else "?"
            lines.append(f"  {chance:>4}  {one_line(one.text, LONGEST_EXAMPLE)}")
    return lines


def _texts(held_out: HeldOut) -> list[str]:
    return [held_out.message, *(each.text for each in held_out.suggestions)]


README_START = "# Adapted to your chats\n"  # identifies the file


def write_readme(folder: Path, results: dict[str, Any], lines: list[str]) -> None:
    """Write README.md of a run, with all counts and comparisons, and its plot of probabilities.

    Args:
        folder: the folder of the run.
        results: the contents of results.json.
        lines: the printed summary.
    """
    suggestions, report = results["chats"]["suggestions"], results["chats"]["report"]
    text = [README_START, "```", *lines, "```"]
    if suggestions["curve"]:
        _plot_curve(from_json(Curve, suggestions["curve"]), folder / "curve.png")
        text += ["", f"Probability against score, fitted to {suggestions['messages']:,} held-out messages:", ""]
        text += ["![Probability against score](curve.png)"]
    tables = {
        "Adaptation of the model, and its gain over the base:": format_table(results["adaptation"]),
        "Pairs from the logs:": format_report(report),
    }
    for title, table in tables.items():
        text += ["", title, "", "```", table, "```"]
    write_text(folder / "README.md", "\n".join(text) + "\n")


def _plot_curve(curve: Curve, path: Path) -> None:
    from matplotlib.figure import Figure  # takes a second to import

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.subplots()
    scores = np.linspace(curve.table[0].score, curve.table[-1].score, 100)
    axes.plot(scores, [curve.probability(score) for score in scores], color="#1f4e9c", label="probability")
    points = [(each.score, each.share) for each in curve.table]
    axes.scatter(*zip(*points, strict=True), color="#c44e00", zorder=3, label="deciles of the suggestions")
    axes.set(xlabel="score", ylabel="can be sent (estimated)", ylim=(0, 1))
    axes.legend(loc="upper left")
    figure.savefig(path, dpi=120)
