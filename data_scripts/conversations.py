"""Turn ready pairs of an input and a response (TSV or Parquet) into a filtered, split folder of pairs.

A file has the columns input and response and, where they are known, thread and source (default: the file's name).
TSV has a header line, tabs between columns and no quoting, and may be compressed (.xz, .gz, .bz2, .zst). Where no
thread is given, pairs of one source that share a text of more than 20 characters count as one thread. The filters are
those of the reddit command, except the one for authors. What each rule removes is counted, printed and written to
OUTPUT/report.json.

Example: python -m data_scripts conversations chats.tsv.xz more.parquet --output data/chats
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.files import (
    UNPACK,
    BatchWriter,
    BrokenLineError,
    BrokenLines,
    check_file,
    decode,
    parquet_writer,
    read_lines,
)
from data_scripts.filters import KEPT, count, first_rule, measure, rules
from data_scripts.pairs import (
    PAIR_SCHEMA,
    add_output_arguments,
    component_threads,
    new_folder,
    start_report,
    write_pairs,
)

FORMS = (".tsv", ".parquet")
READ_SCHEMA = pa.schema(
    [
        ("input", pa.string()),
        ("input_characters", pa.int32()),
        ("input_alphabetic", pa.int32()),
        ("response", pa.string()),
        ("response_characters", pa.int32()),
        ("response_alphabetic", pa.int32()),
        ("thread", pa.string()),
        ("source", pa.string()),
    ]
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="pairs in .tsv (compressed or not) or .parquet"
    )
    add_output_arguments(parser)
    parser.add_argument(
        "--filters",
        choices=("paper", "none"),
        default="paper",
        help="paper: the rules of Yang et al. (2018) on both texts (default); none: only deleted and empty texts go",
    )


def _check_columns(place: str, columns: list[str]) -> None:
    if not {"input", "response"} <= set(columns):
        raise InputError(
            f"{place}: the columns are {', '.join(columns)}; expected a header that names input and response "
            "(and thread and source, where known), with tabs between in a TSV file"
        )


def _tsv_rows(path: Path, broken: BrokenLines) -> Iterator[tuple[str, int, dict[str, str]]]:
    columns: list[str] = []
    for place, line in read_lines(path, FORMS):
        try:
            fields = decode(line.removesuffix(b"\r")).split("\t")
            if not columns:
                columns = fields
                _check_columns(place, columns)
                continue
            if len(fields) != len(columns):
                raise BrokenLineError("wrong number of fields", f"expected {len(columns)}, found {len(fields)}")
            yield place, len(line), dict(zip(columns, fields, strict=True))
        except BrokenLineError as error:
            broken.add(error.args[0], place, error.args[1])


def _parquet_rows(path: Path) -> Iterator[tuple[str, int, dict[str, str]]]:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error})") from error
    _check_columns(str(path), file.schema_arrow.names)
    columns = [name for name in PAIR_SCHEMA.names if name in file.schema_arrow.names]
    row = 0
    with tqdm(total=file.metadata.num_rows, unit="row", unit_scale=True, desc=path.name) as bar:
        for batch in file.iter_batches(batch_size=10_000, columns=columns):
            for fields in batch.to_pylist():
                row += 1
                yield f"{path}: row {row}", batch.nbytes // len(batch), fields
            bar.update(len(batch))


def _read(path: Path, writer: BatchWriter, broken: BrokenLines) -> None:
    name = (path.with_suffix("") if path.suffix in UNPACK else path).stem
    before, own = writer.added, BrokenLines()
    for place, size, fields in _parquet_rows(path) if path.suffix == ".parquet" else _tsv_rows(path, own):
        texts = fields["input"], fields["response"]
        if not all(isinstance(text, str) for text in texts):
            own.add("wrong type", place, "input and response should be texts")
            continue
        thread, source = fields.get("thread"), fields.get("source")
        row = (*measure(texts[0]), *measure(texts[1]), str(thread) if thread else None, str(source or name))
        writer.add(row, size)
    if writer.added == before:
        raise InputError("; ".join([f"{path}: no pair in it", *own.examples[:1]]))
    broken.join(own)


def _with_threads(pairs: pa.Table) -> pa.Table:
    bare = pc.is_null(pairs["thread"])
    known, unknown = pairs.filter(pc.invert(bare)), pairs.filter(bare)
    at = pairs.column_names.index("thread")
    threads = component_threads(unknown).cast(known.schema.field(at).type)
    return pa.concat_tables([known, unknown.set_column(at, "thread", threads)])


def run(args: argparse.Namespace) -> None:
    """Read the pairs, filter, split and write."""
    for path in args.files:
        check_file(path, FORMS)
    broken = BrokenLines()
    with new_folder(args.output, args.overwrite) as (folder, scratch):
        with parquet_writer(scratch / "read.parquet", READ_SCHEMA) as writer:
            for path in args.files:
                _read(path, writer, broken)
        report = start_report("conversations", args.files, args.split, broken)
        report["settings"]["filters"] = args.filters
        database = ibis.duckdb.connect(temp_directory=str(scratch))
        pairs = database.read_parquet(scratch / "read.parquet")
        removed = {
            f"{side}: {name}": condition
            for side in ("input", "response")
            for name, condition in rules(
                pairs[side], pairs[f"{side}_characters"], pairs[f"{side}_alphabetic"], paper=args.filters == "paper"
            ).items()
        }
        pairs = pairs.mutate(rule=first_rule(removed))
        report["pairs read"] = count(pairs, pairs.rule, [*removed, KEPT])
        kept = pairs.filter(pairs.rule == KEPT).select(PAIR_SCHEMA.names).to_pyarrow()
        pq.write_table(_with_threads(kept), scratch / "kept.parquet")
        write_pairs(database.read_parquet(scratch / "kept.parquet"), folder, scratch, args.split, report)
