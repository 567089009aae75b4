"""Writes the card (README.md) of a dataset of pairs, for the Hub and for people."""

from pathlib import Path
from typing import Any

import jinja2
import yaml

from data_scripts.dataset_folders import configs, license_section
from data_scripts.pairs.sorted_pairs import Counts
from modeling_convsim.files.hub import escape_text

TEMPLATE = Path(__file__).with_name("pairs_card.jinja")
SOURCES_SHOWN = 15
FILES_SHOWN = 20


def write_pairs_card(folder: Path, license_id: str | None, report: dict[str, Any], counts: Counts) -> None:
    """Write README.md beside the Parquet files of `folder`.

    Args:
        folder: the dataset.
        license_id: the license as the Hub spells it; without one the card says that it is missing.
        report: as in report.json.
        counts: of all pairs.
    """
    language = report["settings"].get("language")
    metadata = {
        **({"language": language} if language else {}),
        "license": license_id or "unknown",
        "pretty_name": f"{counts.pairs:,} pairs of an input and a response",
        "task_categories": ["sentence-similarity"],
        "tags": ["convsim", "conversations"],
        "configs": configs([split for split, rows in counts.rows.items() if rows]),
    }
    # The card is Markdown; the filter escapes what users' files contribute.
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701
    )
    environment.filters["escaped"] = escape_text
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        settings={"language": None, **report["settings"]},
        report=report,
        counts=counts,
        license_section=license_section([license_id] if license_id else []),
        sources_shown=SOURCES_SHOWN,
        files_shown=FILES_SHOWN,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
