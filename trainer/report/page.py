"""The page of the report: Markdown for people, the same values as JSON, plots as PNG."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from modeling_convsim.files.storage import make_folder, new_file, write_text
from trainer.evaluation.bootstrap import INTERVAL

Cell = str | int | float | None


class Page:
    """Headings, paragraphs, tables and plots in order.

    Attributes:
        values: table name -> the values in the table; saved as report.json.
    """

    def __init__(self, folder: Path) -> None:
        """Create the folder.

        Raises:
            InputError: the folder cannot be created.
        """
        self.folder = folder
        self.values: dict[str, Any] = {}
        self._lines: list[str] = []
        make_folder(folder)

    def heading(self, level: int, text: str) -> None:
        """Add a heading of level 1 to 6."""
        self._lines += [f"{'#' * level} {text}", ""]

    def text(self, *sentences: str) -> None:
        """Add a paragraph."""
        self._lines += [" ".join(sentences), ""]

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], values: Any = None) -> None:
        """Add a table and, under `name`, its values for report.json; nothing without rows."""
        if not rows:
            return
        if values is not None:
            self.values[name] = values
        lines: list[Iterable[str]] = [columns, ["---"] * len(columns), *(map(_format_cell, row) for row in rows)]
        self._lines += [*(f"| {' | '.join(cells)} |" for cells in lines), ""]

    def plot(self, name: str, figure: Figure, caption: str) -> None:
        """Add a plot with its caption; it is saved as NAME.png."""
        with new_file(self.folder / f"{name}.png") as file:
            figure.savefig(file, dpi=90, format="png")
        self._lines += [f"![{caption}]({name}.png)", "", f"*{caption}*", ""]

    def save(self) -> None:
        """Write README.md and report.json."""
        write_text(self.folder / "README.md", "\n".join(self._lines))
        write_text(self.folder / "report.json", json.dumps(self.values, indent=1, ensure_ascii=False) + "\n")


def format_score(scores: Mapping[str, Any] | None, name: str, second: str | None = None) -> str:
    """A score of results.json with its interval in brackets, and another score after a slash; "" if it is missing."""
    if not scores or scores.get(name) is None:
        return ""
    interval = scores.get(f"{name}{INTERVAL}")
    text = _format_cell(scores[name])
    if interval:
        text += f" [{_format_cell(interval[0])}, {_format_cell(interval[1])}]"
    return f"{text} / {_format_cell(scores[second])}" if second else text


def _format_cell(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        text = f"{cell:.3f}"
        return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
    return f"{cell:,}" if isinstance(cell, int) else cell.replace("|", "\\|")
