"""A tiny dataset of every kind that a run reads, as the folders that the option of the same name takes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from datasets import Dataset

from tests.trainer.evaluation.invented_data import write_data_folder

THINGS = ["dog", "cat", "car", "house", "boat", "tree", "horse", "train", "garden", "kitchen", "piano", "bicycle"]
COLORS = ["red", "green", "blue", "black", "white", "yellow", "brown", "gray", "pink", "purple"]
OWNERS = ["ann", "bob", "eve", "tom"]
SPLITS = {"train": THINGS[:8], "validation": THINGS[8:10], "test": THINGS[10:]}  # things that a split's texts name


def write_datasets(folder: Path) -> dict[str, str]:
    """Write all kinds; returns the folder of each, by kind."""
    folder.mkdir(exist_ok=True)
    write_data_folder(folder)
    for kind, write in WRITERS.items():
        (folder / kind).mkdir(exist_ok=True)
        write(folder / kind)
    return {kind: str(folder / kind) for kind in (*WRITERS, "stsb", "cqa", "sts")}


def _write_pairs(folder: Path) -> None:
    """A question about a thing is answered by naming its color; 480 pairs, 120 of them in each held-out split."""
    rows = [
        {"input": f"what color is the {thing} of {owner}", "response": f"the {thing} of {owner} is {color}"}
        | {"thread": f"{thing}/{owner}", "source": "synthetic"}
        for thing in THINGS
        for owner in OWNERS
        for color in COLORS
    ]
    order = np.random.default_rng(0).permutation(len(rows))
    for split, part in (("train", order[:240]), ("validation", order[240:360]), ("test", order[360:])):
        write(folder, split, [rows[index] for index in part])


def _write_nli(folder: Path) -> None:
    for split, things in SPLITS.items():
        rows = []
        for thing in things:
            for color, other in zip(COLORS, COLORS[1:] + COLORS[:1], strict=True):
                premise = f"a {color} {thing} stands in the {split} room"
                rows.append({"premise": premise, "hypothesis": f"there is a {thing}", "label": 0})
                rows.append({"premise": premise, "hypothesis": f"the {thing} is old", "label": 1})
                rows.append({"premise": premise, "hypothesis": f"the {thing} is {other}", "label": 2})
        write(folder, split, rows)


def _write_captions(folder: Path) -> None:
    rows = [
        {
            "group": f"{color} {thing}",
            "captions": [f"a {color} {thing} here", f"one {thing}, {color}", f"{color} {thing}s"],
        }
        for color in COLORS
        for thing in THINGS[:4]
    ]
    write(folder, "train", rows)


def _write_paraphrases(folder: Path) -> None:
    """Half are paraphrases (score 1), half are not (0)."""
    rows = [
        {"sentence1": f"where is the {thing} of {owner}", "sentence2": f"in which place is the {other} of {owner}"}
        | {"score": float(thing == other)}
        for owner in OWNERS
        for thing, other in zip(THINGS * 2, THINGS + THINGS[1:] + THINGS[:1], strict=True)
    ]
    write(folder, "train", rows)


def _write_sentences_in_order(folder: Path) -> None:
    rows = [
        {"book": book, "position": position, "sentence": f"the {THINGS[position // 8]} of {book} was {color}"}
        for book in OWNERS
        for position, color in enumerate(COLORS * 5)
    ]
    write(folder, "train", rows)


def write(folder: Path, split: str, rows: list[dict]) -> None:
    """Write a split as Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    Dataset.from_list(rows).to_parquet(folder / f"{split}-00000-of-00001.parquet")


WRITERS: dict[str, Callable[[Path], None]] = {
    "pairs": _write_pairs,
    "snli": _write_nli,
    "nli": _write_nli,
    "captions": _write_captions,
    "paraphrases": _write_paraphrases,
    "documents": _write_sentences_in_order,
    "texts": _write_sentences_in_order,
}
