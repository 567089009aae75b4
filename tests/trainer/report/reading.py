"""The written report, read back: tables of README.md, and whether a cell shows a number."""

import re
from pathlib import Path


def tables(folder: Path) -> list[list[list[str]]]:
    """Each table of README.md as rows of cells, the titles first and without the line below them."""
    found: list[list[list[str]]] = [[]]
    for line in (folder / "README.md").read_text("utf-8").splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if set(cells) != {"---"}:
                found[-1].append(cells)
        elif found[-1]:
            found.append([])
    return [table for table in found if table]


def table_with(folder: Path, *titles: str) -> list[list[str]]:
    """The rows of the only table that begins with these titles."""
    (table,) = [table for table in tables(folder) if table[0][: len(titles)] == list(titles)]
    return table[1:]


def shows(cell: str, number: float) -> bool:
    """Whether the first number of a cell is this one, to as many decimals as it has."""
    text = re.search(r"-?\d*\.?\d+", cell.replace(",", ""))
    decimals = len(text[0].partition(".")[2]) if text else 0
    return text is not None and abs(float(text[0]) - number) <= 0.50001 * 10**-decimals
