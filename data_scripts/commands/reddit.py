"""Turn dumps of Reddit comments into pairs of a comment and a reply, with the paper's filters.

Each reply is joined to the comment that it answers, across all files. Both must pass the rules of Yang et al. (2018):
not deleted, fewer than 350 characters, more than 70% letters, no https, /r/ or @ at the start, and no "bot" in the
author's name. The comments that each rule removes are counted; the counts are printed and written to
OUTPUT/report.json.

The column context of a pair contains the comments before its input, the newest first: its parent, the parent's parent,
and so on, without removed comments.

Dumps are JSON Lines files of Pushshift or arctic-shift (.zst, .bz2, .xz, .gz or uncompressed), named RC_* or
*_comments. They are converted to Parquet files of comments. --comments keeps these files, and later runs read only new
dumps. The command also reads such Parquet files directly, or streams a dataset on the Hub, or some of its files, with
the columns id, parent_id, link_id, author, body, subreddit and created_utc.

Examples:
  convsim data reddit RC_2015-01.zst RC_2015-02.zst --output data/reddit
  convsim data reddit dumps/ --comments data/comments                        (converts the dumps, writes no pairs)
  convsim data reddit data/comments/*.parquet --output data/reddit --engine spark
  convsim data reddit 'open-index/arctic:data/comments/2008/*/*.parquet' --output data/reddit
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from data_scripts.clean.filters import PAIR, Filters, filter_settings
from data_scripts.dataset_folders import format_table, start_report
from data_scripts.pairs.options import (
    PairOptions,
    add_context_argument,
    add_engine_arguments,
    add_filter_arguments,
    add_output_arguments,
    check_output,
    memory_bytes,
    read_filters,
)
from data_scripts.reddit import DUMP_FORMS, holds_submissions
from modeling_convsim.files.command_line import whole_number
from modeling_convsim.files.errors import InputError, refuse_options
from modeling_convsim.files.folders import new_folder
from modeling_convsim.files.hub import HUB_HELP, is_hub_name
from modeling_convsim.files.storage import make_folder, readable, storage_argument, storage_path
from modeling_convsim.files.texts import UNPACK, BrokenLines, check_file

CORES = (os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()) or 1
WINDOW_BYTES = 1 << 31  # of Pushshift's .zst
MAX_COMPRESSION = 20  # no dump of comments is compressed to less than 1/20 of its size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    group = parser.add_argument_group("input")
    group.add_argument(
        "sources",
        nargs="+",
        metavar="FILE_OR_FOLDER",
        help="dumps or .parquet files of comments; in a folder, the files named RC_* or *_comments are read; "
        f"or {HUB_HELP}; files and folders may be URLs (s3://, gs://, hdfs://)",
    )
    group.add_argument(
        "--comments",
        type=storage_argument,
        metavar="FOLDER",
        help="keep the comments in this folder, as one Parquet file per dump; dumps that an earlier run converted "
        "are not read again; a file of the same name from another dump is replaced; without --output, only convert "
        "the dumps (default: do not keep the comments)",
    )
    group.add_argument(
        "--submissions",
        action="store_true",
        help="also use titles of submissions as inputs: read dumps of submissions too (RS_*, *_submissions, *_posts)",
    )
    group.add_argument(
        "--workers",
        type=whole_number(1),
        default=CORES,
        metavar="N",
        help="maximum number of dumps to read in parallel, each in its own process; fewer if the decompression windows "
        "of large .zst dumps, up to 2 GiB each, would exceed --memory_limit (default: number of cores, %(default)s)",
    )
    add_context_argument(group)
    add_filter_arguments(parser)
    add_engine_arguments(parser)
    add_output_arguments(parser, required=False)


def is_on_hub(source: str) -> bool:
    """Whether a source is a dataset on the Hub, and not a file or a folder."""
    return is_hub_name(source, (*DUMP_FORMS[1:], ".parquet", *UNPACK))


def find_files(sources: list[str], submissions: bool, filters: Filters) -> list[Path]:
    """The files of comments among the sources, which are files and folders; prints which files are skipped.

    Raises:
        InputError: there is nothing to read, a file is not a dump or lacks what the filters need, or two files have the
            same name.
    """
    files: list[Path] = []
    for path in map(storage_path, sources):
        candidates = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        for file in candidates:
            if file.suffix != ".parquet" and holds_submissions(file) and not submissions:
                print(f"skipped {file}: submissions, not comments; add --submissions to read them")
            elif path.is_dir() and not _is_dump(file):
                print(f"skipped {file}: not named RC_* or *_comments; to read it, pass the file itself")
            else:
                files.append(file)
    if not files:
        raise InputError(f"no dumps of comments in {', '.join(sources)}; expected files such as RC_2015-01.zst")
    names: dict[str, Path] = {}
    for file in files:
        if file.suffix == ".parquet":
            _check_comments(file, filters)
        else:
            check_file(file, DUMP_FORMS)
        other = names.setdefault(comments_name(file), file)
        if other is not file:
            raise InputError(f"{other} and {file}: two files with the same name; remove or rename one")
    return files


def _is_dump(file: Path) -> bool:
    plain = file.name.partition(".")[0]
    return file.name.startswith("RC_") or plain.endswith("_comments") or holds_submissions(file)


def _check_comments(file: Path, filters: Filters) -> None:
    """Refuse a Parquet file without what the filters need, which only a dump has."""
    import pyarrow.parquet as pq

    from data_scripts.reddit.dumps import comment_schema
    from data_scripts.schemas import COMMENT_SCHEMA
    from modeling_convsim.files.parquet import UNREADABLE

    try:
        columns = pq.read_schema(readable(file)).names
    except UNREADABLE as error:
        raise InputError(f"{file}: not a readable Parquet file ({error})") from error
    missing = [name for name in COMMENT_SCHEMA.names if name not in columns]
    if missing:
        raise InputError(
            f"{file}: no column {', '.join(missing)}; expected comments that this command saved with --comments "
            f"(for ready pairs: convsim data conversations {file})"
        )
    lost = {"--markdown": filters.markdown, "--language": not {*comment_schema(filters).names} <= {*columns}}
    refuse_options(lost, f"{file} was converted without it; pass the original dump instead")


def comments_name(dump: Path | str) -> str:
    """The name of the Parquet file that a dump, or a dataset on the Hub, is converted to."""
    if isinstance(dump, str):
        return (
            re.sub(r"[^\w.-]+", "--", dump.removesuffix("*.parquet").removesuffix(".parquet")).strip("-") + ".parquet"
        )
    plain = dump.with_suffix("") if dump.suffix in UNPACK else dump
    return (plain.stem if plain.suffix in (*DUMP_FORMS, ".parquet") else plain.name) + ".parquet"


def run(args: argparse.Namespace) -> None:
    """Read the dumps, join, split and write."""
    filters = read_filters(PairOptions.from_arguments(args))
    if args.output is None and args.comments is None:
        raise InputError("--output: missing; state the folder for the pairs (or only --comments, to convert the dumps)")
    check_output(args)
    datasets = [source for source in args.sources if is_on_hub(source)]
    others = [source for source in args.sources if source not in datasets]
    files = find_files(others, args.submissions, filters) if others else []
    broken = BrokenLines()
    if args.output is None:
        _read(files, datasets, args, args.comments, broken, filters)
        print(f"files read: {len(files) + len(datasets)}; their comments are in {args.comments}")
        for name, number in broken.counts.items():
            print(f"  left out: {name:<30} {number:>12,}")
    else:
        _write(files, datasets, args, broken, filters)


def _write(
    files: list[Path], datasets: list[str], args: argparse.Namespace, broken: BrokenLines, filters: Filters
) -> None:
    """Join the comments to pairs, write them, and publish them if the user asks for it."""
    # Imported here, so that --help does not wait for them.
    from data_scripts.pairs.dataset import push, write_pairs
    from data_scripts.pairs.engines import connect, read_parquet
    from data_scripts.pairs.spark import check_shared, size_shuffles
    from data_scripts.reddit.replies import explain_losses, join_replies

    with ExitStack() as stack:
        on_spark = args.engine == "spark"
        folder, scratch = stack.enter_context(new_folder(args.output, args.overwrite))
        database = stack.enter_context(connect(scratch, args.memory_limit, args.engine, args.spark_master))
        cluster = database._session.sparkContext if on_spark else None
        if on_spark:
            converted = any(file.suffix != ".parquet" for file in files) or datasets
            check_shared(database._session, [args.output, *files, *([args.comments or scratch] if converted else [])])
        paths = _read(files, datasets, args, args.comments or scratch, broken, filters, cluster)
        if on_spark:
            size_shuffles(database._session, paths)
        comments = read_parquet(database, paths)
        settings = {"split": args.split, "engine": args.engine, "context": args.context, **filter_settings(filters)}
        if args.submissions:
            settings["submissions"] = "inputs too"
        names = [*(file.name for file in files), *datasets]
        report = start_report("reddit", names, settings, broken)
        pairs = join_replies(comments, filters, args.submissions, report, args.context)
        if lost := explain_losses(report):
            if not report["kept comments"][PAIR]:
                raise InputError(f"no pairs are left to write: {lost}; the counts are:\n{format_table(report)}")
            print(f"warning: {lost}", file=sys.stderr)
        summary = write_pairs(pairs, folder, PairOptions.from_arguments(args), report, public_sources=True)
    print(summary)
    push(args)


def _read(
    files: list[Path],
    datasets: list[str],
    args: argparse.Namespace,
    folder: Path,
    broken: BrokenLines,
    filters: Filters,
    cluster: Any = None,
) -> list[Path]:
    """The Parquet files of comments: those among `files`, and those that dumps and datasets are converted to."""
    from data_scripts.loading import HubDataset
    from data_scripts.reddit.comments import check_dataset, convert_sources

    make_folder(folder)
    dumps = [file for file in files if file.suffix != ".parquet"]
    workers = _count_workers(dumps, args.workers, memory_bytes(args.memory_limit))
    hub_datasets = [HubDataset(name) for name in datasets]
    for dataset in hub_datasets:
        check_dataset(dataset, args.submissions)
    outputs = [folder / name for name in (*map(comments_name, dumps), *map(comments_name, datasets))]
    reused = convert_sources([*dumps, *hub_datasets], outputs, broken, workers, filters, cluster)
    if reused:
        total = len(dumps) + len(datasets)
        print(f"{reused} of {total} dumps were converted by an earlier run; reading their files in {folder}")
    return [*(file for file in files if file.suffix == ".parquet"), *outputs]


def _count_workers(dumps: list[Path], workers: int, memory: int) -> int:
    """How many dumps can be read at a time within `memory` bytes; a .zst window is no longer than the dump's text."""
    windows = sorted(
        min(WINDOW_BYTES, MAX_COMPRESSION * dump.stat().st_size) for dump in dumps if dump.suffix == ".zst"
    )
    while workers > 1 and sum(windows[-workers:]) > memory:
        workers -= 1
    return workers
