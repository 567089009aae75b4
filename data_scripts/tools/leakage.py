"""Remove training texts that occur in evaluation datasets from a folder that another command wrote, and report them.

A text leaks if it equals an evaluation sentence, ignoring case, punctuation, white space and Unicode forms. A row of
FOLDER's train split is removed if one of its texts leaks; an image is removed with all its captions. The other splits
are copied unchanged, and the card gets the new counts. All splits of the datasets in --against are used, except train.
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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.clean.text import normalize_text
from data_scripts.commands import find_commands
from data_scripts.errors import InputError, refuse_options
from data_scripts.read.checksums import verify_dataset
from data_scripts.read.hub_datasets import check_parquet, existing_folder, load_columns
from data_scripts.write.folders import new_folder
from data_scripts.write.report import write_report

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

COMMANDS = ("leakage",)
BATCH = 2_000  # rows that are looked up together
ROW_GROUP = 50 * BATCH
EXAMPLES = 5  # leaked texts of each evaluation dataset that are reported
# Columns of text in our datasets and public ones; each row holds a text or a list of texts.
TEXT_COLUMNS = (
    *("input", "response", "premise", "hypothesis", "sentence1", "sentence2", "query", "candidate", "captions"),
    *("sentence", "caption", "sentences", "text", "text1", "text2", "question", "question1", "question2", "related"),
    *("anchor", "positive", "negative", "answer", "caption1", "caption2", "title1", "title2", "body1", "body2"),
    *("post1", "post2", "simplified", "english", "non_english"),
)


def _letter_codes() -> np.ndarray:
    codes = np.zeros(256, np.uint64)
    samples = np.random.default_rng(0).integers(2**64, size=256, dtype=np.uint64)
    for letter in range(128):
        if chr(letter).isalnum():
            codes[letter] = samples[ord(chr(letter).lower())]
    return codes


_LETTER_CODES = _letter_codes()  # byte -> a random number for letters and digits, the same for a and A; else 0


class EvaluationTexts:
    """The normalized sentences of evaluation datasets, held in memory, among which texts are looked up.

    Args:
        evaluation: name of an evaluation dataset -> its sentences. One that is empty when normalized matches nothing.
    """

    def __init__(self, evaluation: Mapping[str, Iterable[str]]) -> None:
        self.names_of: defaultdict[str, set[str]] = defaultdict(set)
        for name, sentences in evaluation.items():
            for sentence in sentences:
                self.names_of[normalize_text(sentence)].add(name)
        self.names_of.pop("", None)
        ascii_forms = pa.array([form for form in self.names_of if form.isascii()], pa.large_string())
        self.letter_sums = np.unique(np.append(_letter_sums(ascii_forms), np.uint64(0)))

    def find(self, texts: pa.Array) -> Iterator[tuple[int, str, set[str]]]:
        """(index, text, names of the evaluation datasets) of each leaked text; `texts` are strings or null."""
        texts = texts.cast(pa.large_string())
        # Normalizing is slow. ASCII texts that are equal after it have the same letters, and few others do.
        sums = _letter_sums(texts)
        positions = np.searchsorted(self.letter_sums, sums)
        suspects = self.letter_sums[np.minimum(positions, len(self.letter_sums) - 1)] == sums
        suspects |= ~pc.fill_null(pc.string_is_ascii(texts), True).to_numpy(zero_copy_only=False)
        for index in np.flatnonzero(suspects).tolist():
            text = texts[index].as_py()
            names = self.names_of.get(normalize_text(text)) if text else None
            if names:
                yield index, text, names

    def find_rows(self, table: pa.Table, columns: list[str]) -> Iterator[tuple[int, str, set[str]]]:
        """(row, text, names of the evaluation datasets) of each leaked text in a table's columns of texts or lists.

        A row occurs once for each of its texts that leaks.
        """
        for name in columns:
            column = table[name].combine_chunks()
            rows = None
            if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
                rows, column = pc.list_parent_indices(column), pc.list_flatten(column)
            for index, text, names in self.find(column):
                yield rows[index].as_py() if rows is not None else index, text, names


def _letter_sums(texts: pa.LargeStringArray) -> np.ndarray:
    """The sum of the codes of each text's ASCII letters and digits, modulo 2^64: (texts,) uint64."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(texts) + 1, 8 * texts.offset)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(_LETTER_CODES[data], out=sums[1:])
    ends = offsets - offsets[0]
    return sums[ends[1:]] - sums[ends[:-1]]


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: Mapping[str, Iterable[str]], group_column: str = ""
) -> tuple[Dataset, dict[str, int]]:
    """Remove the rows in which a text of a column equals an evaluation sentence, both normalized.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to check.
        evaluation: as for `EvaluationTexts`.
        group_column: a column; the rows that share its value with a removed row are removed too, such as the other
            captions of an image.

    Returns:
        The remaining rows in their order, and the number of rows that leak from each evaluation dataset (a row may leak
        from more than one), with the number of rows removed as "removed".
    """
    texts = EvaluationTexts(evaluation)
    counts = dict.fromkeys([*evaluation, "removed"], 0)
    remaining = np.ones(len(dataset), bool)
    tables = dataset.select_columns(columns).with_format("arrow")
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            table = tables[start : start + BATCH]
            for row, names in _names_by_row(texts.find_rows(table, columns)).items():
                remaining[start + row] = False
                for name in names:
                    counts[name] += 1
            bar.update(len(table))
    if group_column:
        groups = dataset.with_format("arrow")[:][group_column]
        remaining &= ~pc.is_in(groups, groups.filter(pa.array(~remaining))).to_numpy()
    counts["removed"] = int(len(remaining) - remaining.sum())
    return dataset.select(np.flatnonzero(remaining)), counts


