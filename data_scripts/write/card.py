"""The card of a folder of pairs: what `datasets` must know to load it, what people want to see; that of a corpus."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from matplotlib.figure import Figure  # no pyplot: no state, no display

from data_scripts.join.pairs import PAIR_SCHEMA

LONGEST = 2_000  # characters; longer texts are counted as this long
MOST = 1_000  # replies a comment, pairs a thread: the same
SOURCES_SHOWN = 15
# The Hub's names of sizes, each with the number of rows that it ends before.
SIZES = {"n<1K": 10**3, "1K<n<10K": 10**4, "10K<n<100K": 10**5, "100K<n<1M": 10**6, "1M<n<10M": 10**7,
         "10M<n<100M": 10**8, "100M<n<1B": 10**9, "1B<n<10B": 10**10, "10B<n<100B": 10**11}  # fmt: skip
USE = """## Intended use

For training and judging sentence encoders on which response belongs to which input, for research and for one's own
product where the licence allows it. Not for finding out who wrote a text, and not for decisions about people.

## How to load it

In this folder:

```python
import os
from datasets import load_dataset

pairs = load_dataset(os.getcwd())  # or the folder's path, or its name on the Hub, OWNER/NAME
print(pairs)
```
"""
CITATION = """## Citation

Cite the source of the texts, and the paper that trains encoders on such pairs:

```bibtex
@inproceedings{yang-etal-2018-learning,
  title     = {Learning Semantic Textual Similarity from Conversations},
  author    = {Yang, Yinfei and Yuan, Steve and Cer, Daniel and Kong, Sheng-yi and Constant, Noah and Pilar, Petr and
               Ge, Heming and Sung, Yun-Hsuan and Strope, Brian and Kurzweil, Ray},
  booktitle = {Proceedings of the Third Workshop on Representation Learning for NLP},
  year      = {2018},
  pages     = {164--174}
}
```"""


class _Runs:
    """Counts how many runs have 1, 2, … rows, where a run may go on in the next table."""

    def __init__(self) -> None:
        self.counts = np.zeros(MOST + 1, np.int64)
        self.open = self.largest = 0

    def add(self, starts: np.ndarray) -> None:
        at = np.flatnonzero(starts)
        if not len(at):
            self.open += len(starts)
            return
        lengths = np.diff(np.append(at, len(starts)))
        self._count(np.append(lengths[:-1], self.open + at[0]))
        self.open = int(lengths[-1])

    def _count(self, lengths: np.ndarray) -> None:
        lengths = lengths[lengths > 0]
        if len(lengths):
            self.largest = max(self.largest, int(lengths.max()))
            self.counts += np.bincount(np.minimum(lengths, MOST), minlength=MOST + 1)

    def finish(self) -> np.ndarray:
        """(1001,) how many runs have so many rows; the last place: as many or more."""
        self._count(np.array([self.open]))
        self.open = 0
        return self.counts


class PairStatistics:
    """What is counted of pairs as they are written, sorted by thread and input."""

    def __init__(self) -> None:
        self.pairs = 0
        self.characters = {side: np.zeros(LONGEST + 1, np.int64) for side in ("input", "response")}
        self.replies, self.threads = _Runs(), _Runs()
        self.sources: Counter[str] = Counter()

    def add(self, table: pa.Table, thread_starts: np.ndarray, input_starts: np.ndarray) -> None:
        """Count the next pairs.

        Args:
            table: columns `input, response, thread, source`.
            thread_starts: (rows,) whether a thread begins with this pair.
            input_starts: (rows,) whether an input does.
        """
        self.pairs += len(table)
        for side, counts in self.characters.items():
            lengths = np.minimum(pc.utf8_length(table[side]).to_numpy(), LONGEST)
            counts += np.bincount(lengths, minlength=LONGEST + 1)
        self.threads.add(thread_starts)
        self.replies.add(input_starts)
        for entry in pc.value_counts(table["source"].combine_chunks()).to_pylist():
            self.sources[entry["values"]] += entry["counts"]

    def sections(self) -> dict[str, dict[str, Any]]:
        """The report's sections `threads` and `characters`."""
        threads, replies = self.threads.finish(), self.replies.finish()
        characters = {
            f"{side}, {name}": _quantile(counts, share)
            for side, counts in self.characters.items()
            for name, share in (("median", 0.5), ("95 in 100 up to", 0.95))
        }
        return {
            "threads": {
                "threads": int(threads.sum()),
                "pairs in the largest": self.threads.largest,
                "share of the largest": round(self.threads.largest / self.pairs, 4),
                "pairs for each input": round(self.pairs / int(replies.sum()), 2),
            },
            "characters": characters,
        }


