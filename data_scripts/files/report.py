"""The report of a command: its settings and counts, which are printed and written to report.json."""

import json
import re
from pathlib import Path
from typing import Any

from data_scripts.files.lines import BrokenLines

FIRST_LINES = "first lines left out"
_FOLDERS = re.compile(r"(?<![\w.])(?:/|\.{1,2}/|~/)(?:[^/'\"\n]+/)+")

Report = dict[str, Any]  # section -> counts (name -> number), or lines of text


def start_report(command: str, files: list[str], settings: dict[str, Any], broken: BrokenLines) -> Report:
    """A report with its first sections: the settings, and the lines that could not be read."""
    report: Report = {"settings": {"command": command, **settings, "files": files}}
    report["lines left out"] = dict(broken.counts)
    report[FIRST_LINES] = first_lines(broken)
    return report


def first_lines(broken: BrokenLines) -> list[str]:
    """The first broken lines of each kind, with their files but not the folders, because reports are published."""
    lines = []
    for kind, examples in broken.first.items():
        for example in examples:
            location, separator, problem = example.partition(f": {kind}")
            lines.append(Path(location).name + separator + _FOLDERS.sub("", problem))
    return lines


def write_report(report: Report, folder: Path) -> None:
    """Write report.json."""
    (folder / "report.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def format_table(report: Report) -> str:
    """A report as text with a line for each count, for the commands that write pairs."""
    lines = []
    for section, content in report.items():
        if content:
            lines.append(section)
        if isinstance(content, list):
            lines += [f"  {line}" for line in content]
            continue
        for name, value in content.items():
            shown = ", ".join(value) if isinstance(value, list) else f"{value:,}" if isinstance(value, int) else value
            lines.append(f"  {name:<40} {shown:>12}")
    return "\n".join(lines)


def print_report(report: Report, output: Path) -> None:
    """Print a report with a line for each section, for the commands that read public datasets."""
    for section, content in report.items():
        if isinstance(content, list):
            print(f"{section}:", *(f"  {line}" for line in content), sep="\n")
            continue
        shown = (
            f"{value:,} {name}" if isinstance(value, int) else f"{name} {value}" for name, value in content.items()
        )
        print(f"{section}: {', '.join(shown)}")
    print(f"saved in {output}")
