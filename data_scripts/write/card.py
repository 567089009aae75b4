"""Writes the card (README.md) of a dataset: the metadata that `datasets` needs to load it, and its description."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
import pyarrow.parquet as pq
import yaml

from data_scripts.clean.masking_recall import read_recall
from data_scripts.schemas import PAIR_SCHEMA
from data_scripts.write.markdown import code_span, escape_text
from data_scripts.write.statistics import PairStatistics

TEMPLATE = Path(__file__).with_name("pairs_card.jinja")
SOURCES_SHOWN = 15
FILES_SHOWN = 20
# The Hub's size categories, each with its exclusive upper bound of rows.
SIZES = {"n<1K": 10**3, "1K<n<10K": 10**4, "10K<n<100K": 10**5, "100K<n<1M": 10**6, "1M<n<10M": 10**7,
         "10M<n<100M": 10**8, "100M<n<1B": 10**9, "1B<n<10B": 10**10, "10B<n<100B": 10**11}  # fmt: skip


def write_pairs_card(
    folder: Path,
    license_id: str | None,
    report: dict[str, Any],
    statistics: PairStatistics,
    sizes: dict[str, tuple[int, int]],
) -> None:
    """Write README.md beside the Parquet files of `folder` and the plots of `draw_plots`.

    Args:
        folder: the dataset.
        license_id: the license as the Hub spells it; without one the card says that it is missing.
        report: as in report.json.
        statistics: of all pairs.
        sizes: split -> its rows and its bytes in memory, for splits that have rows.
    """
    metadata = _metadata(folder, license_id, report, statistics, sizes)
    # The card is Markdown; the filters escape what users' files contribute.
    environment = jinja2.Environment(  # nosec B701
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    environment.filters |= {"escaped": escape_text, "code": code_span}
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        settings={"language": None, **report["settings"]},
        report=report,
        statistics=statistics,
        sizes=sizes,
        recall=read_recall() if "masked" in report else {},
        license_section=_license_section([license_id] if license_id else []),
        sources_shown=SOURCES_SHOWN,
        files_shown=FILES_SHOWN,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _metadata(
    folder: Path,
    license_id: str | None,
    report: dict[str, Any],
    statistics: PairStatistics,
    sizes: dict[str, tuple[int, int]],
) -> dict[str, Any]:
    """The YAML at the top of the card, which the Hub and `datasets` read."""
    files = [file for name in sizes for file in folder.glob(f"{name}-*.parquet")]
    language = report["settings"].get("language")
    return {
        **({"language": language} if language else {}),
        "license": license_id or "unknown",
        "pretty_name": f"{statistics.pairs:,} pairs of an input and a response",
        "size_categories": [next((name for name, end in SIZES.items() if statistics.pairs < end), "100B<n<1T")],
        "task_categories": ["sentence-similarity"],
        "tags": ["convsim", "conversations"],
        "configs": _configs(sizes),
        "dataset_info": {
            "features": [{"name": name, "dtype": "string"} for name in PAIR_SCHEMA.names],
            "splits": [{"name": name, "num_bytes": size, "num_examples": rows} for name, (rows, size) in sizes.items()],
            "download_size": sum(file.stat().st_size for file in files),
            "dataset_size": sum(size for _, size in sizes.values()),
        },
    }


def _configs(splits: Iterable[str]) -> list[dict[str, Any]]:
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
        "configs": _configs(splits),
    }
    lines = [
        f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n",
        f"# {escape_text(source)}\n",
        "Written by `python -m data_scripts` of convsim; `report.json` says what was read and what was left out.\n",
        "| split | rows |",
        "|---|---:|",
        *(f"| {name} | {rows:,} |" for name, rows in splits.items()),
        "",
        _license_section(licenses),
    ]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _license_section(licenses: list[str]) -> str:
    missing = (
        "NOT STATED. Whoever publishes this dataset must add the license of its texts as `license` at the top of this "
        "file, and say here who owns the texts and under which terms they may be used."
    )
    return f"## License\n\n{', '.join(f'`{name}`' for name in licenses) if licenses else missing}\n"
