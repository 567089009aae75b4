"""What the runs of a study measured on dev, compared with one of them: a row a run, a table, a plot."""

import functools
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure  # no pyplot: no state, no display
from scipy import stats

from data_scripts.errors import InputError
from trainer.evaluation.results import read_results
from trainer.sweep.process_pool import last_line
from trainer.sweep.study import Run

# Title, name in rows.jsonl, place in results.json and format of what is shown of a run.
FIGURES = (
    ("STS-B", "stsb", "stsb.dev.all.pearson", ".4f"),
    ("captions", "stsb_captions", "stsb.dev.captions.pearson", ".4f"),
    ("forums", "stsb_forums", "stsb.dev.forums.pearson", ".4f"),
    ("news", "stsb_news", "stsb.dev.news.pearson", ".4f"),
    ("P@1", "p_at_1", "response_prediction.p_at_1", ".4f"),
    ("CQA MAP", "cqa_map", "cqa.dev.map", ".4f"),
    ("SNLI", "snli_accuracy", "snli.accuracy", ".4f"),
    ("seconds", "seconds", "run.seconds", ",.1f"),
    ("pairs", "pairs", "run.pairs", ",.0f"),
)
# Those that are compared -> the setting that names the items.
COMPARED = {"stsb": "stsb", "p_at_1": "pairs"}


def try_scores(run: Run, threads: int) -> str:
    """Make the run's dev scores if they are not there; returns what went wrong, or nothing."""
    kept, partial = run.folder / "dev_scores.npz", run.folder / ".dev_scores.partial.npz"
    try:
        if not kept.is_file():
            np.savez(partial, **score(run, threads))  # type: ignore[arg-type]
            os.replace(partial, kept)
    except InputError as error:
        return f"not scored: {error}"
    return ""


def score(run: Run, threads: int) -> dict[str, np.ndarray]:
    """What a finished run's model makes of each item of the dev sets it was judged on.

    Returns:
        `stsb`, `stsb_gold` (pairs,): angular similarity and gold score. `p_at_1` (queries,): 1 where the true response
        ranks first, else 0.

    Raises:
        InputError: the model or a set cannot be read.
    """
    # Imported here: these take seconds, in which a mistake on the command line should have shown.
    import torch
    from transformers.utils.logging import disable_progress_bar

    from data_scripts.read.hub_datasets import load_pairs
    from data_scripts.sources.stsb import load_stsb
    from modeling_convsim.encoding import Encoder
    from trainer.evaluation.response_prediction import build_queries, score_candidates
    from trainer.evaluation.similarity import angular, cosine, encode_pairs

    torch.set_num_threads(threads)
    disable_progress_bar()
    try:
        encoder = Encoder.from_pretrained(run.folder / "model")
    except ValueError as error:
        raise InputError(str(error)) from error
    results = read_results(run.folder / "results.json")
    scores: dict[str, Any] = {}
    if "stsb" in results:
        rows = _dev_rows(load_stsb, str(run.arguments.stsb))
        vectors = encode_pairs(encoder, rows["sentence1"], rows["sentence2"])
        scores = {"stsb": angular(cosine(*vectors)), "stsb_gold": np.array(rows["score"], dtype=np.float64)}
    if "response_prediction" in results:
        rows = _dev_rows(load_pairs, *run.arguments.pairs)
        scored = score_candidates(encoder, build_queries(rows["input"], rows["response"]))
        # As in `precision_at_n`, a tie counts against the model, and so does what is not a number.
        first = (scored[:, 1:] < scored[:, :1]).all(axis=1)
        scores["p_at_1"] = first.astype(np.float64)
    return scores


@functools.lru_cache(maxsize=2)
def _dev_rows(load: Callable[[str], Mapping[str, Any]], *sources: str) -> dict[str, list]:
    """The columns of the sources' dev splits, one source after the other; loaded once for all runs."""
    parts = [splits["validation"] for splits in map(load, sources) if "validation" in splits]
    return {name: list(itertools.chain(*(part[name] for part in parts))) for name in parts[0].column_names}


