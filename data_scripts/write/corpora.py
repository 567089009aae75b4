"""What the readers of public corpora share: files, folders and Hub names as rows of splits, and Parquet output."""

import argparse
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
from datasets import ClassLabel, Dataset, DatasetDict
from datasets.exceptions import DatasetsError
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.read.files import UNPACK, BrokenLineError, BrokenLines, decode, new_folder, parquet_writer, read_lines
from data_scripts.read.records import Records, check_records, form_of, read_records
from data_scripts.write.hub import check_license

TEXT_TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")
SOURCE_HELP = (
    "a folder of .parquet, .jsonl, .csv or .tsv, or one such file (also .txt; text compressed or not); or a Hub id: "
    "OWNER/NAME, OWNER/NAME:CONFIG where it has several configurations, OWNER/NAME@REVISION"
)
ColumnNames = dict[str, tuple[str, ...]]
Rows = Iterator[tuple[str, dict[str, Any]]]

_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}\.parquet")  # of a split, as `datasets` and our commands name them
_SPLIT = re.compile(r"(?<![a-z])(train|dev|validation|valid|val|test)(?:set|ing)?(_(?:mis)?matched)?(?![a-z])", re.I)
_SPLIT_NAMES = {"train": "train", "test": "test"}  # the others are validation


def find_file(folder: Path, *names: str) -> Path | None:
    """The first of `names` that is in `folder`, plain or compressed (.bz2, .zst, .xz, .gz)."""
    candidates = (folder / f"{name}{suffix}" for name in names for suffix in ("", *UNPACK))
    return next((path for path in candidates if path.is_file()), None)


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    r"""(file:line, text) of each line of a UTF-8 file, plain or compressed, without \n or \r\n.

    Raises:
        InputError: a line is not UTF-8, or the file cannot be read to its end.
    """
    for place, line in read_lines(path, (".csv", ".jsonl", ".txt", ".en", ".relevancy")):
        try:
            yield place, decode(line.removesuffix(b"\r"))
        except BrokenLineError as error:
            raise InputError(f"{place}: {error.args[0]} ({error.args[1]}): convert the file to UTF-8 first") from error


def existing_folder(source: str | Path) -> Path:
    """`source` as a folder that is there, or an InputError."""
    folder = Path(source)
    if not folder.is_dir():
        raise InputError(f"{source}: {'a file, expected a folder' if folder.exists() else 'no such folder'}")
    return folder


def is_path(source: str) -> bool:
    """Whether a source is a path and no Hub id: it is written like one, or the folder that it starts with is here."""
    return source.startswith(("/", ".", "~")) or Path(source.partition("/")[0]).exists()


def split_named(name: str) -> str:
    """The split that a file's name speaks of: train, validation (also `_matched`, `_mismatched`), test; else train."""
    found = _SPLIT.search(name)
    return _SPLIT_NAMES.get(found[1].lower(), "validation") + (found[2] or "").lower() if found else "train"


def load_columns(source: str, columns: tuple[str, ...]) -> DatasetDict:
    """Load a folder of Parquet, JSON lines or CSV, a Parquet file, or a data set of the Hub, that has some columns.

    Args:
        source: a path; or OWNER/NAME on the Hub, with `:CONFIG` or `@REVISION` after it where needed. Files named
            `SPLIT-00000-of-00001.parquet`, as our commands write them, are that split; other names say it as
            `datasets` reads them.
        columns: what each split must have.

    Raises:
        InputError: neither a folder nor a data set that the Hub gives, or a column is missing.
    """
    path = Path(source)
    if is_path(source) and not path.is_file():
        existing_folder(source)
    arguments: list[Any] = [source]
    options: dict[str, Any] = {}
    if is_path(source):
        reason = "nothing in it can be read as a data set" + (f" with {', '.join(columns)}" if columns else "")
        if files := _parquet_files(path):
            arguments, options = ["parquet"], {"data_files": files}
    else:
        reason = "no such folder here, and the Hub does not give a data set of this name"
        name, _, revision = source.partition("@")
        arguments = name.split(":", 1)
        options = {"revision": revision} if revision else {}
    try:
        splits = datasets.load_dataset(*arguments, **options)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        if "scripts are no longer supported" in str(error):
            reason = f"a script makes it; the Hub's own copy in Parquet may do: {source}@refs/convert/parquet"
        raise InputError(f"{source}: {reason} ({error})") from error
    for name, split in splits.items():
        missing = [column for column in columns if column not in split.column_names]
        if missing:
            raise InputError(
                f"{source}: split {name} has no column {', '.join(missing)}; expected {', '.join(columns)}, "
                f"found {', '.join(split.column_names)}"
            )
    return splits


