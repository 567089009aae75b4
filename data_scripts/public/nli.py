"""Read natural language inference (SNLI, MultiNLI and others) as premise, hypothesis and label, and write Parquet.

SOURCE is a file, a folder or a dataset on the Hub. Of a folder, all .parquet files are read, or else all .jsonl, .csv
and .tsv files, or else the .txt files (tab-separated) whose names contain a split. The name of a file contains its
split (train, dev, test; dev_matched and dev_mismatched are separate).
Columns: premise or sentence1 or context; hypothesis or sentence2; gold_label or label; those of SICK are known too.
Labels: entailment, neutral, contradiction, or e, n, c, or 0, 1, 2. The four premises of Multi-Premise Entailment are
joined. Rows without a gold label (-, -1) and rows with other labels, such as not_entailment, are left out and counted.
Of a table in several languages, such as XNLI's, --language names the one to read.

Examples: python -m data_scripts nli stanfordnlp/snli -o data/snli
          python -m data_scripts nli nyu-mll/multi_nli -o data/multi_nli
          python -m data_scripts nli sentence-transformers/all-nli:pair-class -o data/all_nli
          python -m data_scripts nli anli_v1.0/R1 -o data/anli_r1
"""

from __future__ import annotations

import argparse
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, write_loaded
from data_scripts.files.errors import InputError
from data_scripts.files.records import Rows
from data_scripts.files.rows import SOURCE_HELP, ColumnNames, read_rows
from data_scripts.files.texts import BrokenLines
from data_scripts.schemas import NLI_LABELS, NLI_SCHEMA, SPLITS, features

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


COLUMN_NAMES: ColumnNames = {
    "premise": ("premise", "sentence1", "context", "sentence_A", "premise1 premise2 premise3 premise4"),
    "hypothesis": ("hypothesis", "sentence2", "sentence_B"),
    "label": ("gold_label", "label", "entailment_label", "entailment_judgment"),
    "language": ("language",),
}
NO_LABEL = ("-", "-1", "")  # in official files and on the Hub, if the annotators did not agree
# ANLI has first letters; copies on the Hub and XNLI have numbers; SciTail has "entails".
SPELLINGS = {name: number for number, label in enumerate(NLI_LABELS) for name in (label, label[0], str(number))}
SPELLINGS["entails"] = 0
NO_GOLD = "without a gold label"
OTHER_LANGUAGE = "in another language"
MAX_OTHER_LABELS = 100  # a column with more other values than this does not hold labels
_CAPTION_ID = re.compile(r"\d+\.jpg#\d/")  # before each premise of Multi-Premise Entailment

logger = logging.getLogger(__name__)


def load_nli(source: str) -> DatasetDict:
    """Load an NLI dataset as `premise`, `hypothesis` and `label` (0 entailment, 1 neutral, 2 contradiction).

    Args:
        source: as the command's help describes it, such as a folder with the official
            `snli_1.0_{train,dev,test}.jsonl` (Bowman et al., 2015) or
            `multinli_1.0_{train,dev_matched,dev_mismatched}.jsonl` (Williams et al., 2018). A part of SNLI's train
            named `snli_train_partial.jsonl` is read if the complete file is missing.

    Returns:
        `train`, `validation` (or `validation_matched` and `validation_mismatched`) and `test`, as far as they
        exist; all splits whose names start with `train` are joined. Rows without one of the three labels and lines that
        cannot be read are left out, counted and logged; missing splits are logged.

    Raises:
        InputError: there is nothing to read, a column is missing, a label is invalid, the column `language` has
            several values, or an archive is truncated.
    """
    return _load(source, BrokenLines())[0]


load_evaluation = load_nli  # for `leakage --against nli=SOURCE`


