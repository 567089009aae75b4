"""Show what a chat log contains: its format, columns and guessed roles, sample pairs, who answers, the next commands.

  convsim inspect support.csv

FILE is anything that the command conversations reads, and the options are the same: with --columns, you see the pairs
that other roles give. Only the first messages are read, and nothing is written.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from data_scripts.chats.conversations import store_logs
from data_scripts.chats.joining import AUTOMATIC, MESSAGES_FILE, join_logs
from data_scripts.chats.logs import add_log_arguments, open_logs, recognize
from data_scripts.chats.messages import ChatLog
from data_scripts.chats.roles import BOTH, answering_roles, flat_columns, look_up
from data_scripts.chats.tables import find_columns
from data_scripts.clean.filters import Filters
from data_scripts.commands import PROGRAM
from data_scripts.dataset_folders import Report, format_table
from data_scripts.files.errors import InputError, one_line
from data_scripts.files.records import Record
from data_scripts.pairs.options import CONTEXT, check_context

MESSAGES = 2_000  # that are read of each log
FEWEST_PAIRS = 50  # to adapt a model to
LONG_PAUSE = 12 * 3600  # seconds; the pause that is proposed
PAIRS, EXAMPLES, AUTHORS = 3, 3, 5  # that are shown
NAME_WIDTH, EXAMPLE_WIDTH, TEXT_WIDTH = 24, 75, 110  # characters


@dataclass(frozen=True)
class _Sides:
    """A column that says of each message which side wrote it, and its values for the side that answers."""

    column: str
    answering: list[str]


@dataclass(frozen=True)
class _Beginning:
    """What the first messages of a log become.

    Attributes:
        messages, ready_pairs: how many were read.
        pairs: the rows of the pairs, in the order of their threads.
        report: the counts of what was left out.
        lost: why reply links lead nowhere.
        gaps: the pauses, in seconds, that end a conversation.
    """

    messages: int
    ready_pairs: int
    pairs: list[dict[str, Any]]
    report: Report
    lost: str | None
    gaps: set[float]

    @property
    def is_whole(self) -> bool:
        """Whether the log has no more messages."""
        return self.messages + self.ready_pairs < MESSAGES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_log_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Print what each log contains, and the next commands."""
    check_context(args.context)
    filters = Filters("chat", keep_salutations=args.keep_salutations)
    for log in open_logs(args.files, args.columns, args.gap, args.encoding, args.date_order):
        print(log.path)
        try:
            sides = _show_columns(log)
            if args.repliers or any(each.startswith("speaker=") for each in args.columns or ()):
                sides = None
            beginning = _read_beginning(log, args.repliers, filters, args.context)
            _show_pairs(log, beginning, args.context)
            repliers = _show_repliers(beginning, is_stated=bool(args.repliers or sides))
        except InputError:
            if log.detected:
                print(f"  {log.describe()}")
            raise
        columns = args.columns or shlex.split(log.detected.get("columns", ""))
        if sides:
            repliers = sides.answering
            columns = [each for each in columns if not each.startswith("speaker=")] + [f"speaker={sides.column}"]
            print(f"the column {sides.column} says who answers, so the next command reads it as the speaker")
        print(f"\nnext: {_next_command(log, args, columns, repliers)}")


def _show_columns(log: ChatLog) -> _Sides | None:
    """Show the columns of a table with examples and roles; nothing for an export. Returns the column of the sides."""
    if recognize(log):
        return None
    rows = log.records.sample
    columns = flat_columns(log.records.columns, rows)
    problem, names = None, dict(log.columns)
    log.is_shown = True
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
    return _find_sides([name for name in columns if "text" in names and name not in roles], rows)


def _find_sides(columns: list[str], rows: list[Record]) -> _Sides | None:
    """The first column whose values are the sides of conversations."""
    for name in columns:
        values = {str(value) for row in rows if (value := look_up(row, name)) not in (None, "")}
        if answering := answering_roles(values):
            return _Sides(name, answering)
    return None


def _examples(rows: list[Record], name: str) -> str:
    """The first different values of a column, as many as fit into a line."""
    values = dict.fromkeys(str(value) for row in rows if (value := look_up(row, name)) not in (None, ""))
    line = ""
    for value in islice(values, EXAMPLES):
        longer = f"{line} | {_truncate(value, EXAMPLE_WIDTH)}" if line else _truncate(value, EXAMPLE_WIDTH)
        if len(longer) > EXAMPLE_WIDTH:
            break
        line = longer
    return line


def _truncate(text: str, width: int) -> str:
    text = one_line(text)
    return text if len(text) <= width else text[: width - 1] + "…"


