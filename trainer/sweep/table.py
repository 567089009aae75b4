"""The runs of a sweep beside a reference run: scores on dev, paired bootstrap over its items, a table, a plot."""

import functools
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from data_scripts.files.errors import USER_ERRORS, InputError, user_message
from data_scripts.files.storage import new_file
from trainer.arguments import Arguments
from trainer.evaluation.bootstrap import bootstrap_interval, pearson_by_row
from trainer.evaluation.registry import load_kind
from trainer.evaluation.results import flatten, read_run_results
from trainer.sweep.plan import PlannedRun
from trainer.sweep.runs import last_line

# Name in rows.jsonl -> title in the table, path in results.json, format.
METRICS = {
    "stsb": ("STS-B", "stsb.dev.all.pearson", ".4f"),
    "stsb_captions": ("captions", "stsb.dev.captions.pearson", ".4f"),
    "stsb_forums": ("forums", "stsb.dev.forums.pearson", ".4f"),
    "stsb_news": ("news", "stsb.dev.news.pearson", ".4f"),
    "p_at_1": ("P@1", "response_prediction.p_at_1", ".4f"),
    "cqa_map": ("CQA MAP", "cqa.dev.map", ".4f"),
    "snli_accuracy": ("SNLI", "snli.accuracy", ".4f"),
    "seconds": ("seconds", "run.seconds", ",.1f"),
    "pairs": ("pairs", "run.pairs", ",.0f"),
}
# The metrics with a comparison -> the setting that names their items.
COMPARED = {"stsb": "stsb", "p_at_1": "pairs"}


# -- scores -----------------------------------------------------------------------------------------------------------


def dev_scores(run: PlannedRun, threads: int) -> dict[str, np.ndarray]:
    """The scores of a finished run on each dev item; computed once, and kept in its folder.

    Returns:
        `stsb`, `stsb_gold` (pairs,): angular similarity and gold score. `p_at_1` (queries,): 1 where the true response
        ranks first, else 0.

    Raises:
        InputError: the model, a dataset or the file with the scores cannot be read.
    """
    path = run.folder / "dev_scores.npz"
    if not path.is_file():
        scores = score_items(run, threads)
        with new_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **scores)  # type: ignore[arg-type]
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise InputError(f"{path}: not readable; delete it, and the same command scores the run again") from error


def score_items(run: PlannedRun, threads: int) -> dict[str, np.ndarray]:
    """Compute `dev_scores` with the run's model."""
    # Imported here because they take seconds, and a mistake on the command line should show before.
    import torch
    from transformers.utils.logging import disable_progress_bar

    from modeling_convsim.encoding import Encoder
    from trainer.evaluation.response_prediction import queries_of, response_hits
    from trainer.evaluation.stsb import untuned_scores

    torch.set_num_threads(threads)
    disable_progress_bar()
    try:
        encoder = Encoder.from_pretrained(run.folder / "model")
    except ValueError as error:
        raise InputError(str(error)) from error
    results = read_run_results(run.folder / "results.json")
    scores: dict[str, np.ndarray] = {}
    if "stsb" in results:
        pairs = _dev_split("stsb", str(run.arguments.stsb))
        scores["stsb"] = untuned_scores(encoder, pairs, "angular")
        scores["stsb_gold"] = np.array(pairs["score"], dtype=np.float64)
    if "response_prediction" in results and not run.arguments.adapt:  # an adaptation splits its pairs by itself
        pairs = _dev_pairs(run.arguments)
        queries = queries_of(pairs)
        scores["p_at_1"] = response_hits(encoder, queries).astype(np.float64)
    return scores


@functools.lru_cache(maxsize=2)
def _dev_split(kind: str, source: str) -> Any:
    """The dev split of a source, loaded once for all runs; None without one."""
    return load_kind(kind, source).get("validation")


def _dev_pairs(arguments: Arguments) -> Any:
    """The pairs of the dev split, which a run completes from its training split if they are too few."""
    from trainer.data.datasets import load_run_data
    from trainer.data.dev_split import FEWEST, complete_dev_split

    sources = vars(arguments)["pairs"]
    pairs = _dev_split("pairs", sources[0]) if len(sources) == 1 else None
    if pairs is not None and len(pairs) >= FEWEST:
        return pairs
    logging.disable(logging.WARNING)  # the run has logged the same messages
    try:
        data = load_run_data(arguments)
        if data.of_kind("pairs"):
            complete_dev_split(data)
    finally:
        logging.disable(logging.NOTSET)
    return data.evaluation["pairs"]["validation"]


