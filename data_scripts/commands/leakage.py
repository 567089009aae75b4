"""Remove training texts that occur in evaluation datasets from a folder that another command wrote, and report them.

A text leaks if it equals an evaluation sentence, ignoring case, punctuation, white space and Unicode forms. A row of
FOLDER's train split is removed if one of its texts leaks; an image is removed with all its captions, each of which
counts as a row. The other splits are copied unchanged, and the card gets the new counts. All splits of the datasets in
--against are used, except train. OUTPUT/leakage.json reports the leaks; without --output, they are only printed. Memory
holds the evaluation sentences and 100,000 rows.

With --near_duplicates, a text leaks, too, if it shares most of its character 5-grams with an evaluation sentence (a
Jaccard similarity of 0.7 or more; both texts of more than 20 characters). Texts of the other splits of FOLDER that are
in its train split ("own test") are counted, but not removed; of a split with more than 100,000 such texts, a sample is
looked up. Memory: 3 KB for each evaluation sentence.

--against NAME=SOURCE: if NAME is the command of an evaluation dataset (stsb, sts, nli, snli or cqa), SOURCE is what
that command reads; under another name it is a file, a folder or a Hub name with columns of text (sentence1, question,
caption, text and the like).

Examples: python -m data_scripts leakage data/multi30k --against stsb=mteb/stsbenchmark-sts --against snli=snli_1.0 \\
              -o data/multi30k_clean
          python -m data_scripts leakage data/reddit --near_duplicates
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

from data_scripts.clean.leakage import EvaluationTexts, LeakedRows, text_arrays, text_columns
from data_scripts.files.command_line import add_output_argument, disk_path
from data_scripts.files.dataset_folders import write_report
from data_scripts.files.datasets import existing_folder
from data_scripts.files.errors import InputError, refuse_options
from data_scripts.files.folders import new_folder, verify_dataset
from data_scripts.files.json_files import read_object
from data_scripts.files.storage import resolve_links
from data_scripts.public import load_evaluation_texts
from data_scripts.public.captions import one_caption_a_row
from data_scripts.schemas import CAPTION_SCHEMA

BATCH = 2_000  # rows that are looked up together
ROW_GROUP = 50 * BATCH
HELD_OUT = 100_000  # texts of each split of the dataset itself that are looked up
EXAMPLES = 5  # leaked texts of each evaluation dataset that are reported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "folder", type=disk_path, metavar="FOLDER", help="dataset that another command wrote: train-*.parquet"
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="NAME=SOURCE",
        help="an evaluation dataset, as described above; may be given several times",
    )
    parser.add_argument(
        "--near_duplicates",
        action="store_true",
        help="find near-duplicates, too; without --against, only those of the folder's other splits",
    )
    output_help = "folder to which the remaining rows are written (default: only print the leaks)"
    add_output_argument(parser, output_help, metavar="OUTPUT", required=False)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing OUTPUT")


def run(args: argparse.Namespace) -> None:
    """Look up every training text, print the leaks, and write the remaining rows with leakage.json and the license."""
    if args.output is None:
        refuse_options({"--overwrite": args.overwrite}, "needs --output; without it nothing is written")
    if not args.against and (args.output or not args.near_duplicates):
        raise InputError("--against is missing: name an evaluation dataset, such as stsb=mteb/stsbenchmark-sts")
    files = sorted(existing_folder(args.folder).glob("train-*.parquet"))
    if not files:
        raise InputError(f"{args.folder}: no train-*.parquet; expected a dataset that another command wrote")
    if args.output and resolve_links(args.output) == resolve_links(args.folder):
        raise InputError(f"--output {args.output}: this folder is the one that is read; name another one")
    verify_dataset(args.folder)
    try:
        leaks = _Leaks(args, files)
        leaks.find()
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
    from data_scripts.files.dataset_folders import write_dataset_card
    from data_scripts.files.hub import read_licenses

    with new_folder(args.output, args.overwrite) as (folder, _):
        leaks.remove(folder)
        if leaks.rows.read == leaks.removed:
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
    """The leaks of a folder: their counts, and the first ones in each evaluation dataset."""

    def __init__(self, args: argparse.Namespace, files: list[Path]) -> None:
        self.files = files
        self.evaluation: dict[str, list[str]] = load_evaluation_texts(args.against)
        self.has_captions = set(CAPTION_SCHEMA.names) <= set(pq.read_schema(files[0]).names)
        held_out = _held_out_texts(args.folder) if args.near_duplicates else {}
        if repeated := self.evaluation.keys() & held_out.keys():
            raise InputError(f"--against: the name {min(repeated)} is that of a split of FOLDER; choose another name")
        self.evaluation |= held_out
        texts = EvaluationTexts(self.evaluation)
        near = None
        if args.near_duplicates:
            from data_scripts.clean.near_duplicates import NearDuplicates

            near = NearDuplicates(texts.names_of)
        self.rows = LeakedRows(texts, ["caption"], "group" if self.has_captions else "", near, held_out)
        self.columns: list[str] = []
        self.removed = 0
        # (name, whether it is a near-duplicate) -> the first leaks
        self.examples: defaultdict[tuple[str, bool], list[dict[str, Any]]] = defaultdict(list)

    def find(self) -> None:
        """Look up every text of the files."""
        before = 0
        for path, batch in _read_batches(self.files, "leakage"):
            self.columns = text_columns(batch.column_names, str(path))
            self._find(batch, before)
            before += len(batch)

    def _find(self, batch: pa.Table, before: int) -> None:
        numbers: Sequence[int] = range(len(batch))
        if self.has_captions:
            numbers, batch = pc.list_parent_indices(batch["captions"]).to_pylist(), one_caption_a_row(batch)
        else:
            self.rows.columns = self.columns
        for start in range(0, len(batch), BATCH):
            for leak in self.rows.add(batch.slice(start, BATCH)):
                example = {"row": before + numbers[start + leak.row] + 1, "text": leak.text}
                for name, sentences in leak.sentences.items():
                    if len(examples := self.examples[name, leak.near]) < EXAMPLES:
                        examples.append(example | ({"sentence": min(sentences)} if leak.near else {}))

    def remove(self, folder: Path | None) -> None:
        """Count the rows that are removed, and write the others to files of the same names in `folder`, if given."""
        remaining, before = self.rows.remaining(), 0
        writers: dict[Path, pq.ParquetWriter] = {}
        for path, batch in _read_batches(self.files, "remaining rows"):
            if self.has_captions:
                stays = self.rows.is_remaining(batch["group"])
                lengths = pc.list_value_length(batch["captions"].filter(pc.invert(stays)))
                self.removed += pc.sum(lengths).as_py() or 0
            else:
                stays = remaining.slice(before, len(batch))
                self.removed += len(batch) - pc.sum(stays).as_py()
            before += len(batch)
            rows = batch.filter(stays)
            if folder and len(rows):  # `datasets` cannot read empty files
                if path not in writers:
                    options = {"compression": "zstd", "write_page_checksum": True}
                    writers[path] = pq.ParquetWriter(folder / path.name, rows.schema, **options)
                writers[path].write_table(rows)
        for writer in writers.values():
            writer.close()

    def report(self) -> dict[str, Any]:
        """The content of leakage.json."""
        sets: dict[str, dict[str, Any]] = {}
        for name, sentences in self.evaluation.items():
            exact = self.rows.sentences[name, False]
            sets[name] = {"sentences": len(sentences)} | self._counts(name, exact, False)
            if self.rows.near:
                near = self.rows.sentences[name, True] - exact
                sets[name]["near_duplicates"] = self._counts(name, near, True)
        read, removed = self.rows.read, self.removed
        return {
            "rows": {"read": read, "removed": removed, "kept": read - removed},
            "columns": self.columns,
            "sets": sets,
        }

    def _counts(self, name: str, found: set[str], near: bool) -> dict[str, Any]:
        return {"found": len(found), "rows": self.rows.rows[name, near], "examples": self.examples[name, near]}


def _held_out_texts(folder: Path) -> dict[str, list[str]]:
    """The texts of each split of a dataset but train that can have near-duplicates: "own SPLIT" -> normalized texts."""
    from data_scripts.clean.near_duplicates import sample_long_texts

    splits: defaultdict[str, list[Path]] = defaultdict(list)
    for file in sorted(folder.glob("*.parquet")):
        if not file.name.startswith("train-"):
            splits[file.name.partition("-")[0]].append(file)
    return {f"own {split}": sample_long_texts(_texts(files, split), HELD_OUT) for split, files in splits.items()}


def _texts(files: list[Path], split: str) -> Iterator[str]:
    for path, batch in _read_batches(files, split):
        for _, texts in text_arrays(batch, text_columns(batch.column_names, str(path))):
            yield from (text for text in texts.to_pylist() if text)


def _read_batches(files: list[Path], description: str) -> Iterator[tuple[Path, pa.Table]]:
    """The rows of files, each with its file, with a progress bar."""
    total = sum(pq.read_metadata(file).num_rows for file in files)
    with tqdm(total=total, delay=1, unit="row", unit_scale=True, desc=description) as bar:
        for path in files:
            for batch in pq.ParquetFile(path, page_checksum_verification=True).iter_batches(batch_size=ROW_GROUP):
                yield path, pa.Table.from_batches([batch])
                bar.update(len(batch))


def _format_leaks(report: dict[str, Any]) -> str:
    has_near = any("near_duplicates" in leaked for leaked in report["sets"].values())
    near_titles = f" {'near-duplicates':>16} {'training rows':>14}" if has_near else ""
    lines = [f"{'evaluation dataset':<30} {'sentences':>10} {'in training':>12} {'training rows':>14}{near_titles}"]
    for name, leaked in report["sets"].items():
        line = f"{name:<30} {leaked['sentences']:>10,} {leaked['found']:>12,} {leaked['rows']:>14,}"
        examples = list(leaked["examples"])
        if has_near:
            near = leaked["near_duplicates"]
            line += f" {near['found']:>16,} {near['rows']:>14,}"
            examples += near["examples"]
        lines.append(line)
        for example in examples:
            beside = f"  (near {example['sentence']!r})" if "sentence" in example else ""
            lines.append(f"    row {example['row']}: {example['text']}{beside}")
    rows = report["rows"]
    lines.append(f"{rows['read']:,} rows, {rows['removed']:,} with an evaluation sentence, {rows['kept']:,} without")
    return "\n".join(lines)
