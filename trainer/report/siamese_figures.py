"""The figures of Siamese CBOW (Kenter et al., 2016): curves during training, and sweeps over its settings."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from trainer.report.labels import NEIGHBORS
from trainer.report.page import Cell, Page
from trainer.report.systems import Sweep, System

MIN_POINTS = 5  # of a curve
MARKERS = "osD^vX"
LINE_STYLES = ("-", "--", ":")


def write_curves(page: Page, systems: Sequence[System], sets: Sequence[str]) -> None:
    """Figure 2: Pearson's r on each dataset during training, of the first run that was evaluated often enough."""
    for system in systems:
        points = [row for row in system.metrics if "sts" in row.get("dev", {})]
        if system.trained_on == NEIGHBORS and len(points) >= MIN_POINTS:
            break
    else:
        return
    seen = [row["step"] * system.settings["batch_size"] for row in points]
    curves = {
        key: [row["dev"]["sts"][year][name]["pearson"] for row in points]
        for key, (year, name) in ((key, key.split()) for key in sets)
    }
    page.heading(3, f"Figure 2: during training, `{system.name}`")
    page.values["figure2"] = {"run": system.name, "seen": seen, "curves": curves}
    figure = Figure(figsize=(8, 5), layout="constrained")
    panel = figure.subplots()
    for number, (name, curve) in enumerate(curves.items()):
        panel.plot(seen, curve, LINE_STYLES[number // 10], color=f"C{number % 10}", label=name, linewidth=1.2)
    panel.set_xlabel("sentences seen")
    panel.set_ylabel("Pearson's r")
    panel.legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    epochs = system.settings.get("epochs") or 1
    page.plot("figure2", figure, f"Pearson's r on each dataset during {epochs} epochs")


def write_set_scores(page: Page, name: str, title: str, pearson: Mapping[str, Mapping[str, float]]) -> None:
    """A figure such as `figure3`: Pearson's r on each dataset for each value of a setting.

    Args:
        page: the page.
        name: the figure.
        title: what the setting counts.
        pearson: value of the setting -> dataset -> Pearson's r.
    """
    page.heading(3, f"Figure {name[-1]}: {title}")
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    panel = figure.subplots()
    sets = list(next(iter(pearson.values())))
    for number, (value, scores) in enumerate(pearson.items()):
        panel.plot(list(scores.values()), MARKERS[number % len(MARKERS)], label=value, markersize=5)
    panel.set_xticks(range(len(sets)), sets, rotation=60, ha="right", fontsize=7)
    panel.set_ylabel("Pearson's r")
    panel.grid(axis="x", linewidth=0.3)
    panel.legend(title=title, fontsize=7)
    page.plot(name, figure, f"Pearson's r on each dataset by the number of {title}")
    rows: list[list[Cell]] = [[value, float(np.mean(list(scores.values())))] for value, scores in pearson.items()]
    page.table(name, [title, "mean Pearson's r of the datasets"], rows, pearson)


def write_learning_rates(page: Page, sweep: Sweep) -> None:
    """A table of the training loss by learning rate."""
    page.heading(3, "The learning rate")
    page.text(
        "The paper chose its learning rate, 0.0001, by the loss on the training data (section 3.4), and so does "
        "this table; its loss is the mean of the last tenth of an epoch. With fewer sentences, a higher rate is needed."
    )
    rows: list[list[Cell]] = []
    values = {}
    for value, system in sorted(sweep.runs, key=lambda run: float(run[0])):
        losses = [
            next(loss for name, loss in row.items() if name.endswith("/loss"))
            for row in system.metrics
            if "dev" not in row
        ]
        values[value] = float(np.mean(losses[-max(1, len(losses) // 10) :]))
        rows.append([value, f"{values[value]:.4f}"])
    page.table("learning_rate", ["learning rate", "training loss"], rows, values)
