"""The runs of a sweep, each compared with a reference run by a paired bootstrap over the dev items."""

import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainer.evaluation.run_files import read_run_results
from trainer.sweep.planned_runs import PlannedRun
from trainer.sweep.process_pool import last_line
from trainer.sweep.scoring import load_dev_scores, save_dev_scores


class Metric(NamedTuple):
    """A value that the table shows of each run.

    Attributes:
        title: its column in the table.
        name: its key in rows.jsonl.
        path: its place in results.json, dots between the keys.
        form: its format.
    """

    title: str
    name: str
    path: str
    form: str


METRICS = (
    Metric("STS-B", "stsb", "stsb.dev.all.pearson", ".4f"),
    Metric("captions", "stsb_captions", "stsb.dev.captions.pearson", ".4f"),
    Metric("forums", "stsb_forums", "stsb.dev.forums.pearson", ".4f"),
    Metric("news", "stsb_news", "stsb.dev.news.pearson", ".4f"),
    Metric("P@1", "p_at_1", "response_prediction.p_at_1", ".4f"),
    Metric("CQA MAP", "cqa_map", "cqa.dev.map", ".4f"),
    Metric("SNLI", "snli_accuracy", "snli.accuracy", ".4f"),
    Metric("seconds", "seconds", "run.seconds", ",.1f"),
    Metric("pairs", "pairs", "run.pairs", ",.0f"),
)
# The metrics with a comparison -> the setting that names their items.
COMPARED = {"stsb": "stsb", "p_at_1": "pairs"}


def make_rows(
    runs: Sequence[PlannedRun], reference: PlannedRun, failures: Mapping[str, str], threads: int
) -> list[dict[str, Any]]:
    """A row for each run, from what is on disk: `run`, `varied`, its metrics, its differences, a `note` on an error."""
    notes = {run.name: failures.get(run.name) or _note(run, threads) for run in runs}
    rows = []
    for run in runs:
        row: dict[str, Any] = {"run": run.name, "varied": run.varied}
        if run.is_finished:
            row |= read_metrics(read_run_results(run.folder / "results.json"))
        if run is not reference and not notes[run.name] and not notes[reference.name]:
            row |= compare(run, reference)
        rows.append(row | ({"note": notes[run.name]} if notes[run.name] else {}))
    return rows


def _note(run: PlannedRun, threads: int) -> str:
    if run.is_finished:
        return save_dev_scores(run, threads)
    return f"not finished: {last_line(run.log)}" if run.log.is_file() else "not run"


def read_metrics(results: Mapping[str, Any]) -> dict[str, float]:
    """The `METRICS` that a results.json holds as finite numbers, by their names in rows.jsonl."""
    values = {}
    for metric in METRICS:
        value: Any = functools.reduce(lambda part, key: part.get(key, {}), metric.path.split("."), results)
        if isinstance(value, (int, float)) and math.isfinite(value):
            values[metric.name] = value
    return values


def compare(run: PlannedRun, reference: PlannedRun) -> dict[str, dict[str, float]]:
    """`paired_difference` of two scored runs in Pearson's r and P@1, where they were evaluated on the same items."""
    differences: dict[str, dict[str, float]] = {}
    ours, theirs = load_dev_scores(run), load_dev_scores(reference)
    for name, setting in COMPARED.items():
        same_items = getattr(run.arguments, setting) == getattr(reference.arguments, setting)
        if same_items and name in ours and name in theirs:
            statistic, gold = (pearson, [ours["stsb_gold"]]) if name == "stsb" else (np.mean, [])
            if difference := paired_difference(statistic, ours[name], theirs[name], *gold):
                differences[f"{name}_difference"] = difference
    return differences


def paired_difference(
    statistic: Callable[..., Any], ours: np.ndarray, theirs: np.ndarray, *others: np.ndarray
) -> dict[str, float] | None:
    """The difference in a statistic between two systems' scores of the same items, with a paired bootstrap.

    Args:
        statistic: a function of (scores, *others, axis=…).
        ours: (items,) scores of one system.
        theirs: (items,) scores of the other system.
        others: (items,) each, further arguments of the statistic.

    Returns:
        `difference`, ours minus theirs, and `low` and `high`, the ends of its 95 % interval over 1,000 resamples of the
        items with seed 0. None where the statistic is not a number.
    """

    from scipy import stats  # takes a second to import, which `--help` should not

    def difference(ours: np.ndarray, theirs: np.ndarray, *others: np.ndarray, axis: int = -1) -> Any:
        return statistic(ours, *others, axis=axis) - statistic(theirs, *others, axis=axis)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant scores have no correlation; the check for finite values sees that
        low, high = stats.bootstrap(
            (ours, theirs, *others), difference, paired=True, vectorized=True, n_resamples=1_000, batch=100,
            method="percentile", rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
        values = {"difference": float(difference(ours, theirs, *others)), "low": float(low), "high": float(high)}
    return values if all(map(math.isfinite, values.values())) else None


def excludes_zero(difference: Mapping[str, float]) -> bool:
    """Whether the interval of a `paired_difference` excludes zero."""
    return difference["low"] > 0 or difference["high"] < 0


def pearson(scores: np.ndarray, gold: np.ndarray, axis: int = -1) -> Any:
    """Pearson's r of scores with gold along an axis."""
    from scipy import stats

    return stats.pearsonr(scores, gold, axis=axis).statistic
