"""Turns chat logs into a dataset of pairs: stores their messages, joins them to pairs, writes these."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from data_scripts.chats.logs import add_log_arguments, is_on_hub, open_logs, read_log
from data_scripts.chats.messages import ChatLog, Message, Pair
from data_scripts.chats.tables import WHO_ANSWERS
from data_scripts.clean.filters import PAIR, Filters, filter_settings, measure, measure_language
from data_scripts.dataset_folders import Report, format_table, start_report
from data_scripts.pairs.options import PairOptions, add_filter_arguments, add_memory_argument, read_filters
from modeling_convsim.files.errors import InputError, refuse_options
from modeling_convsim.files.folders import new_folder
from modeling_convsim.files.texts import BrokenLines

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from modeling_convsim.files.parquet import BatchWriter

HINT_MESSAGES = 200_000  # of the largest logs that are searched for authors who answer the others


@dataclass(frozen=True)
class ConversationOptions(PairOptions):
    """How logs become pairs: the command's options of the same names; `add_reading_arguments` explains them."""

    filters: str = "chat"
    columns: Sequence[str] = ()
    gap: str | None = None
    repliers: Sequence[str] | None = None
    encoding: str | None = None
    date_order: str | None = None
    keep_salutations: bool = False


def add_reading_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command that turns logs into pairs, without those of its output."""
    add_log_arguments(parser)
    add_filter_arguments(parser, ConversationOptions)
    add_memory_argument(parser.add_argument_group("engine"))


def prepare_conversations(
    files: Sequence[Path], options: ConversationOptions, output: Path, show: bool = True
) -> Report:
    """Read logs, join their messages to turns and pairs, filter and split them, and write a dataset of pairs.

    Args:
        files: tables, exports, or datasets on the Hub.
        options: how they are read, filtered and split.
        output: a folder or URL, which must not exist, unless `options.overwrite` replaces it.
        show: print the report.

    Returns:
        The report, which is also written to OUTPUT/report.json: section -> name -> count.

    Raises:
        InputError: an option is invalid, a log cannot be read, or no pairs are left.
    """
    filters = read_filters(options, options.keep_salutations)
    logs = open_logs(files, options.columns, options.gap, options.encoding, options.date_order)
    # Imported here, so that --help and errors do not wait for them.
    from data_scripts.chats.joining import join_logs
    from data_scripts.chats.links import explain_lost_links
    from data_scripts.pairs.dataset import write_pairs
    from data_scripts.pairs.engines import connect

    with (
        new_folder(output, options.overwrite) as (folder, scratch),
        connect(scratch, options.memory_limit) as database,
    ):
        stored = store_logs(logs, filters, scratch)
        if not stored[0]:
            refuse_options(
                {"--bots": filters.bots, "--repliers": options.repliers},
                "all files contain ready pairs, which have no authors; leave it out",
            )
        report = _start_report(files, logs, options, filters)
        pairs = join_logs(stored, database, scratch, filters, report, options.repliers, options.context)
        lost = explain_lost_links(report)
        if lost and not (report["kept turns"][PAIR] or stored[1]):
            raise InputError(f"no pairs are left to write: {lost}; the counts are:\n{format_table(report)}")
        if lost:
            print(f"warning: {lost}", file=sys.stderr)
        if 0 < stored[0] <= HINT_MESSAGES and not options.repliers:
            _show_repliers(pairs, logs, options.repliers is None)
        summary = write_pairs(pairs, folder, options, report)
    if show:
        print(summary)
    return report


def _start_report(
    files: Sequence[Path], logs: Sequence[ChatLog], options: ConversationOptions, filters: Filters
) -> Report:
    """The sections of what was read: settings, lines left out, what was detected, messages left out."""
    broken = BrokenLines()
    for log in logs:
        broken.join(log.broken)
    settings = {"split": options.split, "context": options.context, **filter_settings(filters)}
    names = ("gap", "columns", "encoding", "date_order")
    settings |= {name: getattr(options, name) for name in names if getattr(options, name)}
    settings |= {"repliers": len(options.repliers)} if options.repliers else {}
    inputs = [str(path) if is_on_hub(path) else path.name for path in files]
    report = start_report("conversations", inputs, settings, broken)
    report["detected"] = {log.name: log.describe() for log in logs if log.detected}
    report["messages left out"] = dict(logs[0].left_out)
    return report


def _show_repliers(pairs: ir.Table, logs: Sequence[ChatLog], all_authors: bool) -> None:
    """Print which authors' replies become pairs, or a hint if a few authors answer all the others."""
    from data_scripts.chats.turns import find_repliers

    columns = "; ".join(log.detected[WHO_ANSWERS] for log in logs if WHO_ANSWERS in log.detected)
    authors = pairs.select("asker", "replier").to_pyarrow().to_pydict()
    repliers = [] if columns else find_repliers(list(zip(*authors.values(), strict=True)))
    if columns or set(authors["replier"]) <= set(repliers):
        if not all_authors:  # else, the report has the columns
            named = columns or f"the author is {' or '.join(repliers)}"
            print(f"using only replies where {named}; --repliers NAME selects other authors", file=sys.stderr)
    elif repliers:
        option = shlex.join(["--repliers", *repliers])
        print(f"hint: a few authors answer all the others; {option} uses only their replies", file=sys.stderr)


