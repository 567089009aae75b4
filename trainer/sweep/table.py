"""The rows of a sweep as a Markdown table, a line of text and a plot."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_scripts.files.storage import new_file
from trainer.sweep.comparison import COMPARED, METRICS, excludes_zero


def format_table(rows: Iterable[Mapping[str, Any]], reference: str) -> str:
    """The rows as a Markdown table; the cell of a metric that a run does not have is empty."""
    titles = ["run", "varied"]
    for name, metric in METRICS.items():
        titles += [metric.title, f"{metric.title} vs {reference}"] if name in COMPARED else [metric.title]
    lines = [[*titles, "note"], ["---"] * (len(titles) + 1)]
    lines += [[cell.replace("|", "\\|") for cell in _cells(row)] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = [row["run"], ", ".join(f"{key}={text}" for key, text in row["varied"].items())]
    for name, metric in METRICS.items():
        cells.append(f"{row[name]:{metric.form}}" if name in row else "")
        if name in COMPARED:
            cells.append(_format_difference(row.get(f"{name}_difference")))
    return [*cells, row.get("note", "")]


def _format_difference(difference: Mapping[str, float] | None) -> str:
    if not difference:
        return ""
    text = f"{difference['difference']:+.4f} [{difference['low']:+.4f}, {difference['high']:+.4f}]"
    return f"{text} *" if excludes_zero(difference) else text


def format_metrics(metrics: Mapping[str, float]) -> str:
    """The metrics of a run on one line."""
    return ", ".join(f"{METRICS[name].title} {value:{METRICS[name].form}}" for name, value in metrics.items())


def plot_differences(rows: Sequence[Mapping[str, Any]], reference: str, path: Path) -> None:
    """Plot the differences and their intervals, a panel for each metric; a dot is filled if its interval excludes 0."""
    # Imported here because it takes a second. Not pyplot, which has state and needs a display.
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["run"] != reference]
    figure = Figure(figsize=(11, 1.5 + 0.3 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(COMPARED), sharey=True)
    for panel, name in zip(panels, COMPARED, strict=True):
        for height, row in enumerate(rows):
            if difference := row.get(f"{name}_difference"):
                fill = "C0" if excludes_zero(difference) else "white"
                panel.hlines(height, difference["low"], difference["high"], color="C0")
                panel.plot(difference["difference"], height, "o", color="C0", mfc=fill)
        panel.axvline(0, color="gray", linewidth=0.8)
        panel.set_title(METRICS[name].title)
        panel.set_xlabel(f"difference to {reference}, 95 % interval")
    panels[0].set_yticks(range(len(rows)), [row["run"] for row in rows])
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    with new_file(path) as file:
        figure.savefig(file, dpi=150, format="png")
