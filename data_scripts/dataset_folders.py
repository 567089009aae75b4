"""A dataset's folder: its Parquet files, report and card.

Large libraries are imported where they are used, so that the options of a command are printed at once.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from modeling_convsim.files.hub import escape_text
from modeling_convsim.files.texts import BrokenLines

FIRST_LINES = "first lines left out"
_FOLDERS = re.compile(r"(?<![\w.])(?:/|\.{1,2}/|~/)(?:[^/'\"\n]+/)+")

Report = dict[str, Any]  # section -> counts (name -> number), or lines of text


def start_report(command: str, files: list[str], settings: dict[str, Any], broken: BrokenLines) -> Report:
    """A report with its first sections: the settings, and the lines that could not be read."""
    report: Report = {"settings": {"command": command, **settings, "files": files}}
    add_broken_lines(report, broken)
    return report


def add_broken_lines(report: Report, broken: BrokenLines) -> None:
    """Add the lines that could not be read: their number, and the first of each kind.

    The first lines have their files but not the folders, because reports are published.
    """
    lines = []
    for kind, examples in broken.first.items():
        for example in examples:
            location, separator, problem = example.partition(f": {kind}")
            lines.append(Path(location).name + separator + _FOLDERS.sub("", problem))
    report["lines left out"] = dict(broken.counts)
    report[FIRST_LINES] = lines


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


def split_file(folder: Path, split: str) -> Path:
    """The Parquet file of a split."""
    return folder / f"{split}-00000-of-00001.parquet"


def configs(splits: Iterable[str]) -> list[dict[str, Any]]:
    """The files of each split; without them `datasets` guesses, and joins `test2016` and `test2017` to one split."""
    files = [{"split": name, "path": f"{name}-*.parquet"} for name in splits]
    return [{"config_name": "default", "data_files": files}]


def write_dataset_card(folder: Path, licenses: list[str], source: str) -> None:
    """Write README.md of a public dataset beside its Parquet files and report.json: the license and the splits.

    Args:
        folder: the dataset.
        licenses: as the Hub spells them; without one the card says that it is missing.
        source: the name of the original dataset, for the title.
    """
    import pyarrow.parquet as pq
    import yaml

    splits: Counter[str] = Counter()
    for path in sorted(folder.glob("*.parquet")):
        splits[path.name.partition("-")[0]] += pq.read_metadata(path).num_rows
    metadata = {"license": licenses[0] if len(licenses) == 1 else licenses or "unknown", "configs": configs(splits)}
    lines = [
        f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n",
        f"# {escape_text(source)}\n",
        "Created by `convsim data`; `report.json` lists what was read and what was left out.\n",
        "| split | rows |",
        "|---|---:|",
        *(f"| {name} | {rows:,} |" for name, rows in splits.items()),
        "",
        license_section(licenses),
    ]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def license_section(licenses: list[str]) -> str:
    """The section of a card that states the licenses, or that they are missing."""
    missing = (
        "NOT STATED. Before you publish this dataset, add the license of its texts as `license` at the top of this "
        "file, and state here who owns the texts and under which terms they may be used."
    )
    return f"## License\n\n{', '.join(f'`{name}`' for name in licenses) if licenses else missing}\n"
