"""The runs of a sweep, each compared with a reference run by a paired bootstrap over the dev items."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from data_scripts.files.errors import USER_ERRORS, user_message
from trainer.evaluation.bootstrap import bootstrap_interval, mean_interval, pearson_by_row
from trainer.evaluation.results import flatten
from trainer.evaluation.run_files import read_run_results
from trainer.sweep.planned_runs import PlannedRun
from trainer.sweep.process_pool import last_line
from trainer.sweep.scoring import dev_scores


class Metric(NamedTuple):
    """A value of results.json, at `path`, that the table shows of each run under `title`."""

    title: str
    path: str
    form: str = ".4f"


# By their names in rows.jsonl.
METRICS = {
    "stsb": Metric("STS-B", "stsb.dev.all.pearson"),
    "stsb_captions": Metric("captions", "stsb.dev.captions.pearson"),
    "stsb_forums": Metric("forums", "stsb.dev.forums.pearson"),
    "stsb_news": Metric("news", "stsb.dev.news.pearson"),
    "p_at_1": Metric("P@1", "response_prediction.p_at_1"),
    "cqa_map": Metric("CQA MAP", "cqa.dev.map"),
    "snli_accuracy": Metric("SNLI", "snli.accuracy"),
    "seconds": Metric("seconds", "run.seconds", ",.1f"),
    "pairs": Metric("pairs", "run.pairs", ",.0f"),
}
# The metrics with a comparison -> the setting that names their items.
COMPARED = {"stsb": "stsb", "p_at_1": "pairs"}


def make_rows(
    runs: Sequence[PlannedRun], reference: PlannedRun, failures: Mapping[str, str], threads: int
) -> list[dict[str, Any]]:
    """A row for each run, from what is on disk: `run`, `varied`, its metrics, its differences, a `note` on an error."""
    notes = {run.name: failures.get(run.name) or check_run(run, threads) for run in runs}
    rows = []
    for run in runs:
        row: dict[str, Any] = {"run": run.name, "varied": run.varied}
        if run.is_finished:
            row |= read_metrics(read_run_results(run.folder / "results.json"))
        if run is not reference and not notes[run.name] and not notes[reference.name]:
            row |= compare(run, reference, threads)
        rows.append(row | ({"note": notes[run.name]} if notes[run.name] else {}))
    return rows


def check_run(run: PlannedRun, threads: int) -> str:
    """Score a run on the dev items; returns "", or why it has no scores."""
    if not run.is_finished:
        return f"not finished: {last_line(run.log)}" if run.log.is_file() else "not run"
    try:
        dev_scores(run, threads)
    except USER_ERRORS as error:
        return f"not scored: {user_message(error)}"
    return ""


def read_metrics(results: Mapping[str, Any]) -> dict[str, float]:
    """The `METRICS` that a results.json holds as finite numbers."""
    flat = flatten(results)
    values = {name: flat.get(metric.path) for name, metric in METRICS.items()}
    return {name: value for name, value in values.items() if isinstance(value, int | float) and math.isfinite(value)}


def compare(run: PlannedRun, reference: PlannedRun, threads: int) -> dict[str, dict[str, float]]:
    """The differences of two scored runs in Pearson's r and P@1, where they were evaluated on the same items."""
    differences: dict[str, dict[str, float]] = {}
    ours, theirs = dev_scores(run, threads), dev_scores(reference, threads)
    for name, setting in COMPARED.items():
        same_items = getattr(run.arguments, setting) == getattr(reference.arguments, setting)
        if same_items and name in ours and name in theirs:
            gold = ours["stsb_gold"] if name == "stsb" else None
            if difference := paired_difference(ours[name], theirs[name], gold):
                differences[f"{name}_difference"] = difference
    return differences


def paired_difference(ours: np.ndarray, theirs: np.ndarray, gold: np.ndarray | None = None) -> dict[str, float] | None:
    """The difference between two systems' scores of the same items (items,): in their means, or in Pearson's r.

    Returns:
        `difference`, ours minus theirs, and `low` and `high`, the ends of its 95 % interval by a paired bootstrap. None
        where a correlation is not a number.
    """
    if gold is None:
        value, interval = float(np.mean(ours) - np.mean(theirs)), mean_interval(ours - theirs)
    elif np.ptp(ours) and np.ptp(theirs):

        def difference(rows: list[np.ndarray]) -> np.ndarray:
            chosen = rows[0]
            return pearson_by_row(ours[chosen], gold[chosen]) - pearson_by_row(theirs[chosen], gold[chosen])

        value = float(difference([np.arange(len(gold))]))
        interval = bootstrap_interval(difference, [len(gold)])
    else:
        return None
    low, high = interval
    return {"difference": value, "low": low, "high": high}


def excludes_zero(difference: Mapping[str, float]) -> bool:
    """Whether the interval of a `paired_difference` excludes zero."""
    return difference["low"] > 0 or difference["high"] < 0