def store_logs(logs: Iterable[ChatLog], filters: Filters, scratch: Path, most: int | None = None) -> tuple[int, int]:
    """Read logs, and write their messages and ready pairs with their measures to `scratch`, for `join_logs`.

    Args:
        logs: the logs.
        filters: the rules, for the measures that they need.
        scratch: a folder for temporary files.
        most: the maximum number of messages and pairs to read from each log (default: all).

    Returns:
        How many messages and how many ready pairs there are.

    Raises:
        InputError: a log cannot be read, or contains neither.
    """
    from data_scripts.chats.joining import MESSAGES_FILE, READY_FILE
    from data_scripts.schemas import MESSAGE_SCHEMA, READY_PAIR_SCHEMA
    from modeling_convsim.files.parquet import parquet_writer

    with (
        parquet_writer(scratch / MESSAGES_FILE, MESSAGE_SCHEMA) as messages,
        parquet_writer(scratch / READY_FILE, READY_PAIR_SCHEMA) as ready,
    ):
        for log in logs:
            with closing(read_log(log)) as items:
                _store_items(log, islice(items, most), filters, messages, ready)
    return messages.added, ready.added


def _store_items(
    log: ChatLog,
    items: Iterable[tuple[str, Message | Pair]],
    filters: Filters,
    messages: BatchWriter,
    ready: BatchWriter,
) -> None:
    before = messages.added + ready.added + log.left_out.total()
    chain, followed, last = ready.added, None, None
    for location, item in items:
        try:
            "".join(value for value in item if isinstance(value, str)).encode()
        except UnicodeEncodeError:
            log.broken.add("not UTF-8", location, "half of a surrogate pair")
            continue
        if isinstance(item, Pair):
            texts, measures = zip(*(_measure(text, filters) for text in item[:2]), strict=True)
            number = ready.added
            # A pair continues the conversation of the one before it if its input is a text of that pair.
            if not (last and item.source == last.source and item.input in (last.response, last.input)):
                chain, followed = number, None
            elif item.thread != last.thread:
                followed = None
            elif item.input == last.response:
                followed = number - 1
            last = item
            row = (*texts, *item[2:], *measures[0], *measures[1], chain, number, followed)
            ready.add(row, len(item.input) + len(item.response))
        else:
            text, message_measures = _measure(item.text, filters)
            row = (*item._replace(text=text), messages.added, *message_measures)
            messages.add(row, len(text) + 100)  # 100 for its ids and times
    if messages.added + ready.added + log.left_out.total() == before:
        expected = "`convsim data conversations --help` lists the formats"
        if name := log.detected.get("format"):
            expected = (
                f"it was read as this format: {name}; if that is wrong, convert it to a table with one row per message "
                "and the columns thread, speaker, time and text"
            )
        raise InputError(
            "; ".join([f"{log.path}: contains no messages and no pairs", *log.broken.examples[:1], expected])
        )


def _measure(text: str, filters: Filters) -> tuple[str, tuple[int, int, str]]:
    text, characters, alphabetic = measure(text, filters)
    return text, (characters, alphabetic, measure_language(text, characters, alphabetic, filters))