def _parquet_files(path: Path) -> dict[str, list[str]]:
    """Split -> files, of one Parquet file or of a folder whose Parquet files all have a split's name."""
    if path.is_file():
        return {split_named(path.stem): [str(path)]}
    files: dict[str, list[str]] = {}
    for file in sorted(path.glob("*.parquet")):
        found = _SHARD.fullmatch(file.name)
        if not found:
            return {}
        files.setdefault(found[1], []).append(str(file))
    return files


def read_rows(
    source: str,
    names: ColumnNames,
    broken: BrokenLines,
    *,
    optional: tuple[str, ...] = (),
    label_names: bool = False,
) -> dict[str, Rows]:
    """The rows of each split of a file, of the files in a folder, or of a data set of the Hub; each can be read once.

    Memory holds a few thousand rows of them. Lines that are no record are counted in `broken`.

    Args:
        source: what `SOURCE_HELP` says. A text file's split is the one in its name (`split_named`).
        names: role -> the columns that may have it, of which the first that is there counts. Names with spaces between
            are columns whose texts are joined.
        broken: counts the lines that are no record.
        optional: roles that no column needs to have; their value is None then.
        label_names: give the values of a ClassLabel column by name; -1 stays.

    Returns:
        Split -> rows: (place, role -> value).

    Raises:
        InputError: nothing to read or a column missing, at once or when the row is read.
    """
    files = _text_tables(source)
    if not files:
        splits = load_columns(source, ())
        return {name: _data_set_rows(source, name, splits[name], names, optional, label_names) for name in splits}
    rows: dict[str, Rows] = {}
    for file in files:
        split = split_named(file.name)
        rows[split] = chain(rows.get(split, ()), _record_rows(file, names, broken, optional))
    return rows


def _text_tables(source: str) -> list[Path]:
    path = Path(source)
    if path.is_file():
        if form_of(path) == ".parquet":
            return []
        if form_of(path) != ".txt":
            check_records(path)
        return [path]
    files = sorted(file for file in path.glob("*") if form_of(file) in TEXT_TABLES) if path.is_dir() else []
    whole = any(file.name.startswith("snli_1.0_train.") for file in files)
    return [file for file in files if not (whole and file.name.startswith("snli_train_partial."))]


def _columns_of(
    found: Iterable[str], place: str, names: ColumnNames, optional: tuple[str, ...]
) -> dict[str, list[str]]:
    """Role -> the columns that have it."""
    found = list(found)
    chosen = {}
    for role, accepted in names.items():
        columns = next((name.split() for name in accepted if set(name.split()) <= set(found)), None)
        if columns:
            chosen[role] = columns
    missing = [role for role in names if role not in chosen and role not in optional]
    if missing:
        expected = "; ".join(
            accepted[0] + (f" (or {', '.join(accepted[1:])})" if accepted[1:] else "")
            for role, accepted in names.items()
            if role not in optional
        )
        raise InputError(f"{place}: no column {', '.join(missing)}; expected {expected}; found {', '.join(found)}")
    return chosen


def _value(fields: dict[str, Any], columns: list[str] | None) -> Any:
    if not columns:
        return None
    values = [fields.get(name) for name in columns]
    return values[0] if len(values) == 1 else " ".join(map(str, values))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _texts(value)


def _record_rows(path: Path, names: ColumnNames, broken: BrokenLines, optional: tuple[str, ...]) -> Rows:
    records = _tab_separated(path, broken) if form_of(path) == ".txt" else read_records(path, broken)
    chosen = _columns_of(records.columns, records.place, names, optional)
    keys: Any = records.columns
    for place, fields in records.rows({name for columns in chosen.values() for name in columns}):
        if not records.complete and fields.keys() != keys:
            keys = fields.keys()
            chosen = _columns_of(keys, place, names, optional)
        values = {role: _value(fields, chosen.get(role)) for role in names}
        try:
            if not records.complete:  # half of a surrogate pair is valid JSON and no text
                "".join(_texts(values.values())).encode()
        except UnicodeEncodeError:
            broken.add("not UTF-8", place, "half of a surrogate pair")
        else:
            yield place, values


