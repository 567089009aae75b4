"""Turn Pushshift dumps of Reddit comments into pairs of a comment and a reply, with the paper's filters.

Every reply is joined to the comment it answers, across all files named. Both must pass the rules of Yang et al. (2018):
fewer than 350 characters, more than 70 % letters, no start with https, /r/ or @, no author with "bot" in the name, not
deleted. What each rule removes is counted, printed and written to OUTPUT/report.json.

Example: python -m data_scripts reddit RC_2015-01.zst RC_2015-02.zst --output data/reddit
"""

import argparse
import os
import re
from pathlib import Path

import duckdb
import ibis

from data_scripts.dumps import DUMP_FORMS, read_dumps
from data_scripts.errors import InputError
from data_scripts.files import UNPACK, BrokenLines, check_file
from data_scripts.filters import count
from data_scripts.pairs import (
    PAIR,
    add_output_arguments,
    join_replies,
    judge_comments,
    new_folder,
    start_report,
    write_pairs,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "dumps",
        nargs="+",
        type=Path,
        metavar="FILE_OR_FOLDER",
        help="dumps of comments (.bz2, .zst, .xz, .gz or .jsonl); of a folder, the files in it named RC_*",
    )
    add_output_arguments(parser)
    parser.add_argument(
        "--comments",
        type=Path,
        metavar="FOLDER",
        help="keep the comments read, as a Parquet file for each dump, in this folder; a dump whose file is there from "
        "an earlier run is not read again, a file of the same name from another dump is replaced (default: comments "
        "are not kept)",
    )
    parser.add_argument(
        "--memory-limit",
        default="4GiB",
        metavar="SIZE",
        help="memory of the join and the sort, such as 2GiB; what does not fit goes to disk, beside OUTPUT "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count() or 1,
        help="dumps read at a time, each in a process of its own; for Pushshift's .zst each holds a window of 2 GiB "
        "(default: %(default)s)",
    )


def find_dumps(paths: list[Path]) -> list[Path]:
    """The dumps of comments among the files and folders named; says which files are left aside.

    Raises:
        InputError: nothing to read, a file that is no dump, or two dumps of one name.
    """
    dumps: list[Path] = []
    for path in paths:
        found = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
        for file in found:
            if file.name.startswith("RS_"):
                print(f"skipped {file}: submissions, not comments")
            elif path.is_dir() and not file.name.startswith("RC_"):
                print(f"skipped {file}: not named RC_*; name the file itself to read it")
            else:
                dumps.append(file)
    if not dumps:
        raise InputError(
            f"no dump of comments in {', '.join(map(str, paths))}; expected files named like RC_2015-01.zst"
        )
    names: dict[str, Path] = {}
    for dump in dumps:
        check_file(dump, DUMP_FORMS)
        other = names.setdefault(comments_name(dump), dump)
        if other is not dump:
            raise InputError(f"{other} and {dump}: two dumps of one name; leave one out, or rename it")
    return dumps


def comments_name(dump: Path) -> str:
    """The name of the Parquet file that a dump becomes."""
    plain = dump.with_suffix("") if dump.suffix in UNPACK else dump
    return (plain.stem if plain.suffix in DUMP_FORMS else plain.name) + ".parquet"


def run(args: argparse.Namespace) -> None:
    """Read the dumps, join, split and write."""
    if args.workers < 1:
        raise InputError(f"--workers {args.workers}: expected 1 or more")
    if not re.fullmatch(r"\d+(\.\d+)? ?([KMGT]i?)?B", args.memory_limit):
        raise InputError(f"--memory-limit {args.memory_limit}: expected a number and a unit, such as 500MB or 2GiB")
    dumps = find_dumps(args.dumps)
    broken = BrokenLines()
    with new_folder(args.output, args.overwrite) as (folder, scratch):
        comments_folder = args.comments or scratch
        try:
            comments_folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--comments {comments_folder}: cannot be made ({error.strerror})") from error
        files = [comments_folder / comments_name(dump) for dump in dumps]
        kept = read_dumps(dumps, files, broken, args.workers)
        if kept:
            print(
                f"{kept} of {len(dumps)} dumps were read by an earlier run: their files in {comments_folder} are used"
            )
        report = start_report("reddit", dumps, args.split, broken)
        try:
            database = ibis.duckdb.connect(temp_directory=str(scratch), memory_limit=args.memory_limit)
            comments, rules = judge_comments(database.read_parquet(files))
            replies, outcomes = join_replies(comments)
            report["comments"] = count(comments, comments.rule, rules)
            report["kept comments"] = count(replies, replies.outcome, outcomes)
            write_pairs(replies.filter(replies.outcome == PAIR), folder, scratch, args.split, report)
        except duckdb.OutOfMemoryException as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"--memory-limit {args.memory_limit}: too little for the join and the sort ({reason}); name more"
            ) from error