def _quantile(counts: np.ndarray, share: float) -> int:
    return int(np.searchsorted(np.cumsum(counts), share * counts.sum()))


def draw_plots(folder: Path, statistics: PairStatistics) -> None:
    """Draw what the card of `folder` shows, once `statistics` have counted all pairs."""
    plots = folder / "plots"
    plots.mkdir()
    _plot_lengths(plots / "characters.png", statistics)
    _plot_replies(plots / "replies.png", statistics)


def write_card(
    folder: Path,
    license_id: str | None,
    report: dict[str, Any],
    statistics: PairStatistics,
    sizes: dict[str, tuple[int, int]],
) -> None:
    """Write README.md beside the Parquet files of `folder` and the plots of `draw_plots`.

    Args:
        folder: what the card is of.
        license_id: the licence as the Hub spells it; without one the card says that it is missing.
        report: as in report.json.
        statistics: of all pairs.
        sizes: split -> its rows and its bytes in memory, for splits that have rows.
    """
    files = {name: sorted(folder.glob(f"{name}-*.parquet")) for name in sizes}
    info = {
        "features": [{"name": name, "dtype": "string"} for name in PAIR_SCHEMA.names],
        "splits": [{"name": name, "num_bytes": size, "num_examples": rows} for name, (rows, size) in sizes.items()],
        "download_size": sum(file.stat().st_size for paths in files.values() for file in paths),
        "dataset_size": sum(size for _, size in sizes.values()),
    }
    metadata = {
        **({"language": language} if (language := report["settings"].get("language")) else {}),
        "license": license_id or "unknown",
        "pretty_name": f"{statistics.pairs:,} pairs of an input and a response",
        "size_categories": [next((name for name, end in SIZES.items() if statistics.pairs < end), "100B<n<1T")],
        "task_categories": ["sentence-similarity"],
        "tags": ["convsim", "conversations"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": name, "path": f"{name}-*.parquet"} for name in sizes],
            }
        ],
        "dataset_info": info,
    }
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    text = f"---\n{front}---\n\n{_text(license_id, report, statistics, sizes)}"
    (folder / "README.md").write_text(text, encoding="utf-8")


def write_corpus_card(folder: Path, licenses: list[str], source: str) -> None:
    """Write README.md of a public corpus beside its Parquet files and report.json: the licence, and what there is.

    Args:
        folder: what the card is of.
        licenses: as the Hub spells them; without one the card says that it is missing.
        source: what the corpus was read from, as people may know it.
    """
    splits: Counter[str] = Counter()
    for path in sorted(folder.glob("*.parquet")):
        splits[path.name.partition("-")[0]] += pq.read_metadata(path).num_rows
    lines = [
        f"---\nlicense: {licenses[0] if len(licenses) == 1 else licenses or 'unknown'}\n---\n",
        f"# {source}\n",
        "Written by `python -m data_scripts` of convsim; `report.json` says what was read and what left out.\n",
        "| split | rows |",
        "|---|---:|",
        *(f"| {name} | {rows:,} |" for name, rows in splits.items()),
        "",
        *_licence_section(licenses),
    ]
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _licence_section(licenses: list[str]) -> list[str]:
    missing = (
        "NOT STATED. Whoever publishes this must put the licence of the texts above, as `license` at the top of "
        "this file, and say here whose texts they are and under which terms they may be used."
    )
    return ["## Licence", "", f"`{'`, `'.join(licenses)}`." if licenses else missing]


