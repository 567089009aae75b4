"""Load SNLI from a folder or the Hub, count what is dropped, and write it as Parquet."""

import argparse
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, DatasetDict, Features, Value

from data_scripts.corpora import add_corpus_arguments, find_file, load_columns, write_splits
from data_scripts.errors import InputError
from data_scripts.files import BrokenLines, read_lines
from data_scripts.pairs import new_folder

LABELS = ["entailment", "neutral", "contradiction"]
NLI_FEATURES = Features({"premise": Value("string"), "hypothesis": Value("string"), "label": ClassLabel(names=LABELS)})
FILES = {
    "train": ("snli_1.0_train.jsonl", "snli_train_partial.jsonl"),
    "validation": ("snli_1.0_dev.jsonl",),
    "test": ("snli_1.0_test.jsonl",),
}
FIELDS = ("sentence1", "sentence2", "gold_label")  # of the official files
NO_LABEL = ("-", -1)  # the annotators did not agree: in the official files, in copies on the Hub
NO_GOLD, BROKEN = "without a gold label", "not JSON in UTF-8"
Row = tuple[str, str, str, Any]  # file:line, premise, hypothesis, label

logger = logging.getLogger(__name__)


def load_snli(source: str) -> DatasetDict:
    """SNLI (Bowman et al., 2015) as `premise`, `hypothesis` and `label` (0 entailment, 1 neutral, 2 contradiction).

    Args:
        source: a folder with the official `snli_1.0_{train,dev,test}.jsonl`, plain or compressed (a part of train,
            named `snli_train_partial.jsonl`, is taken where the whole is not there); a folder of Parquet, JSON lines
            or CSV with the three columns; or a Hub id such as `stanfordnlp/snli`.

    Returns:
        `train`, `validation` and `test`, as far as they are there. A missing split, rows without a gold label and
        lines that cannot be read are left out, counted and logged.

    Raises:
        InputError: nothing to read, a column missing, a wrong label, or a truncated archive.
    """
    return _load(source)[0]


def _load(source: str) -> tuple[DatasetDict, dict[str, dict[str, Any]]]:
    """The splits, and for each of them where it is from, what was kept and what was left out."""
    files = {split: find_file(Path(source), *names) for split, names in FILES.items()}
    columns = {} if any(files.values()) else load_columns(source, tuple(NLI_FEATURES))
    splits, report = DatasetDict(), {}
    for split, file in files.items():
        broken = BrokenLines()
        if file is not None:
            rows, origin = _file_rows(file, broken), str(file)
        elif split in columns:
            rows, origin = _column_rows(columns[split], f"{source}, split {split}"), source
        else:
            logger.warning("%s: no %s split; left out", source, split)
            continue
        splits[split], no_label = _labelled(rows, f"{origin}, split {split}")
        report[split] = {"from": origin, "rows": len(splits[split]), NO_GOLD: no_label}
        report[split] |= {BROKEN: broken.counts[BROKEN], "examples": broken.examples}
        logger.info(
            "%s: %d pairs from %s, %d without a gold label left out", split, len(splits[split]), origin, no_label
        )
        if broken.examples:
            logger.warning("%s: %d lines left out: %s", file, broken.counts[BROKEN], "; ".join(broken.examples))
    if not splits:
        raise InputError(f"{source}: has none of the splits {', '.join(FILES)}; found {', '.join(columns)}")
    return splits, report


def _file_rows(path: Path, broken: BrokenLines) -> Iterator[Row]:
    """Rows of an official file; lines that cannot be read are counted in `broken`."""
    for place, line in read_lines(path, (".jsonl",)):
        try:
            fields = json.loads(line)
            values = [fields.get(name) for name in FIELDS] if isinstance(fields, dict) else []
            texts = [value for value in values if isinstance(value, str)]
            if len(texts) < len(FIELDS):
                raise InputError(f"{place}: expected an object with the texts {', '.join(FIELDS)}")
            "".join(texts).encode()  # half of a surrogate pair is valid JSON and no text
        except (ValueError, RecursionError) as error:  # not UTF-8 and not JSON both are ValueErrors
            broken.add(BROKEN, place, str(error))
        else:
            premise, hypothesis, label = texts
            yield place, premise, hypothesis, label


def _column_rows(split: Dataset, name: str) -> Iterator[Row]:
    """Rows of a data set with the columns of NLI_FEATURES, in any order of its own of the three labels."""
    label = split.features["label"]
    own_names = dict(enumerate(label.names if isinstance(label, ClassLabel) else LABELS))
    columns = (split["premise"], split["hypothesis"], split["label"])
    for number, (premise, hypothesis, value) in enumerate(zip(*columns, strict=True), start=1):
        place = f"{name}, row {number}"
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise InputError(f"{place}: premise and hypothesis must be texts; found {premise!r} and {hypothesis!r}")
        yield place, premise, hypothesis, own_names.get(value, value) if isinstance(value, int) else value


def _labelled(rows: Iterable[Row], name: str) -> tuple[Dataset, int]:
    """The rows with a gold label as a data set, and the number of those without."""
    kept: dict[str, list[Any]] = {column: [] for column in NLI_FEATURES}
    no_label = 0
    for place, premise, hypothesis, label in rows:
        if label in NO_LABEL:
            no_label += 1
        elif label in LABELS:
            kept["premise"].append(premise)
            kept["hypothesis"].append(hypothesis)
            kept["label"].append(LABELS.index(label))
        else:
            raise InputError(f"{place}: label {label!r}; expected {', '.join(LABELS)}, or - (-1) where there is none")
    if not kept["label"]:
        raise InputError(f"{name}: not one row with a gold label; expected lines with {', '.join(FIELDS)}")
    return Dataset.from_dict(kept, features=NLI_FEATURES), no_label


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_corpus_arguments(
        parser,
        "folder with snli_1.0_{train,dev,test}.jsonl (plain or .zst, .xz, .gz, .bz2) or with Parquet of premise, "
        "hypothesis, label; or a Hub id, for example stanfordnlp/snli",
    )


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts."""
    with new_folder(args.output, args.overwrite) as (folder, _):
        splits, report = _load(args.source)
        write_splits(splits, report, folder)
    for split, counts in report.items():
        left_out = ", ".join(f"{counts[reason]:,} {reason}" for reason in (NO_GOLD, BROKEN))
        print(f"{split}: {counts['rows']:,} pairs from {counts['from']}; left out: {left_out}")
    print(f"saved in {args.output}")
