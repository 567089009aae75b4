"""Draws the plots on the card of a dataset of pairs."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure  # without pyplot, which has global state and needs a display

from data_scripts.files.storage import make_folder
from data_scripts.pairs.statistics import PairStatistics, quantile


def draw_plots(folder: Path, statistics: PairStatistics) -> None:
    """Draw the plots for the card of `folder`, once `statistics` has counted all pairs."""
    plots = folder / "plots"
    make_folder(plots)
    _plot_lengths(plots / "characters.png", statistics)
    _plot_responses(plots / "replies.png", statistics)


def _figure() -> tuple[Any, Any]:
    figure = Figure(figsize=(6, 3), layout="constrained")
    return figure, figure.subplots()


def _save(figure: Any, path: Path) -> None:
    with path.open("wb") as file:
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})


def _plot_lengths(path: Path, statistics: PairStatistics) -> None:
    figure, axes = _figure()
    longest = max(quantile(counts, 0.999) for counts in statistics.characters.values())
    edges = np.unique(np.linspace(0, longest + 1, 51).astype(int))
    for side, counts in statistics.characters.items():
        shares = np.add.reduceat(counts[: edges[-1]], edges[:-1]) / np.diff(edges) / counts.sum()
        axes.stairs(100 * shares, edges, label=side)
    axes.set(xlabel="characters", ylabel="% of texts of each length")
    axes.legend(frameon=False)
    _save(figure, path)


def _plot_responses(path: Path, statistics: PairStatistics) -> None:
    figure, axes = _figure()
    counts = statistics.responses.counts
    most = max(int(np.flatnonzero(counts)[-1]), 2)
    axes.loglog(np.arange(1, most + 1), np.where(counts, counts, np.nan)[1 : most + 1], ".")
    axes.set(xlabel="responses to an input", ylabel="inputs")
    _save(figure, path)