def _tab_separated(path: Path, broken: BrokenLines) -> Records:
    """The records of a .txt file, which is a .tsv file by another name: so SNLI and Multi-Premise Entailment come."""
    lines = text_lines(path)
    place, header = next(lines)
    columns = header.split("\t")

    def rows(wanted: set[str]) -> Rows:
        for place, line in lines:
            fields = line.split("\t")
            if len(fields) == len(columns):
                yield place, dict(zip(columns, fields, strict=True))
            else:
                broken.add("wrong number of fields", place, f"expected {len(columns)}, found {len(fields)}")

    return Records(place, columns, True, rows)


def _data_set_rows(
    source: str, split: str, rows: Dataset, names: ColumnNames, optional: tuple[str, ...], label_names: bool
) -> Rows:
    place = f"{source}, split {split}"
    chosen = _columns_of(rows.column_names, place, names, optional)
    columns = list(dict.fromkeys(name for columns in chosen.values() for name in columns))
    labels = {name: rows.features[name] for name in columns if isinstance(rows.features[name], ClassLabel)}
    number = 0
    with tqdm(total=len(rows), delay=1, unit="row", unit_scale=True, desc=split) as bar:
        for batch in rows.select_columns(columns).iter(1000):
            for values in zip(*(batch[name] for name in columns), strict=True):
                number += 1
                fields = dict(zip(columns, values, strict=True))
                if label_names:
                    for name, label in labels.items():
                        if fields[name] is not None and fields[name] >= 0:
                            fields[name] = label.int2str(fields[name])
                yield f"{place}, row {number}", {role: _value(fields, chosen.get(role)) for role in names}
            bar.update(len(batch[columns[0]]))


def add_corpus_arguments(parser: argparse.ArgumentParser, source_help: str) -> None:
    """Declare the options of a command that writes a public corpus as Parquet."""
    parser.add_argument("source", help=source_help)
    add_output_argument(parser)
    parser.add_argument(
        "--license",
        metavar="ID",
        help="the corpus's licence for its card and those of models trained on it, as the Hub spells it (such as "
        "cc-by-sa-4.0, or other)",
    )


@contextmanager
def corpus_folder(args: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """`files.new_folder` for the options of `add_corpus_arguments`; what the block wrote gets a card.

    Raises:
        InputError: as `new_folder`, or --license is none.
    """
    from data_scripts.write.card import write_corpus_card  # its libraries take a while

    if args.license is not None:
        check_license("--license", args.license)
    with new_folder(args.output, args.overwrite) as (folder, scratch):
        yield folder, scratch
        source = Path(args.source).resolve().name if is_path(args.source) else args.source
        write_corpus_card(folder, [args.license] if args.license else [], source)


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Declare where the splits are written."""
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the splits are written"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a folder that this command wrote before")


def write_splits(splits: DatasetDict, report: dict[str, Any], folder: Path) -> None:
    """Write a Parquet file for each split and report.json; `load_columns` reads the splits back."""
    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()  # one for each of these small files says nothing
    for name, split in splits.items():
        split.to_parquet(split_file(folder, name))
    if not hidden:
        datasets.enable_progress_bars()
    write_report(report, folder)


def split_file(folder: Path, split: str) -> Path:
    """The Parquet file of a split."""
    return folder / f"{split}-00000-of-00001.parquet"


def write_rows(rows: Iterable[tuple], schema: pa.Schema, path: Path, size: Callable[[tuple], int]) -> int:
    """Write rows as they come to a Parquet file; memory holds `files.BATCH_BYTES` of text. The number of rows.

    Args:
        rows: values in the order of the schema.
        schema: the columns.
        path: the file.
        size: the characters of a row, about.
    """
    with parquet_writer(path, schema) as writer:
        for row in rows:
            writer.add(row, size(row))
        return writer.added


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write report.json."""
    (folder / "report.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def add_broken_lines(report: dict[str, Any], broken: BrokenLines) -> None:
    """Add the lines that were left out, where there are any, to a report."""
    if broken.counts:
        report["lines left out"] = dict(broken.counts)
        report["first lines left out"] = broken.examples


def print_report(report: dict[str, Any], output: Path) -> None:
    """Print a report: split or section -> counts."""
    for section, content in report.items():
        if isinstance(content, list):
            print(f"{section}:", *(f"  {line}" for line in content), sep="\n")
            continue
        shown = (
            f"{value:,} {name}" if isinstance(value, int) else f"{name} {value}" for name, value in content.items()
        )
        print(f"{section}: {', '.join(shown)}")
    print(f"saved in {output}")
