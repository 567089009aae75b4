"""Writes the card (README.md) of a dataset of pairs: its metadata for the Hub and `datasets`, and its description."""

from pathlib import Path
from typing import Any

import jinja2
import yaml

from data_scripts.clean.masking_recall import read_recall
from data_scripts.files.dataset_folders import configs, license_section
from data_scripts.files.hub import code_span, escape_text
from data_scripts.pairs.statistics import PairStatistics
from data_scripts.schemas import PAIR_SCHEMA

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
        license_section=license_section([license_id] if license_id else []),
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
        "configs": configs(sizes),
        "dataset_info": {
            "features": [{"name": name, "dtype": "string"} for name in PAIR_SCHEMA.names],
            "splits": [{"name": name, "num_bytes": size, "num_examples": rows} for name, (rows, size) in sizes.items()],
            "download_size": sum(file.stat().st_size for file in files),
            "dataset_size": sum(size for _, size in sizes.values()),
        },
    }