def _read_beginning(log: ChatLog, stated: list[str], filters: Filters, context: int) -> _Beginning:
    """Make pairs of the first messages of a log, in a folder for temporary files."""
    # Imported here, so that --help does not wait for it.
    from data_scripts.chats.links import explain_lost_links
    from data_scripts.pairs.engines import connect

    report: Report = {}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with connect(scratch) as database:
            stored = store_logs([log], filters, scratch, MESSAGES)
            gaps = pq.read_table(scratch / MESSAGES_FILE, columns=["gap"])["gap"].to_pylist()
            table = join_logs(stored, database, scratch, filters, report, stated, context)
            lost = None
            if stored[0] and sum(stored) < MESSAGES:  # else, messages that are not there may follow
                lost = explain_lost_links(report)
            columns = [name for name in table.columns if name != "context"]
            table = table.group_by(columns).agg(context=table.context.min())
            pairs = table.order_by("thread", "input", "response").to_pyarrow().to_pylist()
    return _Beginning(*stored, pairs, report, lost, {gap for gap in gaps if gap and gap < math.inf})


def _show_pairs(log: ChatLog, beginning: _Beginning, context: int) -> None:
    """What was detected, the counts, and a few pairs of different threads."""
    pairs, report = beginning.pairs, beginning.report
    if log.detected:
        print(f"  {log.describe()}")
    if log.broken.counts:
        print(f"  lines left out: {log.broken.counts.total():,}, such as {log.broken.examples[0]}")
    first = "" if beginning.is_whole else "the first "
    messages = beginning.messages
    read = _number(messages, "message") if messages else _number(beginning.ready_pairs, "ready pair")
    result = ", such as" if pairs else "; their texts are left out:"
    print(f"\n{first}{read} gave {_number(len(pairs), 'pair')}{result}")
    if not pairs:
        print(format_table(report))
    if beginning.lost:
        print(f"warning: {beginning.lost}")
    for pair in pairs[:: max(len(pairs) // PAIRS, 1)][:PAIRS]:
        print(f"  {_truncate(pair['input'], TEXT_WIDTH)}\n    -> {_truncate(pair['response'], TEXT_WIDTH)}")
    if context and pairs:
        print(f"pairs with earlier turns: {sum(bool(pair['context']) for pair in pairs):,}")
    removed = report.get("removed from texts", {}) | {"automatic messages": report.get("messages", {}).get(AUTOMATIC)}
    if shown := [f"{kind} {count:,}" for kind, count in removed.items() if count]:
        print(f"removed: {', '.join(shown)}; --keep_salutations keeps them")
    _show_pauses(report, beginning.gaps)


def _show_repliers(beginning: _Beginning, is_stated: bool) -> list[str]:
    """Whose replies the pairs have, and whether they are enough.

    Args:
        beginning: the pairs.
        is_stated: whether the options or a column say who answers.

    Returns:
        The authors who answer the others, if they are clear and not stated.
    """
    from data_scripts.chats.turns import find_repliers  # imported here, so that --help does not wait for it

    pairs, repliers = beginning.pairs, list[str]()
    replies = Counter(pair["replier"] for pair in pairs if pair["replier"])
    if not is_stated:
        repliers = find_repliers([(pair["asker"], pair["replier"]) for pair in pairs])
        if len(replies) > 1:
            _show_authors(replies, repliers)
    missing = FEWEST_PAIRS - (sum(replies[name] for name in repliers) if repliers else len(pairs))
    if beginning.is_whole and missing > 0:
        print(
            f"adapting a model needs {FEWEST_PAIRS} pairs, of which {_number(missing, 'more pair')} "
            f"{'is' if missing == 1 else 'are'} missing: the next command suggests these replies with the "
            "base model as it is"
        )
    return repliers


def _show_pauses(report: Report, gaps: set[float]) -> None:
    """Name the option that allows longer pauses, if more than half of the turns start a conversation."""
    turns = report.get("kept turns", {})
    starts, total = turns.get("answer to nothing", 0), sum(turns.values())
    if 2 * starts > total and 0 < max(gaps, default=0) < LONG_PAUSE:
        print(
            f"{starts:,} of {total:,} turns answer nothing, because a pause of more than "
            f"{max(gaps) / 60:g} minutes ends a conversation: if replies take longer, add --gap 12h"
        )


def _show_authors(replies: Counter[str], repliers: list[str]) -> None:
    """Whose replies the pairs have, and the option that selects some of them."""
    ranked = sorted(replies.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{_truncate(name, NAME_WIDTH)} {count:,}" for name, count in ranked[:AUTHORS]]
    more = f" and {len(replies) - AUTHORS:,} more" if len(replies) > AUTHORS else ""
    remedy = (
        "the next command keeps only those of the authors who answer"
        if repliers
        else "--repliers NAME keeps only those of an author"
    )
    print(f"replies by {', '.join(shown)}{more}; {remedy}")


def _number(count: int, name: str) -> str:
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def _next_command(log: ChatLog, args: argparse.Namespace, columns: list[str], repliers: list[str]) -> str:
    options = {
        "--columns": columns,
        "--gap": args.gap,
        "--repliers": args.repliers or repliers,
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
    pairs = shlex.join([*PROGRAM.split(), "conversations", *words, "-o", f"data/{folder}"])
    return f"{train}\nor, without training: {pairs}"
