"""Show what a chat log contains: its columns and their roles, sample pairs, who answers, and the next command.

  convsim inspect support.csv

FILE is any input of `convsim data conversations`, and the options are the same: try other roles with --columns to see
which pairs they give. The command reads only the first messages and writes nothing.
"""

from __future__ import annotations

import argparse
import re
import shlex
import tempfile
from collections import Counter
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from data_scripts.chats.column_roles import BOTH, flat_columns, look_up
from data_scripts.chats.conversations import store_logs
from data_scripts.chats.logs import add_log_arguments, open_logs, recognize
from data_scripts.chats.messages import ChatLog
from data_scripts.chats.tables import WHO_ANSWERS, find_columns
from data_scripts.clean.filters import Filters
from data_scripts.commands import PROGRAM
from data_scripts.dataset_folders import Report, format_table
from data_scripts.pairs.options import CONTEXT
from modeling_convsim.files.errors import InputError, one_line
from modeling_convsim.files.records import Record

MESSAGES = 2_000  # read from each log
PAIRS, EXAMPLES, AUTHORS = 3, 3, 5  # shown
NAME_WIDTH, EXAMPLE_WIDTH, TEXT_WIDTH = 24, 75, 110  # characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_log_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Print what each log contains, and the next commands."""
    for log in open_logs(args.files, args.columns, args.gap, args.encoding, args.date_order):
        print(log.path)
        try:
            _show_columns(log)
            pairs = _show_pairs(log, args)
        except InputError:
            if log.detected:
                print(f"  {log.describe()}")
            raise
        columns = args.columns or shlex.split(log.detected.get("columns", ""))
        repliers = args.repliers or _show_repliers(log, pairs)
        print(f"\nnext: {_next_command(log, args, columns, repliers)}")


def _show_columns(log: ChatLog) -> None:
    """Show the columns of a table with examples and roles; nothing for an export."""
    if recognize(log):
        return
    rows = log.records.sample
    columns = flat_columns(log.records.columns, rows)
    log.is_shown = True
    problem, names = None, log.columns
    try:
        names = find_columns(log, log.records)
    except InputError as error:
        problem = error
    roles: dict[str, str] = {}
    for role, given in names.items():
        for name in [given] if given in columns else given.split(BOTH):
            roles[name] = f"{roles[name]}, {role}" if name in roles else role
    print(f"  {'column':{NAME_WIDTH}}  {'role':12}  examples")
    for name in columns:
        print(
            f"  {_truncate(name, NAME_WIDTH):{NAME_WIDTH}}  {roles.get(name, ''):12}  {_examples(rows, name)}".rstrip()
        )
    if problem:
        raise problem


def _examples(rows: list[Record], name: str) -> str:
    """The first different values of a column, as many as fit into a line."""
    values = dict.fromkeys(str(value) for row in rows if (value := look_up(row, name)) not in (None, ""))
    lines = accumulate((_truncate(value, EXAMPLE_WIDTH) for value in islice(values, EXAMPLES)), "{} | {}".format)
    return max((line for line in lines if len(line) <= EXAMPLE_WIDTH), key=len, default="")


def _truncate(text: str, width: int) -> str:
    text = one_line(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _show_pairs(log: ChatLog, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Make pairs of the first messages of a log, and show what was detected, some pairs, and the counts."""
    # Imported here, so that --help does not wait for them.
    from data_scripts.chats.joining import join_logs
    from data_scripts.chats.links import explain_lost_links
    from data_scripts.pairs.engines import connect

    filters, report = Filters("chat", keep_salutations=args.keep_salutations), Report()
    with tempfile.TemporaryDirectory() as scratch, connect(Path(scratch)) as database:
        stored = store_logs([log], filters, Path(scratch), MESSAGES)
        table = join_logs(stored, database, Path(scratch), filters, report, args.repliers or [])
        table = table.drop("context").distinct()
        pairs = table.order_by("thread", "input", "response").to_pyarrow().to_pylist()
    if log.detected:
        print(f"  {log.describe()}")
    if log.broken.counts:
        print(f"  lines left out: {log.broken.counts.total():,}, for example {log.broken.examples[0]}")
    messages, ready = stored
    read = _number(messages, "message") if messages else _number(ready, "ready pair")
    first = "" if messages + ready < MESSAGES else "the first "
    print(f"\n{first}{read} gave {_number(len(pairs), 'pair')}{', such as' if pairs else ''}")
    for pair in pairs[:: max(len(pairs) // PAIRS, 1)][:PAIRS]:
        print(f"  {_truncate(pair['input'], TEXT_WIDTH)}\n    -> {_truncate(pair['response'], TEXT_WIDTH)}")
    print(f"\n{format_table(report)}")
    if not first and (lost := explain_lost_links(report)):  # else, the missing messages may follow
        print(f"warning: {lost}")
    return pairs


def _show_repliers(log: ChatLog, pairs: list[dict[str, Any]]) -> list[str]:
    """Show whose replies the pairs have; returns the authors who answer the others, unless a column says so."""
    from data_scripts.chats.turns import find_repliers  # imported here, so that --help does not wait for it

    replies = Counter(pair["replier"] for pair in pairs if pair["replier"])
    if len(replies) > 1:
        ranked = sorted(replies.items(), key=lambda item: (-item[1], item[0]))[:AUTHORS]
        shown = ", ".join(f"{_truncate(name, NAME_WIDTH)} {count:,}" for name, count in ranked)
        more = f" and {len(replies) - AUTHORS:,} more" if len(replies) > AUTHORS else ""
        print(f"replies by {shown}{more}; --repliers NAME keeps only replies by that author")
    return [] if WHO_ANSWERS in log.detected else find_repliers([(pair["asker"], pair["replier"]) for pair in pairs])


def _number(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _next_command(log: ChatLog, args: argparse.Namespace, columns: list[str], repliers: list[str]) -> str:
    options = {
        "--columns": columns,
        "--gap": args.gap,
        "--repliers": repliers,
        "--encoding": args.encoding,
        "--date_order": args.date_order,
        "--context": str(args.context) if args.context != CONTEXT else None,
    }
    words = [str(log.path), *(["--keep_salutations"] if args.keep_salutations else [])]
    for option, value in options.items():
        if value:
            words += [option, *([value] if isinstance(value, str) else value)]
    folder = re.sub(r"\W+", "_", log.path.stem).strip("_") or "chats"
    train = shlex.join(["convsim", "adapt", *words, "-o", f"runs/{folder}"])
    words += ["--repliers"] if WHO_ANSWERS in log.detected and not repliers else []
    pairs = shlex.join([*PROGRAM.split(), "conversations", *words, "-o", f"data/{folder}"])
    return f"{train}\nor, without training: {pairs}"
