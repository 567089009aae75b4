"""The report as it is written: Markdown for people, the same numbers as JSON, plots as PNG."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from trainer.evaluation.bootstrap import INTERVAL

Cell = str | int | float | None


class Page:
    """Headings, texts, tables and plots, in order; `numbers` has what the tables show, by the table's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.numbers: dict[str, Any] = {}
        self._lines: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)

    def heading(self, level: int, text: str) -> None:
        """A heading of a level, 1 to 6."""
        self._lines += [f"{'#' * level} {text}", ""]

    def text(self, *sentences: str) -> None:
        """A paragraph."""
        self._lines += [" ".join(sentences), ""]

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], numbers: Any = None) -> None:
        """A table, and under `name` what it shows, as JSON takes it, unless another has it; nothing without rows."""
        if not rows:
            return
        if numbers is not None:
            self.numbers[name] = numbers
        self._lines += [_line(columns), _line(["---"] * len(columns)), *(_line(map(_as_text, row)) for row in rows), ""]

    def plot(self, name: str, figure: Figure, caption: str) -> None:
        """A plot, saved as NAME.png, and what it shows."""
        figure.savefig(self.folder / f"{name}.png", dpi=90)
        self._lines += [f"![{caption}]({name}.png)", "", f"*{caption}*", ""]

    def save(self) -> None:
        """Write README.md and report.json."""
        (self.folder / "README.md").write_text("\n".join(self._lines), encoding="utf-8")
        text = json.dumps(self.numbers, indent=1, ensure_ascii=False)
        (self.folder / "report.json").write_text(text + "\n", encoding="utf-8")


def score(scores: Mapping[str, Any] | None, name: str, beside: str | None = None) -> str:
    """A score of results.json as text, with its interval in brackets and another one after a slash; "" without one."""
    if not scores or scores.get(name) is None:
        return ""
    interval = scores.get(f"{name}{INTERVAL}")
    text = _as_text(scores[name]) + (f" [{_as_text(interval[0])}, {_as_text(interval[1])}]" if interval else "")
    return f"{text} / {_as_text(scores[beside])}" if beside else text


def _as_text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        text = f"{cell:.3f}"
        return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
    return f"{cell:,}" if isinstance(cell, int) else cell.replace("|", "\\|")


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"
