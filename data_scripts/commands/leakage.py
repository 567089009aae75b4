"""Remove training texts that occur in evaluation datasets from a folder that another command wrote, and report them.

A text leaks if it equals an evaluation sentence, ignoring case, punctuation, white space and Unicode forms. A row of
FOLDER's train split is removed if one of its texts leaks; an image is removed with all its captions, each of which
counts as a row. The other splits are copied unchanged, and the card gets the new counts. All splits of the datasets in
--against are used, except train. OUTPUT/leakage.json reports the leaks; without --output, they are only printed. Memory
holds the evaluation sentences and 100,000 rows.

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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.clean.leakage import LeakedRows, text_columns
from data_scripts.dataset_folders import write_report
from data_scripts.files.command_line import add_output_argument, disk_path
from data_scripts.files.errors import InputError, refuse_options
from data_scripts.files.folders import new_folder
from data_scripts.files.json_files import read_object
from data_scripts.files.storage import resolve_links
from data_scripts.loading import existing_folder
from data_scripts.public import load_evaluation_texts
from data_scripts.public.captions import one_caption_a_row
from data_scripts.schemas import CAPTION_SCHEMA

ROW_GROUP = 100_000
EXAMPLES = 5  # leaked texts of each evaluation dataset that are reported


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
        leaks = _Leaks(files, load_evaluation_texts(args.against))
        if args.output is None:
            leaks.remove(None)
        else:
            _write_remaining(leaks, args)
    except pa.ArrowException as error:
        raise InputError(f"{args.folder}: a Parquet file cannot be read ({error}); write it again") from error
    print(_format_leaks(leaks.report()))
    if args.output:
        print(f"saved in {args.output}")


def _write_remaining(leaks: _Leaks, args: argparse.Namespace) -> None:
    # Imported here, so that --help does not wait for them.
    from data_scripts.dataset_folders import write_dataset_card
    from data_scripts.files.hub import read_licenses

    with new_folder(args.output, args.overwrite) as (folder, _):
        leaks.remove(folder)
        if not leaks.kept:
            raise InputError(f"{args.folder}: every row leaks; is it one of the evaluation datasets?")
        for file in sorted(set(args.folder.glob("*.parquet")) - set(leaks.files)):
            shutil.copyfile(file, folder / file.name)
        report, path = leaks.report(), args.folder / "report.json"
        (folder / "leakage.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        before = read_object(path) if path.is_file() else {}
        write_report(before | {"leakage": report["rows"]}, folder)
        licenses = read_licenses(args.folder / "README.md")
        write_dataset_card(folder, licenses, f"{args.folder.resolve().name}, without evaluation sentences")


class _Leaks:
    """The leaks of a dataset's training files: their counts, and the first ones in each evaluation dataset."""

    def __init__(self, files: list[Path], evaluation: dict[str, list[str]]) -> None:
        self.files, self.evaluation = files, evaluation
        self.has_captions = set(CAPTION_SCHEMA.names) <= set(pq.read_schema(files[0]).names)
        self.rows = LeakedRows(evaluation, "group" if self.has_captions else "")
        self.columns: list[str] = []
        self.examples: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.kept = before = 0
        for path, batch in _read_batches(files, "leakage"):
            self.columns = text_columns(batch.column_names, str(path))
            numbers: Sequence[int] = range(len(batch))
            rows, columns = batch, self.columns
            if self.has_captions:
                numbers = pc.list_parent_indices(batch["captions"]).to_pylist()
                rows, columns = one_caption_a_row(batch), ["caption"]
            for leak in self.rows.add(rows, columns):
                for name in leak.names:
                    if len(self.examples[name]) < EXAMPLES:
                        self.examples[name].append({"row": before + numbers[leak.row] + 1, "text": leak.text})
            before += len(batch)

    def remove(self, folder: Path | None) -> None:
        """Count the rows that remain, and write them to files of the same names in `folder`, if given."""
        remaining, before = self.rows.remaining(), 0
        writers: dict[Path, pq.ParquetWriter] = {}
        for path, batch in _read_batches(self.files, "remaining rows"):
            if self.has_captions:
                rows = batch.filter(self.rows.is_remaining(batch["group"]))
                self.kept += pc.sum(pc.list_value_length(rows["captions"])).as_py() or 0
            else:
                rows = batch.filter(remaining.slice(before, len(batch)))
                self.kept += len(rows)
            before += len(batch)
            if folder and len(rows):  # `datasets` cannot read empty files
                if path not in writers:
                    options = {"compression": "zstd", "write_page_checksum": True}
                    writers[path] = pq.ParquetWriter(folder / path.name, rows.schema, **options)
                writers[path].write_table(rows)
        for writer in writers.values():
            writer.close()

    def report(self) -> dict[str, Any]:
        """The content of leakage.json."""
        sets = {
            name: {
                "sentences": len(sentences),
                "found": len(self.rows.sentences[name]),
                "rows": self.rows.rows[name],
                "examples": self.examples[name],
            }
            for name, sentences in self.evaluation.items()
        }
        read, kept = self.rows.read, self.kept
        return {"rows": {"read": read, "removed": read - kept, "kept": kept}, "columns": self.columns, "sets": sets}


def _read_batches(files: list[Path], description: str) -> Iterator[tuple[Path, pa.Table]]:
    """The rows of files, each with its file, with a progress bar."""
    total = sum(pq.read_metadata(file).num_rows for file in files)
    with tqdm(total=total, delay=1, unit="row", unit_scale=True, desc=description) as bar:
        for path in files:
            for batch in pq.ParquetFile(path, page_checksum_verification=True).iter_batches(batch_size=ROW_GROUP):
                yield path, pa.Table.from_batches([batch])
                bar.update(len(batch))


def _format_leaks(report: dict[str, Any]) -> str:
    lines = [f"{'evaluation dataset':<30} {'sentences':>10} {'in training':>12} {'training rows':>14}"]
    for name, leaked in report["sets"].items():
        lines.append(f"{name:<30} {leaked['sentences']:>10,} {leaked['found']:>12,} {leaked['rows']:>14,}")
        lines += [f"    row {example['row']}: {example['text']}" for example in leaked["examples"]]
    rows = report["rows"]
    lines.append(f"{rows['read']:,} rows, {rows['removed']:,} with an evaluation sentence, {rows['kept']:,} without")
    return "\n".join(lines)