def _load(source: str, broken: BrokenLines, language: str | None = None) -> tuple[DatasetDict, Report]:
    """The splits, and the report: the source, the rows and what was left out of each split.

    Args:
        source: see `load_nli`.
        broken: counts the lines that cannot be read.
        language: the language to read, a value of the column `language`.
    """
    from datasets import DatasetDict

    rows = read_rows(source, COLUMN_NAMES, broken, optional=("language",), label_names=True, cached=True)
    joined: dict[str, list[Rows]] = {}
    for name, part in rows.items():
        split = re.sub(r"^(dev|val|valid)(?![a-z])", "validation", name)
        joined.setdefault("train" if split.startswith("train") else split, []).append(part)
    splits, report = DatasetDict(), Report()
    for split in sorted(joined, key=lambda name: [not name.startswith(prefix) for prefix in SPLITS]):
        splits[split], counts = _labeled_rows(joined[split], f"{source}, split {split}", language)
        no_gold = counts.pop(NO_GOLD, 0)
        report[split] = {"from": source, "rows": len(splits[split]), NO_GOLD: no_gold, **counts}
        logger.info("%s, split %s: %d pairs, %d %s left out", source, split, len(splits[split]), no_gold, NO_GOLD)
        if counts:
            logger.warning("%s, split %s: left out: %s", source, split, dict(counts))
    for split in SPLITS:
        if not any(name.startswith(split) for name in splits):
            logger.warning("%s: no %s split; left out", source, split)
    if broken.counts:
        logger.warning("%s: %d lines left out: %s", source, broken.counts.total(), "; ".join(broken.examples))
    return splits, report


def _labeled_rows(parts: list[Rows], name: str, language: str | None) -> tuple[Dataset, Counter[str]]:
    """The rows with one of the three labels, and the number of rows left out, by reason."""
    from datasets import Dataset

    columns: dict[str, list[Any]] = {name: [] for name in NLI_SCHEMA.names}
    left_out: Counter[str] = Counter()
    languages: Counter[str] = Counter()
    for location, row in (row for part in parts for row in part):
        languages[f"in {row['language']}" if row["language"] else "without a language"] += 1
        if language and row["language"] != language:
            left_out[OTHER_LANGUAGE] += 1
            continue
        premise, hypothesis, label = row["premise"], row["hypothesis"], _label(row["label"], location)
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise InputError(f"{location}: premise and hypothesis must be texts; found {premise!r} and {hypothesis!r}")
        if isinstance(label, str):
            left_out[label] += 1
            if len(left_out) > MAX_OTHER_LABELS:
                raise InputError(
                    f"{location}: {label}; more than {MAX_OTHER_LABELS} different ones: is this the column of labels?"
                )
            continue
        columns["premise"].append(_CAPTION_ID.sub("", premise))
        columns["hypothesis"].append(hypothesis)
        columns["label"].append(label)
    is_found = f"in {language}" in languages if language else len(languages) <= 1
    if not is_found:
        found = ", ".join(f"{number:,} {which}" for which, number in languages.most_common())
        raise InputError(
            f"{name}: {found}, by the column language; name one of them with --language of the command nli"
        )
    if not columns["label"]:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in left_out.items())
        raise InputError(f"{name}: no row has a gold label ({reasons or 'no row'}); expected {', '.join(NLI_LABELS)}")
    return Dataset.from_dict(columns, features=features(NLI_SCHEMA)), left_out


def _label(value: Any, location: str) -> int | str:
    """The number of a label, or the reason why the row is left out."""
    name = str(value).strip().lower()
    if name in NO_LABEL:
        return NO_GOLD
    if name in SPELLINGS:
        return SPELLINGS[name]
    if not isinstance(value, str) or name.lstrip("-").isdecimal():
        raise InputError(f"{location}: label {value!r}; expected {', '.join(NLI_LABELS)}, or - (-1) if there is none")
    return f"labeled {name}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(parser, SOURCE_HELP)
    parser.add_argument("--language", metavar="CODE", help="read the rows with this value in the column language")


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts."""
    write_loaded(args, lambda broken: _load(args.source, broken, args.language))