def paired_difference(
    statistic: Callable[..., Any], ours: np.ndarray, theirs: np.ndarray, *others: np.ndarray
) -> dict[str, float] | None:
    """By how much a statistic differs between two systems' scores of the same items, with a paired bootstrap.

    Args:
        statistic: a function of (scores, *others, axis=…).
        ours: (items,), as are `theirs`, the other system's, and `others`, what the statistic needs besides.

    Returns:
        `difference`, ours less theirs, with `low` and `high`, the ends of its 95 % interval over 1,000 resamples of the
        items, drawn with seed 0. None where the statistic is not a number.
    """

    def difference(ours: np.ndarray, theirs: np.ndarray, *others: np.ndarray, axis: int = -1) -> Any:
        return statistic(ours, *others, axis=axis) - statistic(theirs, *others, axis=axis)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant scores have no correlation: seen below
        low, high = stats.bootstrap(
            (ours, theirs, *others), difference, paired=True, vectorized=True, n_resamples=1_000, batch=100,
            method="percentile", rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
        found = {"difference": float(difference(ours, theirs, *others)), "low": float(low), "high": float(high)}
    return found if all(map(math.isfinite, found.values())) else None


def pearson(scores: np.ndarray, gold: np.ndarray, axis: int = -1) -> Any:
    """Pearson's r of scores with gold along an axis."""
    return stats.pearsonr(scores, gold, axis=axis).statistic


def compare(run: Run, reference: Run) -> dict[str, dict[str, float]]:
    """`paired_difference` of two scored runs in Pearson's r and P@1, where they were judged on the same items."""
    found: dict[str, dict[str, float]] = {}
    with np.load(run.folder / "dev_scores.npz") as file, np.load(reference.folder / "dev_scores.npz") as other:
        ours, theirs = dict(file), dict(other)
    for name, setting in COMPARED.items():
        same = getattr(run.arguments, setting) == getattr(reference.arguments, setting)
        if same and name in ours and name in theirs:
            statistic, gold = (pearson, [ours["stsb_gold"]]) if name == "stsb" else (np.mean, [])
            if difference := paired_difference(statistic, ours[name], theirs[name], *gold):
                found[f"{name}_difference"] = difference
    return found


def measure(results: Mapping[str, Any]) -> dict[str, float]:
    """Those of `FIGURES` that a results.json has as numbers, by their names in rows.jsonl."""
    found = {}
    for _, name, place, _ in FIGURES:
        value: Any = functools.reduce(lambda part, key: part.get(key, {}), place.split("."), results)
        if isinstance(value, (int, float)) and math.isfinite(value):
            found[name] = value
    return found


def make_rows(runs: Sequence[Run], reference: Run, failures: Mapping[str, str], threads: int) -> list[dict[str, Any]]:
    """A row a run, of what is on disk: `run`, `varied`, what it measured, its differences, what is wrong (`note`)."""
    notes = {}
    for run in runs:
        unfinished = f"not finished: {last_line(run.log)}" if run.log.is_file() else "not run"
        notes[run.name] = failures.get(run.name) or (try_scores(run, threads) if run.is_finished else unfinished)
    rows = []
    for run in runs:
        row: dict[str, Any] = {"run": run.name, "varied": run.varied}
        if run.is_finished:
            row |= measure(read_results(run.folder / "results.json"))
        if run is not reference and not notes[run.name] and not notes[reference.name]:
            row |= compare(run, reference)
        rows.append(row | ({"note": notes[run.name]} if notes[run.name] else {}))
    return rows


def format_table(rows: Iterable[Mapping[str, Any]], reference: str) -> str:
    """The rows as a Markdown table; what a run did not measure is left blank."""
    titles = ["run", "varied"]
    for title, name, _, _ in FIGURES:
        titles += [title, f"{title} vs {reference}"] if name in COMPARED else [title]
    lines = [[*titles, "note"], ["---"] * (len(titles) + 1)]
    for row in rows:
        cells = [row["run"], ", ".join(f"{key}={text}" for key, text in row["varied"].items())]
        for _, name, _, form in FIGURES:
            cells.append(f"{row[name]:{form}}" if name in row else "")
            if name in COMPARED:
                cells.append(_difference_as_text(row.get(f"{name}_difference")))
        lines.append([cell.replace("|", "\\|") for cell in (*cells, row.get("note", ""))])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _difference_as_text(found: Mapping[str, float] | None) -> str:
    if not found:
        return ""
    text = f"{found['difference']:+.4f} [{found['low']:+.4f}, {found['high']:+.4f}]"
    return f"{text} *" if _excludes_zero(found) else text


def _excludes_zero(found: Mapping[str, float]) -> bool:
    return found["low"] > 0 or found["high"] < 0


def measured_as_text(run: Run) -> str:
    """What a finished run measured, on a line."""
    measured = measure(read_results(run.folder / "results.json"))
    return ", ".join(f"{title} {measured[name]:{form}}" for title, name, _, form in FIGURES if name in measured)


def draw(rows: Sequence[Mapping[str, Any]], reference: str, path: Path) -> None:
    """Plot the differences and their intervals, a panel a figure; a dot is filled where the interval excludes zero."""
    rows = [row for row in rows if row["run"] != reference]
    figure = Figure(figsize=(11, 1.5 + 0.3 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(COMPARED), sharey=True)
    for panel, name in zip(panels, COMPARED, strict=True):
        for place, row in enumerate(rows):
            if found := row.get(f"{name}_difference"):
                panel.hlines(place, found["low"], found["high"], color="C0")
                panel.plot(found["difference"], place, "o", color="C0", mfc="C0" if _excludes_zero(found) else "white")
        panel.axvline(0, color="grey", linewidth=0.8)
        panel.set_title(next(title for title, key, _, _ in FIGURES if key == name))
        panel.set_xlabel(f"difference to {reference}, 95 % interval")
    panels[0].set_yticks(range(len(rows)), [row["run"] for row in rows])
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    figure.savefig(path, dpi=150)
