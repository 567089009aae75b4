"""Every evaluation dataset, tiny and invented, in memory and as the folders that the loaders read."""

from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict, concatenate_datasets

from data_scripts.public.sts import STS_SETS

SPLITS = ("train", "validation", "test")
COLORS, THINGS = ("red", "blue", "green", "old", "new", "big"), ("car", "house", "bird", "lamp", "boat")


def pairs(split: str, count: int = 130) -> Dataset:
    rows = range(count)
    return Dataset.from_dict(
        {
            "input": [f"{split} question {i}" for i in rows],
            "response": [f"{split} answer {i}" for i in rows],
            "thread": [f"{split} {i}" for i in rows],
            "source": ["invented"] * count,
        }
    )


def snli(split: str) -> Dataset:
    hypotheses = [f"{split} hypothesis {i}" for i in range(30)]
    return Dataset.from_dict(
        {"premise": ["A lamp is on."] * 30, "hypothesis": hypotheses, "label": [i % 3 for i in range(30)]}
    )


def stsb(split: str) -> Dataset:
    rows = [(color, thing) for color in COLORS for thing in THINGS]
    return Dataset.from_dict(
        {
            "sentence1": [f"{split}: a {color} {thing}" for color, thing in rows],
            "sentence2": [f"{split}: the {thing} is {color}" for color, thing in rows],
            "score": [float(i * 7 % 6) for i in range(len(rows))],
            "genre": ["captions", "forums", "news"] * 10,
        }
    )


def cqa(split: str) -> Dataset:
    return Dataset.from_dict(
        {
            "query_id": ["q1"] * 4 + ["q2"] * 4,
            "query": [f"{split}: where is the pool?"] * 4 + [f"{split}: who sells boats?"] * 4,
            "candidate_id": [f"c{i}" for i in range(8)],
            "candidate": [
                f"{split}: {text}" for text in ("a pool", "a bus", "the bank", "rain", "a boat", "b", "c", "d")
            ],
            "relevant": [True, False, False, True, True, False, False, False],
            "label": ["Relevant", "Irrelevant", "Irrelevant", "Relevant", "Relevant"] + ["Irrelevant"] * 3,
            "rank": [2, 1, 3, 4, 1, 2, 3, 4],
        }
    )


def sts() -> dict[str, dict[str, Dataset]]:
    """Three SemEval datasets of two years; the last shares half of its sentences with the first."""
    first, second = stsb("semeval").remove_columns("genre"), stsb("dictionary").remove_columns("genre")
    mixed = concatenate_datasets([first.select(range(5, 12)), second.select(range(20, 27))])
    return {"2012": {"MSRpar": first, "OnWN": second.select(range(20))}, "2014": {"OnWN": mixed}}


def evaluation_data() -> dict[str, Any]:
    """All evaluation datasets with all splits."""
    return {
        "pairs": DatasetDict({split: pairs(split) for split in SPLITS}),
        "snli": DatasetDict({split: snli(split) for split in SPLITS}),
        "stsb": DatasetDict({split: stsb(split) for split in SPLITS}),
        "cqa": DatasetDict({split: cqa(split) for split in ("validation", "test2017")}),
        "sts": sts(),
    }


def write_data_folder(folder: Path) -> Path:
    """Write `evaluation_data` as `pairs/`, `snli/`, `stsb/`, `cqa/` and `sts/` of a folder."""
    for split in SPLITS:
        for name, rows in (("pairs", pairs(split)), ("snli", snli(split)), ("stsb", stsb(split))):
            (folder / name).mkdir(exist_ok=True)
            rows.to_parquet(folder / name / f"{split}-00000-of-00001.parquet")
    for year, sets in sts().items():
        (folder / "sts" / f"{year}-test").mkdir(parents=True)
        for name, rows in sets.items():
            stem = STS_SETS[year][name]
            texts = {
                "input": [f"{row['sentence1']}\t{row['sentence2']}" for row in rows],
                "gs": [str(row["score"]) for row in rows],
            }
            for part, lines in texts.items():
                path = folder / "sts" / f"{year}-test" / f"STS.{part}.{stem}.txt"
                path.write_text("".join(f"{line}\n" for line in lines))
    (folder / "cqa").mkdir()
    for split in ("validation", "test2017"):
        cqa(split).to_parquet(folder / "cqa" / f"{split}-00000-of-00001.parquet")
    return folder
