"""Writes the card (README.md) of a dataset of pairs, for the Hub and for people, and draws its plots."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import yaml
from matplotlib.figure import Figure  # without pyplot, which has global state and needs a display

from data_scripts.files.dataset_folders import configs, license_section
from data_scripts.files.hub import code_span, escape_text
from data_scripts.files.storage import make_folder
from data_scripts.pairs.sorted_pairs import Counts, quantile
from data_scripts.schemas import PAIR_TEXTS

TEMPLATE = Path(__file__).with_name("pairs_card.jinja")
SOURCES_SHOWN = 15
FILES_SHOWN = 20
# The Hub's size categories, each with its exclusive upper bound of rows.
SIZES = {"n<1K": 10**3, "1K<n<10K": 10**4, "10K<n<100K": 10**5, "100K<n<1M": 10**6, "1M<n<10M": 10**7,
         "10M<n<100M": 10**8, "100M<n<1B": 10**9, "1B<n<10B": 10**10, "10B<n<100B": 10**11}  # fmt: skip


def write_pairs_card(folder: Path, license_id: str | None, report: dict[str, Any], counts: Counts) -> None:
    """Write README.md beside the Parquet files of `folder` and the plots of `draw_plots`.

    Args:
        folder: the dataset.
        license_id: the license as the Hub spells it; without one the card says that it is missing.
        report: as in report.json.
        counts: of all pairs.
    """
    sizes = {split: (rows, counts.bytes[split]) for split, rows in counts.rows.items() if rows}
    metadata = _metadata(folder, license_id, report["settings"].get("language"), sizes)
    # The card is Markdown; the filters escape what users' files contribute.
    environment = jinja2.Environment(  # nosec B701
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    environment.filters |= {"escaped": escape_text, "code": code_span}
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        settings={"language": None, **report["settings"]},
        report=report,
        counts=counts,
        sizes=sizes,
        recall=_read_recall() if "masked" in report else {},
        license_section=license_section([license_id] if license_id else []),
        sources_shown=SOURCES_SHOWN,
        files_shown=FILES_SHOWN,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _read_recall() -> dict[str, dict[str, int]]:
    # Loading the library of phone numbers takes a while, and only --mask needs it.
    from data_scripts.clean.masking import RECALL

    return json.loads(RECALL.read_text(encoding="utf-8"))["recall"]


def _metadata(
    folder: Path, license_id: str | None, language: str | None, sizes: dict[str, tuple[int, int]]
) -> dict[str, Any]:
    """The YAML at the top of the card, which the Hub and `datasets` read; `sizes`: split -> its rows and bytes."""
    pairs = sum(rows for rows, _ in sizes.values())
    files = [file for name in sizes for file in folder.glob(f"{name}-*.parquet")]
    return {
        **({"language": language} if language else {}),
        "license": license_id or "unknown",
        "pretty_name": f"{pairs:,} pairs of an input and a response",
        "size_categories": [next((name for name, end in SIZES.items() if pairs < end), "100B<n<1T")],
        "task_categories": ["sentence-similarity"],
        "tags": ["convsim", "conversations"],
        "configs": configs(sizes),
        "dataset_info": {
            "features": [
                *({"name": name, "dtype": "string"} for name in PAIR_TEXTS),
                {"name": "context", "list": "string"},
            ],
            "splits": [{"name": name, "num_bytes": size, "num_examples": rows} for name, (rows, size) in sizes.items()],
            "download_size": sum(file.stat().st_size for file in files),
            "dataset_size": sum(size for _, size in sizes.values()),
        },
    }


def draw_plots(folder: Path, counts: Counts) -> None:
    """Draw the plots for the card of `folder`."""
    plots = folder / "plots"
    make_folder(plots)
    figure, axes = _figure()
    sides = {"input": counts.input, "response": counts.response}
    longest = max(quantile(lengths, 0.999) for lengths in sides.values())
    edges = np.unique(np.linspace(0, longest + 1, 51).astype(int))
    for side, lengths in sides.items():
        texts = np.add.reduceat(_frequencies(lengths, longest), edges[:-1])
        axes.stairs(100 * (texts / np.diff(edges) / lengths.total()), edges, label=side)
    axes.set(xlabel="characters", ylabel="% of texts of each length")
    axes.legend(frameon=False)
    _save(figure, plots / "characters.png")
    figure, axes = _figure()
    most = max(*counts.responses, 2)
    inputs = _frequencies(counts.responses, most)
    axes.loglog(np.arange(1, most + 1), np.where(inputs, inputs, np.nan)[1:], ".")
    axes.set(xlabel="responses to an input", ylabel="inputs")
    _save(figure, plots / "replies.png")


def _frequencies(counts: Counter[int], largest: int) -> np.ndarray:
    """How often each value from 0 to `largest` occurs, (largest + 1,) int64."""
    return np.array([counts[value] for value in range(largest + 1)], np.int64)


def _figure() -> tuple[Any, Any]:
    figure = Figure(figsize=(6, 3))  # a layout engine would take most of the time
    return figure, figure.add_axes((0.12, 0.17, 0.86, 0.8))


def _save(figure: Any, path: Path) -> None:
    with path.open("wb") as file:
        figure.savefig(file, format="png", dpi=120, metadata={"Software": None})