def _text(
    license_id: str | None, report: dict[str, Any], statistics: PairStatistics, sizes: dict[str, tuple[int, int]]
) -> str:
    settings = report["settings"]
    lines = [
        "# Pairs of an input and a response",
        "",
        f"{statistics.pairs:,} pairs for training sentence encoders on conversations: a text, and one that was given "
        f"in answer to it. Made by `python -m data_scripts {settings['command']}` of convsim.",
        "",
        "| split | pairs | MB of text |",
        "|---|---|---|",
        *(f"| {name} | {rows:,} | {size / 1e6:,.1f} |" for name, (rows, size) in sizes.items()),
        "",
        "`thread` names the conversation, `source` where it was found. "
        + (
            "Whole threads are in one split"
            if settings["split"] == "thread"
            else "Pairs were split one by one, so that a conversation may be in several splits"
        )
        + ", by a hash, so that a pair stays where it is when data are added.",
        "",
        "![Lengths of inputs and responses](plots/characters.png)",
        "",
        "![Responses for each input](plots/replies.png)",
        "",
        USE,
        *_limits(report),
        "",
        "## Source",
        "",
        *(f"- {name}: {pairs:,} pairs" for name, pairs in statistics.sources.most_common(SOURCES_SHOWN)),
    ]
    others = len(statistics.sources) - SOURCES_SHOWN
    if others > 0:
        shown = sum(pairs for _, pairs in statistics.sources.most_common(SOURCES_SHOWN))
        lines.append(f"- {others:,} others: {statistics.pairs - shown:,} pairs")
    files = settings["files"]
    named = ", ".join(f"`{name}`" for name in files[:20])
    lines += ["", f"Read from {named}" + (f" and {len(files) - 20} more" if len(files) > 20 else "") + ".", ""]
    lines += ["## What was counted", ""]
    for section, content in report.items():
        if isinstance(content, dict) and content:
            lines += [f"**{section[0].upper()}{section[1:]}**", "", "| | |", "|---|---|"]
            lines += [
                f"| {name} | {_cell(value)} |"
                for name, value in content.items()
                if (section, name) != ("settings", "files")
            ]
            lines.append("")
    lines += [*_licence_section([license_id] if license_id else []), "", CITATION]
    return "\n".join(lines) + "\n"


def _limits(report: dict[str, Any]) -> list[str]:
    language = report["settings"].get("language")
    return [
        "## Limits",
        "",
        f"- Language: texts that are surely of another language than `{language}` were left out; short ones may be of "
        "any."
        if language
        else "- Language: not looked at; see the sources.",
        "- Personal data: e-mail addresses, user names written as such and phone numbers were masked where a rule "
        "found them; people's names in running text were not."
        if "masked" in report
        else "- Personal data: not masked.",
        "- Who writes in forums and chats is no sample of all people, and what they write holds their prejudices, "
        "their rudeness and their errors.",
        "- A response is what somebody answered, not what is true or the best answer.",
    ]


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _figure() -> tuple[Any, Any]:
    figure = Figure(figsize=(6, 3), layout="constrained")
    return figure, figure.subplots()


def _plot_lengths(path: Path, statistics: PairStatistics) -> None:
    figure, axes = _figure()
    longest = max(_quantile(counts, 0.999) for counts in statistics.characters.values())
    edges = np.unique(np.linspace(0, longest + 1, 51).astype(int))
    for side, counts in statistics.characters.items():
        shares = np.add.reduceat(counts[: edges[-1]], edges[:-1]) / np.diff(edges) / counts.sum()
        axes.stairs(100 * shares, edges, label=side)
    axes.set(xlabel="characters", ylabel="% of texts, for each length")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _plot_replies(path: Path, statistics: PairStatistics) -> None:
    figure, axes = _figure()
    counts = statistics.replies.counts
    most = max(int(np.flatnonzero(counts)[-1]), 2)
    axes.loglog(np.arange(1, most + 1), np.where(counts, counts, np.nan)[1 : most + 1], ".")
    axes.set(xlabel="responses for one input", ylabel="inputs")
    figure.savefig(path, dpi=120, metadata={"Software": None})