def _names_by_row(leaks: Iterable[tuple[int, str, set[str]]]) -> dict[int, set[str]]:
    rows: dict[int, set[str]] = {}
    for row, _, names in leaks:
        rows[row] = rows.get(row, set()) | names
    return rows


def _load_evaluation(name: str, source: str) -> DatasetDict:
    """Load a source with the command of this name, if that command reads evaluation datasets."""
    command = find_commands().get(name)
    load = getattr(command.load(), "load_evaluation", None) if command else None
    return load(source) if load else load_columns(source, ())


def text_columns(columns: Iterable[str], location: str) -> list[str]:
    """The columns of a table that hold texts, or lists of them, recognized by their names.

    Raises:
        InputError: there is none; the message begins with `location`.
    """
    available = list(columns)
    texts = [name for name in TEXT_COLUMNS if name in available]
    if not texts:
        raise InputError(
            f"{location}: no column of text; expected some of {', '.join(TEXT_COLUMNS)}; found {', '.join(available)}"
        )
    return texts


def load_evaluation_texts(against: Iterable[str]) -> dict[str, list[str]]:
    """The sentences of each evaluation split of some datasets: "NAME split" -> sentences.

    Args:
        against: NAME=SOURCE, as the command's help describes them.

    Raises:
        InputError: not NAME=SOURCE, a source that cannot be read, or one without an evaluation split.
    """
    sentences: dict[str, list[str]] = {}
    for each in against:
        name, equals, source = each.partition("=")
        if not (name and equals and source):
            raise InputError(f"--against {each}: expected NAME=SOURCE, such as stsb=mteb/stsbenchmark-sts")
        splits = _load_evaluation(name, source)
        evaluation = {split: rows for split, rows in splits.items() if not split.startswith("train")}
        if not evaluation:
            raise InputError(f"--against {each}: has no split for evaluation; found {', '.join(splits)}")
        for split, rows in evaluation.items():
            key = f"{name} {'dev' if split == 'validation' else split}"
            if key in sentences:
                raise InputError(f"--against {each}: the name {name} is used twice; choose another name")
            columns = text_columns(rows.column_names, f"{source}, split {split}")
            sentences[key] = [
                text
                for column in columns
                for value in rows[column]
                for text in (value if isinstance(value, list) else [value])
                if isinstance(text, str)
            ]
    return sentences


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="dataset that another command wrote: train-*.parquet"
    )
    parser.add_argument(
        "--against",
        action="append",
        required=True,
        metavar="NAME=SOURCE",
        help="an evaluation dataset, as described above; may be given several times",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUTPUT",
        help="folder to which the remaining rows are written (default: only print the leaks)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing OUTPUT")


def run(args: argparse.Namespace) -> None:
    """Look up every training text, print the leaks, and write the remaining rows with leakage.json and the license."""
    if args.output is None:
        refuse_options({"--overwrite": args.overwrite}, "needs --output; without it nothing is written")
    files = sorted(existing_folder(args.folder).glob("train-*.parquet"))
    if not files:
        raise InputError(f"{args.folder}: no train-*.parquet; expected a dataset that another command wrote")
    if args.output and args.output.resolve() == args.folder.resolve():
        raise InputError(f"--output {args.output}: this folder is the one that is read; name another one")
    verify_dataset(args.folder)
    check_parquet(files)
    evaluation = load_evaluation_texts(args.against)
    leaks = _Leaks(EvaluationTexts(evaluation))
    if args.output is None:
        _remove_leaks(files, leaks, None)
    else:
        _write_remaining(files, leaks, evaluation, args)
    print(_format_leaks(leaks.report(evaluation)))
    if args.output:
        print(f"saved in {args.output}")


