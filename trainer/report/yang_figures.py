"""The figures of Yang et al. (2018): predicted and gold scores, the share of SNLI, attention by distance."""

from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from trainer.evaluation.similarity import to_gold_scale
from trainer.report.labels import TRANSFORMER
from trainer.report.measurements import Measurements
from trainer.report.page import Cell, Page
from trainer.report.systems import Sweep, System

DISTANCES = ("0", "1", "2", "3-4", "5-8", "9 or more")
DISTANCE_STARTS = (0, 1, 2, 3, 5, 9)


def write_scatter(page: Page, measurements: Measurements, systems: Sequence[System]) -> None:
    """Figure 7: predicted against gold scores of STS-B test, a panel for each system."""
    stsb = measurements.data["stsb"]
    if "test" not in stsb or not systems:
        return
    page.heading(3, "Figure 7: predicted and gold scores")
    gold = np.asarray(stsb["test"]["score"])
    columns = min(3, len(systems))
    rows = -(-len(systems) // columns)
    figure = Figure(figsize=(4.2 * columns, 3.6 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for panel, system in zip(panels, systems, strict=False):
        predicted = to_gold_scale(measurements.stsb_scores(system.name))
        density = panel.hexbin(gold, predicted, gridsize=28, cmap="viridis", mincnt=1)
        figure.colorbar(density, ax=panel, label="pairs")
        panel.set_title(f"{system.label}\nr = {np.corrcoef(predicted, gold)[0, 1]:.3f}", fontsize=9)
        panel.set_xlabel("gold")
        panel.set_ylabel("predicted")
    for panel in panels[len(systems) :]:
        panel.axis("off")
    page.plot("figure7", figure, "STS-B test: 5 (1 - arccos(cos) / pi) against the gold score, with density")


def write_snli_shares(page: Page, measurements: Measurements, sweep: Sweep, published: Any) -> None:
    """Figure 8: STS-B against the share of SNLI that the model was trained on."""
    page.heading(3, "Figure 8: the share of SNLI")
    page.text(
        f"The encoder is a {sweep.runs[0][1].encoder}, trained on shares of the available SNLI training pairs for the "
        "same number of steps.",
        f"In the paper, captions reach {published['captions_at_10']} with 10 % and are flat from "
        f"{published['flat_from']} %.",
    )
    values: list[dict[str, Any]] = []
    for share, system in sorted(((float(value), system) for value, system in sweep.runs), key=itemgetter(0)):
        if scores := measurements.scores(system, "stsb"):
            pairs = system.results.get("run", {}).get("rows", {}).get("snli", 0)
            values.append({"share": share, "run": system.name, "training_pairs": pairs, **scores})
    curves = {
        f"{split} {genre}".removesuffix(" all"): [value[split][genre]["pearson"] for value in values]
        for split in ("dev", "test")
        for genre in ("all", "captions")
    }
    shares, pairs = ([value[key] for value in values] for key in ("share", "training_pairs"))
    rows = [list(row) for row in zip(shares, pairs, *curves.values(), strict=True)]
    page.table("figure8", ["share", "pairs", *curves], rows, values)
    figure = Figure(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    for name, curve in curves.items():
        panel.plot(shares, curve, "o-", label=name)
    panel.set_xlabel("share of the SNLI training pairs")
    panel.set_ylabel("Pearson's r on STS-B, untuned")
    panel.legend()
    page.plot("figure8", figure, "Pearson's r against the share of SNLI used for training")


def write_attention(page: Page, measurements: Measurements) -> None:
    """A table of each layer's attention by distance, for each Transformer."""
    systems = [system for system in measurements.systems if system.encoder == TRANSFORMER]
    if not systems:
        return
    page.heading(3, "Attention by distance")
    page.text(
        "The share of a layer's attention at each distance in words, and the mean distance: means over heads and words "
        "of the sentences of STS-B dev. Uniform attention gives all words of a sentence the same share. In the paper, "
        "the first layer attends to near words, higher layers to words farther away."
    )
    rows: list[list[Cell]] = []
    values: dict[str, Any] = {}
    for system in systems:
        measured = measurements.attention(system.name)
        values[system.name] = {key: measured[key] for key in ("layers", "uniform")}
        named = [*((str(number), layer) for number, layer in enumerate(measured["layers"], start=1))]
        for name, shares in [*named, ("uniform", measured["uniform"])]:
            bins = [sum(shares[start:end]) for start, end in pairwise([*DISTANCE_STARTS, len(shares)])]
            mean = sum(distance * share for distance, share in enumerate(shares))
            rows.append([system.label, system.name, name, *bins, mean])
    page.table("attention", ["system", "run", "layer", *DISTANCES, "mean distance"], rows, values)