# -- rows -------------------------------------------------------------------------------------------------------------


def make_rows(runs: Sequence[PlannedRun], failures: Mapping[str, str], threads: int) -> list[dict[str, Any]]:
    """A row for each run, from what is on disk: `run`, `varied`, its metrics, its differences, a `note` on an error."""
    notes = {run.name: failures.get(run.name) or check_run(run, threads) for run in runs}
    rows = []
    for run in runs:
        row: dict[str, Any] = {"run": run.name, "varied": run.varied}
        if run.is_finished:
            row |= read_metrics(read_run_results(run.folder / "results.json"))
        if run is not runs[0] and not notes[run.name] and not notes[runs[0].name]:
            row |= compare(run, runs[0], threads)
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
    values = {name: flat.get(path) for name, (_, path, _) in METRICS.items()}
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

    def difference(rows: list[np.ndarray]) -> np.ndarray:
        chosen = rows[0]
        if gold is None:
            return (ours - theirs)[chosen].mean(axis=-1)
        return pearson_by_row(ours[chosen], gold[chosen]) - pearson_by_row(theirs[chosen], gold[chosen])

    value = float(difference([np.arange(len(ours))]))
    if math.isnan(value):
        return None
    low, high = bootstrap_interval(difference, [len(ours)])
    return {"difference": value, "low": low, "high": high}


def _excludes_zero(difference: Mapping[str, float]) -> bool:
    return difference["low"] > 0 or difference["high"] < 0


# -- the table and the plot -------------------------------------------------------------------------------------------


def format_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table; the cell of a metric that a run does not have is empty."""
    titles = ["run", "varied"]
    for name, (title, _, _) in METRICS.items():
        titles += [title, f"{title} vs {rows[0]['run']}"] if name in COMPARED else [title]
    lines = [[*titles, "note"], ["---"] * (len(titles) + 1)]
    lines += [[cell.replace("|", "\\|") for cell in _cells(row)] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = [row["run"], ", ".join(f"{key}={text}" for key, text in row["varied"].items())]
    for name, (_, _, form) in METRICS.items():
        cells.append(f"{row[name]:{form}}" if name in row else "")
        if name in COMPARED:
            cells.append(_format_difference(row.get(f"{name}_difference")))
    return [*cells, row.get("note", "")]


def _format_difference(difference: Mapping[str, float] | None) -> str:
    if not difference:
        return ""
    text = f"{difference['difference']:+.4f} [{difference['low']:+.4f}, {difference['high']:+.4f}]"
    return f"{text} *" if _excludes_zero(difference) else text


def format_metrics(metrics: Mapping[str, float]) -> str:
    """The metrics of a run on one line."""
    return ", ".join(f"{METRICS[name][0]} {value:{METRICS[name][2]}}" for name, value in metrics.items())


def plot_differences(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Plot the differences and their intervals, a panel for each metric; a dot is filled if its interval excludes 0."""
    # Imported here because it takes a second. Not pyplot, which has state and needs a display.
    from matplotlib.figure import Figure

    reference, *others = rows
    figure = Figure(figsize=(11, 1.5 + 0.3 * len(others)), layout="constrained")
    panels = figure.subplots(1, len(COMPARED), sharey=True)
    for panel, name in zip(panels, COMPARED, strict=True):
        for height, row in enumerate(others):
            if difference := row.get(f"{name}_difference"):
                fill = "C0" if _excludes_zero(difference) else "white"
                panel.hlines(height, difference["low"], difference["high"], color="C0")
                panel.plot(difference["difference"], height, "o", color="C0", mfc=fill)
        panel.axvline(0, color="gray", linewidth=0.8)
        panel.set_title(METRICS[name][0])
        panel.set_xlabel(f"difference to {reference['run']}, 95 % interval")
    panels[0].set_yticks(range(len(others)), [row["run"] for row in others])
    panels[0].set_ylim(len(others) - 0.5, -0.5)
    with new_file(path) as file:
        figure.savefig(file, dpi=150, format="png")