def _write_remaining(
    files: list[Path], leaks: _Leaks, evaluation: dict[str, list[str]], args: argparse.Namespace
) -> None:
    # Imported here, so that --help does not wait for them.
    from data_scripts.write.card import write_dataset_card
    from data_scripts.write.hub import read_licenses

    with new_folder(args.output, args.overwrite) as (folder, _):
        _remove_leaks(files, leaks, folder)
        if leaks.read == leaks.removed:
            raise InputError(f"{args.folder}: every row leaks; is it one of the evaluation datasets?")
        for file in sorted(set(args.folder.glob("*.parquet")) - set(files)):
            shutil.copyfile(file, folder / file.name)
        _write_reports(leaks.report(evaluation), args.folder, folder)
        licenses = read_licenses(args.folder / "README.md")
        write_dataset_card(folder, licenses, f"{args.folder.resolve().name}, without evaluation sentences")


class _Leaks:
    """Counts the leaks, table by table, and remembers the first leaked texts of each evaluation dataset."""

    def __init__(self, texts: EvaluationTexts) -> None:
        self.texts = texts
        self.read = self.removed = 0
        self.columns: list[str] = []
        self.rows: Counter[str] = Counter()
        self.examples: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def remove(self, table: pa.Table) -> pa.Table:
        """Count the leaks in the next table; returns the rows without them."""
        remaining = np.ones(len(table), bool)
        for start in range(0, len(table), BATCH):
            leaks = list(self.texts.find_rows(table.slice(start, BATCH), self.columns))
            for row, names in _names_by_row(leaks).items():
                remaining[start + row] = False
                self.rows.update(names)
            for row, text, names in leaks:
                for name in names:
                    if len(self.examples[name]) < EXAMPLES:
                        self.examples[name].append({"row": self.read + start + row + 1, "text": text})
        self.read += len(table)
        self.removed += len(table) - int(remaining.sum())
        return table.filter(pa.array(remaining))

    def report(self, evaluation: dict[str, list[str]]) -> dict[str, Any]:
        """The content of leakage.json."""
        return {
            "rows": {"read": self.read, "removed": self.removed, "kept": self.read - self.removed},
            "columns": self.columns,
            "sets": {
                name: {"sentences": len(sentences), "rows": self.rows[name], "examples": self.examples[name]}
                for name, sentences in evaluation.items()
            },
        }


def _remove_leaks(files: list[Path], leaks: _Leaks, folder: Path | None) -> None:
    """Check every row, and write those that do not leak to files of the same names in `folder`, if one is given."""
    try:
        _remove_leaks_of_files(files, leaks, folder)
    except pa.ArrowException as error:
        raise InputError(f"{files[0].parent}: a Parquet file cannot be read ({error}); write it again") from error


def _remove_leaks_of_files(files: list[Path], leaks: _Leaks, folder: Path | None) -> None:
    total = sum(pq.read_metadata(file).num_rows for file in files)
    with tqdm(total=total, delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for path in files:
            file = pq.ParquetFile(path, page_checksum_verification=True)
            leaks.columns = text_columns(file.schema_arrow.names, str(path))
            writer = None
            for batch in file.iter_batches(batch_size=ROW_GROUP):
                remaining = leaks.remove(pa.Table.from_batches([batch]))
                if folder and len(remaining):  # `datasets` cannot read empty files
                    writer = writer or pq.ParquetWriter(
                        folder / path.name, file.schema_arrow, compression="zstd", write_page_checksum=True
                    )
                    writer.write_table(remaining)
                bar.update(len(batch))
            if writer:
                writer.close()


def _write_reports(report: dict[str, Any], source: Path, folder: Path) -> None:
    """Write leakage.json, and the report.json of the source with a section of the removed rows."""
    (folder / "leakage.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    path = source / "report.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    write_report(before | {"leakage": report["rows"]}, folder)


def _format_leaks(report: dict[str, Any]) -> str:
    lines = [f"{'evaluation dataset':<30} {'sentences':>10} {'training rows with one':>28}"]
    for name, leaked in report["sets"].items():
        lines.append(f"{name:<30} {leaked['sentences']:>10,} {leaked['rows']:>28,}")
        lines += [f"    row {example['row']}: {example['text']}" for example in leaked["examples"]]
    rows = report["rows"]
    lines.append(f"{rows['read']:,} rows, {rows['removed']:,} with an evaluation sentence, {rows['kept']:,} without")
    return "\n".join(lines)
