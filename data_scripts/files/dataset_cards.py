"""Writes the card (README.md) of a public dataset: its license and splits, as metadata and text."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from data_scripts.files.markdown import escape_text


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
    splits: Counter[str] = Counter()
    for path in sorted(folder.glob("*.parquet")):
        splits[path.name.partition("-")[0]] += pq.read_metadata(path).num_rows
    metadata = {
        "license": licenses[0] if len(licenses) == 1 else licenses or "unknown",
        "configs": configs(splits),
    }
    lines = [
        f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n",
        f"# {escape_text(source)}\n",
        "Written by `python -m data_scripts` of convsim; `report.json` says what was read and what was left out.\n",
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
        "NOT STATED. Whoever publishes this dataset must add the license of its texts as `license` at the top of this "
        "file, and say here who owns the texts and under which terms they may be used."
    )
    return f"## License\n\n{', '.join(f'`{name}`' for name in licenses) if licenses else missing}\n"
