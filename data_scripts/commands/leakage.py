"""Remove training texts that occur in evaluation datasets from a folder that another command wrote, and report them.

A text leaks if it equals an evaluation sentence, ignoring case, punctuation, white space and Unicode forms. A row of
FOLDER's train split, such as an image with its captions, is removed if one of its texts leaks. The other splits are
copied unchanged, and the card gets the new counts. All splits of the datasets in --against are used, except train.
OUTPUT/leakage.json reports the leaks; without --output, they are only printed. Memory holds the evaluation sentences
and 100,000 rows.

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
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.clean.leakage import Leakage, text_columns
from data_scripts.dataset_folders import write_dataset_card, write_report
from data_scripts.files.command_line import add_output_argument, disk_path
from data_scripts.files.errors import InputError, refuse_options
from data_scripts.files.folders import new_folder
from data_scripts.files.hub import read_licenses
from data_scripts.files.json_files import read_object
from data_scripts.files.parquet import BatchWriter, parquet_writer
from data_scripts.files.storage import resolve_links
from data_scripts.loading import existing_folder
from data_scripts.public import load_evaluation_texts

BATCH_ROWS = 100_000  # that are looked up together


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
    files = sorted(existing_folder(args.folder).glob("train-*.parquet"))
    if not files:
        raise InputError(f"{args.folder}: no train-*.parquet; expected a dataset that another command wrote")
    if args.output and resolve_links(args.output) == resolve_links(args.folder):
        raise InputError(f"--output {args.output}: this folder is the one that is read; name another one")
    try:
        evaluation = load_evaluation_texts(args.against)
        if args.output is None:
            report = _remove(files, evaluation, None)
        else:
            with new_folder(args.output, args.overwrite) as (folder, _):
                report = _remove(files, evaluation, folder)
                _complete(folder, args.folder, files, report)
    except pa.ArrowException as error:
        raise InputError(f"{args.folder}: a Parquet file cannot be read ({error}); write it again") from error
    print(_format_leaks(report))
    if args.output:
        print(f"saved in {args.output}")


def _remove(files: list[Path], evaluation: dict[str, list[str]], folder: Path | None) -> dict[str, Any]:
    """Write the rows without an evaluation sentence to files of the same names; returns the content of leakage.json."""
    leakage, kept, columns = Leakage(evaluation), 0, list[str]()
    total = sum(pq.read_metadata(file).num_rows for file in files)
    with tqdm(total=total, delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for path in files:
            with ExitStack() as stack:
                writer: BatchWriter | None = None
                for batch in pq.ParquetFile(path, page_checksum_verification=True).iter_batches(BATCH_ROWS):
                    table = pa.Table.from_batches([batch])
                    columns = text_columns(table.column_names, str(path))
                    rows = table.filter(pa.array(~leakage.find(table, columns)))
                    if folder and len(rows):  # `datasets` cannot read empty files
                        writer = writer or stack.enter_context(parquet_writer(folder / path.name, rows.schema))
                        writer.add_table(rows)
                    kept += len(rows)
                    bar.update(len(table))
    sets = {
        name: {
            "sentences": len(sentences),
            "found": len(leakage.sentences[name]),
            "rows": leakage.rows[name],
            "examples": leakage.examples[name],
        }
        for name, sentences in evaluation.items()
    }
    return {"rows": {"read": total, "removed": total - kept, "kept": kept}, "columns": columns, "sets": sets}


def _complete(folder: Path, source: Path, files: list[Path], report: dict[str, Any]) -> None:
    """Add the other splits, the reports and the card to what remains of the training files."""
    if not report["rows"]["kept"]:
        raise InputError(f"{source}: every row leaks; is it one of the evaluation datasets?")
    for file in sorted(set(source.glob("*.parquet")) - set(files)):
        shutil.copyfile(file, folder / file.name)
    (folder / "leakage.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    before = read_object(source / "report.json") if (source / "report.json").is_file() else {}
    write_report(before | {"leakage": report["rows"]}, folder)
    title = f"{source.resolve().name}, without evaluation sentences"
    write_dataset_card(folder, read_licenses(source / "README.md"), title)


def _format_leaks(report: dict[str, Any]) -> str:
    lines = [f"{'evaluation dataset':<30} {'sentences':>10} {'in training':>12} {'training rows':>14}"]
    for name, leaked in report["sets"].items():
        lines.append(f"{name:<30} {leaked['sentences']:>10,} {leaked['found']:>12,} {leaked['rows']:>14,}")
        lines += [f"    row {example['row']}: {example['text']}" for example in leaked["examples"]]
    rows = report["rows"]
    lines.append(f"{rows['read']:,} rows, {rows['removed']:,} with an evaluation sentence, {rows['kept']:,} without")
    return "\n".join(lines)
