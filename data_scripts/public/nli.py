"""Read natural language inference (SNLI, MultiNLI and others) as premise, hypothesis and label, and write Parquet.

SOURCE is a file, a folder or a dataset on the Hub. In a folder, all .parquet files are read; without any, all .jsonl,
.csv and .tsv files; without these, the .txt files (tab-separated) with a split in their names. File names contain the
split (train, dev, test; dev_matched and dev_mismatched are separate).
Columns: premise, sentence1 or context; hypothesis or sentence2; gold_label or label; SICK's column names work too.
Labels: entailment, neutral, contradiction, or e, n, c, or 0, 1, 2. The four premises of Multi-Premise Entailment are
joined. Rows without a gold label (-, -1) and rows with other labels, such as not_entailment, are left out and counted.
A table with several languages, such as XNLI, is an error.

Examples: convsim data nli stanfordnlp/snli -o data/snli
          convsim data nli nyu-mll/multi_nli -o data/multi_nli
          convsim data nli sentence-transformers/all-nli:pair-class -o data/all_nli
          convsim data nli anli_v1.0/R1 -o data/anli_r1
"""

import re
from collections.abc import Iterator
from typing import Any

from data_scripts.public import Kind, Part
from data_scripts.rows import ColumnNames
from data_scripts.schemas import NLI_LABELS, NLI_SCHEMA
from modeling_convsim.files.errors import InputError

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
MAX_OTHER_LABELS = 100  # a column with more other values than this does not hold labels
_CAPTION_ID = re.compile(r"\d+\.jpg#\d/")  # before each premise of Multi-Premise Entailment


def _pairs(part: Part) -> Iterator[tuple[str, str, int]]:
    """The rows with one of the three labels."""
    part.counts[NO_GOLD] = 0
    languages: set[Any] = set()
    for location, row in part.rows:
        languages.add(row["language"] or None)
        if len(languages) > 1:
            raise InputError(
                f"{location}: not in the same language as the rows before it ({', '.join(sorted(map(str, languages)))} "
                "in the column language); write each language to a separate file"
            )
        premise, hypothesis, label = row["premise"], row["hypothesis"], _label(row["label"], location)
        if not isinstance(premise, str) or not isinstance(hypothesis, str):
            raise InputError(f"{location}: premise and hypothesis must be texts; found {premise!r} and {hypothesis!r}")
        if isinstance(label, str):
            part.counts[label] += 1
            if len(part.counts) > MAX_OTHER_LABELS:
                raise InputError(
                    f"{location}: {label}; more than {MAX_OTHER_LABELS} different ones; is this the label column?"
                )
            continue
        yield _CAPTION_ID.sub("", premise), hypothesis, label


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


KIND = Kind(
    schema=NLI_SCHEMA,
    columns=COLUMN_NAMES,
    convert=_pairs,
    content=f"pair labeled {', '.join(NLI_LABELS)}",
    optional=("language",),
    label_names=True,
)
add_arguments, run = KIND.add_arguments, KIND.run
load_nli = KIND.load
