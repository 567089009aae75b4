"""Remove training texts that occur in evaluation datasets from a folder that another command wrote, and report them.

A text leaks if it equals an evaluation sentence, ignoring case, punctuation, white space and Unicode forms. A row of
FOLDER's train split, such as an image with its captions, is removed if one of its texts leaks. The other splits are
copied unchanged, and the card gets the new counts. All splits of the datasets in --against are used, except train.
OUTPUT/leakage.json reports the leaks; without --output, they are only printed. Memory holds the evaluation sentences.
A run of the trainer does the same with its evaluation datasets.

--against NAME=SOURCE: if NAME is the command of an evaluation dataset (stsb, sts, nli, snli or cqa), SOURCE is what
that command reads; under another name it is a file, a folder or a Hub name with columns of text (sentence1, question,
caption, text and the like).

Example: python -m data_scripts leakage data/multi30k --against stsb=mteb/stsbenchmark-sts --against snli=snli_1.0 \\
             -o data/multi30k_clean
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.clean.leakage import remove_leaked, text_columns
from data_scripts.dataset_folders import format_table, split_file, write_dataset_card, write_report
from data_scripts.loading import existing_folder, load_columns
from data_scripts.public import load_evaluation_texts
from modeling_convsim.files.command_line import add_output_argument, disk_path
from modeling_convsim.files.errors import InputError, refuse_options
from modeling_convsim.files.folders import check_replaceable, new_folder
from modeling_convsim.files.hub import read_licenses
from modeling_convsim.files.json_files import read_object
from modeling_convsim.files.parquet import parquet_writer
from modeling_convsim.files.storage import resolve_links

if TYPE_CHECKING:
    from datasets import Dataset

BATCH_ROWS = 100_000  # that are written together


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "folder", type=disk_path, metavar="FOLDER", help="dataset that another command wrote: train-*.parquet"
    )
    parser.add_argument(
        "--against",
        action="append",
        required=True,
        metavar="NAME=SOURCE",
        help="an evaluation dataset, as described above; may be given several times",
    )
    output_help = "folder to which the remaining rows are written (default: only print the leaks)"
    add_output_argument(parser, output_help, metavar="OUTPUT", required=False)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing OUTPUT")


def run(args: argparse.Namespace) -> None:
    """Look up every training text, print the leaks, and write the remaining rows with leakage.json and the license."""
    if args.output is None:
        refuse_options({"--overwrite": args.overwrite}, "needs --output; without it nothing is written")
    elif resolve_links(args.output) == resolve_links(args.folder):
        raise InputError(f"--output {args.output}: this folder is the one that is read; name another one")
    else:
        check_replaceable(args.output, args.overwrite)  # before the work
    folder = existing_folder(args.folder)
    evaluation = load_evaluation_texts(args.against)
    splits = load_columns(str(folder), ())
    if "train" not in splits:
        raise InputError(f"{args.folder}: no train-*.parquet; expected a dataset that another command wrote")
    train = splits["train"]
    columns = text_columns(train.column_names, f"{args.folder}, split train")
    kept, leaks = remove_leaked(train, columns, evaluation)
    rows = {"read": len(train), "removed": leaks.pop("removed"), "kept": len(kept)}
    sentences = {name: len(texts) for name, texts in evaluation.items()}
    if args.output:
        with new_folder(args.output, args.overwrite) as (new, _):
            report = {"rows": rows, "columns": columns, "sentences": sentences, "sets": leaks}
            _write(new, args.folder, kept, report)
    print(format_table({"rows": rows, "evaluation sentences": sentences, "rows with one": leaks}))
    if args.output:
        print(f"saved in {args.output}")


def _write(folder: Path, source: Path, kept: Dataset, report: dict[str, Any]) -> None:
    """Write the rows that are kept, the other splits, the reports and the card."""
    if not len(kept):
        raise InputError(f"{source}: every row leaks; is it one of the evaluation datasets?")
    with parquet_writer(split_file(folder, "train"), kept.features.arrow_schema) as writer:
        for table in kept.with_format("arrow").iter(BATCH_ROWS):
            writer.add_table(table)
    for file in source.glob("*.parquet"):
        if not file.name.startswith("train-"):
            shutil.copyfile(file, folder / file.name)
    (folder / "leakage.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    before = read_object(source / "report.json") if (source / "report.json").is_file() else {}
    write_report(before | {"leakage": report["rows"]}, folder)
    title = f"{source.resolve().name}, without evaluation sentences"
    write_dataset_card(folder, read_licenses(source / "README.md"), title)
