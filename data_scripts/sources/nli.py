"""Read natural language inference (SNLI, MultiNLI and others) as premise, hypothesis and label, and write Parquet.

SOURCE is a file or a folder, or a name on the Hub; of a folder every .parquet, or else every .jsonl, .csv and .tsv file
is read, into the split that its name speaks of (train, dev, test; dev_matched and dev_mismatched stay apart).
Columns: premise or sentence1 or context; hypothesis or sentence2; gold_label or label. Labels: entailment, neutral,
contradiction, or e, n, c, or 0, 1, 2. The four premises of Multi-Premise Entailment are joined. Rows without a gold
label (-, -1) and rows of other labels, such as not_entailment, are left out and counted.

Examples: python -m data_scripts nli stanfordnlp/snli -o data/snli
          python -m data_scripts nli nyu-mll/multi_nli -o data/multi_nli
          python -m data_scripts nli anli_v1.0/R1 -o data/anli_r1
"""

import argparse
import logging
import re
from collections import Counter
from typing import Any

from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLines
from data_scripts.write.corpora import (
    SOURCE_HELP,
    ColumnNames,
    Rows,
    add_broken_lines,
    add_corpus_arguments,
    corpus_folder,
    print_report,
    read_rows,
    write_splits,
)

LABELS = ["entailment", "neutral", "contradiction"]
NLI_FEATURES = Features({"premise": Value("string"), "hypothesis": Value("string"), "label": ClassLabel(names=LABELS)})
COLUMN_NAMES: ColumnNames = {
    "premise": ("premise", "sentence1", "context", "premise1 premise2 premise3 premise4"),
    "hypothesis": ("hypothesis", "sentence2"),
    "label": ("gold_label", "label"),
}
SPLITS = ("train", "validation", "test")
NO_LABEL = ("-", "-1", "")  # the annotators did not agree: in the official files, in copies on the Hub
# ANLI has first letters, copies on the Hub and XNLI numbers, SciTail "entails".
SPELLINGS = {name: number for number, label in enumerate(LABELS) for name in (label, label[0], str(number))}
SPELLINGS["entails"] = 0
NO_GOLD = "without a gold label"
MOST_OTHER_LABELS = 100  # a column of more than this many is no label
_CAPTION_ID = re.compile(r"\d+\.jpg#\d/")  # before each premise of Multi-Premise Entailment

logger = logging.getLogger(__name__)


def load_nli(source: str) -> DatasetDict:
    """A corpus of inference as `premise`, `hypothesis` and `label` (0 entailment, 1 neutral, 2 contradiction).

    Args:
        source: a folder with the official `snli_1.0_{train,dev,test}.jsonl` (Bowman et al., 2015; a part of train,
            named `snli_train_partial.jsonl`, is taken where the whole is not there) or
            `multinli_1.0_{train,dev_matched,dev_mismatched}.jsonl` (Williams et al., 2018), plain or compressed; any
            file or folder of Parquet, JSON lines, CSV or TSV with columns of `COLUMN_NAMES`; or a Hub id such as
            `stanfordnlp/snli` or `nyu-mll/multi_nli`.

    Returns:
        `train`, `validation` (or `validation_matched` and `validation_mismatched`) and `test`, as far as they are
        there; all splits whose names start with `train` are one. A missing split, rows without one of the three labels
        and lines that cannot be read are left out, counted and logged.

    Raises:
        InputError: nothing to read, a column missing, a label that is no label, or a truncated archive.
    """
    return _load(source)[0]


def _load(source: str) -> tuple[DatasetDict, dict[str, Any]]:
    """The splits, and for each of them where it is from, what was kept and what was left out."""
    broken = BrokenLines()
    parts: dict[str, Dataset] = {}
    counts: dict[str, Counter[str]] = {}
    rows = read_rows(source, COLUMN_NAMES, broken, label_names=True)
    joined: dict[str, list[Rows]] = {}
    for name, part in rows.items():
        split = re.sub(r"^(dev|val|valid)(?![a-z])", "validation", name)
        joined.setdefault("train" if split.startswith("train") else split, []).append(part)
    for split in sorted(joined, key=lambda name: [not name.startswith(prefix) for prefix in SPLITS]):
        parts[split], counts[split] = _labelled(joined[split], f"{source}, split {split}")
    for split in SPLITS:
        if not any(name.startswith(split) for name in parts):
            logger.warning("%s: no %s split; left out", source, split)
    report: dict[str, Any] = {}
    for split, dataset in parts.items():
        no_gold = counts[split].pop(NO_GOLD, 0)
        report[split] = {"from": source, "rows": len(dataset), NO_GOLD: no_gold, **counts[split]}
        logger.info("%s, split %s: %d pairs, %d %s left out", source, split, len(dataset), no_gold, NO_GOLD)
        if counts[split]:
            logger.warning("%s, split %s: left out: %s", source, split, dict(counts[split]))
    add_broken_lines(report, broken)
    if broken.counts:
        logger.warning("%s: %d lines left out: %s", source, broken.counts.total(), "; ".join(broken.examples))
    return DatasetDict(parts), report


def _labelled(parts: list[Rows], name: str) -> tuple[Dataset, Counter[str]]:
    """The rows with one of the three labels as a data set, and the number of those without, by reason."""
    kept: dict[str, list[Any]] = {column: [] for column in NLI_FEATURES}
    left_out: Counter[str] = Counter()
    for place, row in (row for part in parts for row in part):
        premise, hypothesis, label = row["premise"], row["hypothesis"], _label(row["label"], place)
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise InputError(f"{place}: premise and hypothesis must be texts; found {premise!r} and {hypothesis!r}")
        if isinstance(label, str):
            left_out[label] += 1
            if len(left_out) > MOST_OTHER_LABELS:
                raise InputError(f"{place}: {label}; more than {MOST_OTHER_LABELS} such: is this the column of labels?")
            continue
        kept["premise"].append(_CAPTION_ID.sub("", premise))
        kept["hypothesis"].append(hypothesis)
        kept["label"].append(label)
    if not kept["label"]:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in left_out.items())
        raise InputError(f"{name}: not one row with a gold label ({reasons or 'no row'}); expected {', '.join(LABELS)}")
    return Dataset.from_dict(kept, features=NLI_FEATURES), left_out


def _label(value: Any, place: str) -> int | str:
    """The label's number, or why there is none."""
    name = str(value).strip().lower()
    if name in NO_LABEL:
        return NO_GOLD
    if name in SPELLINGS:
        return SPELLINGS[name]
    if not isinstance(value, str) or name.lstrip("-").isdecimal():
        raise InputError(f"{place}: label {value!r}; expected {', '.join(LABELS)}, or - (-1) where there is none")
    return f"labelled {name}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_corpus_arguments(parser, SOURCE_HELP)


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts."""
    with corpus_folder(args) as (folder, _):
        splits, report = _load(args.source)
        write_splits(splits, report, folder)
    print_report(report, args.output)
