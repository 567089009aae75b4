"""Turn chat logs into a filtered, split folder of pairs: your own tables, and what chat programs export.

A table is TSV (tabs, no quoting), CSV, JSON lines, a JSON array or Parquet; text may be compressed (.xz, .gz, .bz2,
.zst). Its columns (of JSON, the first record's) say which of three shapes it has; --columns names those that are called
otherwise:

  ready pairs         input, response
      python -m data_scripts conversations chats.tsv.xz more.parquet -o data/chats
  reply links         id, parent (the id of the message answered), text
      python -m data_scripts conversations forum.csv --columns parent=in_reply_to text=body -o data/forum
  threads in order    thread, text
      python -m data_scripts conversations calls.jsonl --columns thread=call.id speaker=from -o data/calls

thread, speaker, time and source are read too where they are there. Without a time (or position) a thread is in the
order of the file. Read as they are: ChatGPT-style messages and ShareGPT-style conversations (JSON lines, Parquet),
ChatGPT's export (conversations.json), a Slack export (its .zip or folder), DiscordChatExporter's JSON, ConvoKit's
utterances.jsonl, and a .tar of JSON lines.

In a thread, consecutive messages of the same speaker are one turn, and each turn answers the one before. Both texts of
a pair pass the filters of the reddit command. What is left out is counted, printed and written to OUTPUT/report.json.

Pairs are split by thread. Where none is named it is made: of messages, from what answers what; of ready pairs, from the
texts of more than 20 characters that they share within a source.
"""

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from data_scripts.clean.filters import (
    KEPT,
    Filters,
    add_filter_arguments,
    count,
    filter_settings,
    first_rule,
    language_of,
    measure,
    read_filters,
    rules,
)
from data_scripts.errors import InputError
from data_scripts.join.engines import add_memory_argument, batches, connect, keep, read_parquet
from data_scripts.join.pairs import PAIR, PAIR_SCHEMA, REPEATED, add_threads
from data_scripts.join.turns import make_turns, thread_names
from data_scripts.read.chat_logs import check_log, read_log
from data_scripts.read.files import UNPACK, BatchWriter, BrokenLines, new_folder, parquet_writer
from data_scripts.read.tables import COLUMN_NAMES, ChatLog, Pair
from data_scripts.write.pairs import add_output_arguments, check_output, push, start_report, write_pairs

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _measured(prefix: str = "") -> list[tuple[str, pa.DataType]]:
    numbers = [(f"{prefix}{name}", pa.int32()) for name in ("characters", "alphabetic")]
    return [*numbers, (f"{prefix}language", pa.string())]


MESSAGE_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "parent", "thread", "speaker")]
    + [("time", pa.float64()), ("text", pa.string()), ("source", pa.string()), ("gap", pa.float64())]
    + [("row", pa.int64()), *_measured()]
)
READY_SCHEMA = pa.schema(
    [(name, pa.string()) for name in PAIR_SCHEMA.names] + _measured("input_") + _measured("response_")
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="tables, exports, or the folder of a Slack export"
    )
    parser.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="ROLE=NAME",
        help=f"where a role ({', '.join(COLUMN_NAMES)}) has a column of another name; in JSON a NAME may be a path, "
        "such as author.name",
    )
    parser.add_argument(
        "--gap",
        metavar="TIME",
        help="a pause longer than this, such as 30m, 2h or 1d, ends a conversation in a thread that is in order "
        "(default: 1h in channels of Slack and Discord, outside their threads; none in other files)",
    )
    add_filter_arguments(parser)
    add_memory_argument(parser)
    add_output_arguments(parser)


def _read_columns(given: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for item in given:
        role, _, name = item.partition("=")
        if role not in COLUMN_NAMES or not name or role in columns:
            raise InputError(
                f"--columns {item}: expected ROLE=NAME, each role once; the roles are {', '.join(COLUMN_NAMES)}"
            )
        columns[role] = name
    return columns


def _read_gap(given: str | None) -> float | None:
    if given is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", given)
    if not found:
        raise InputError(f"--gap {given}: expected a number and a unit (s, m, h or d), such as 30m")
    return float(found[1]) * SECONDS[found[2]]


def _source_names(files: list[Path]) -> list[str]:
    """A source for each file: its name, with that of its folder where another file has the same."""
    stems = [(file.with_suffix("") if file.suffix in UNPACK else file).stem for file in files]
    names = [
        f"{file.absolute().parent.name}/{stem}" if stems.count(stem) > 1 else stem
        for file, stem in zip(files, stems, strict=True)
    ]
    for file, name in zip(files, names, strict=True):
        if names.count(name) > 1:
            raise InputError(f"{file}: another file has the same name in a folder of the same name; rename one")
    return names


def run(args: argparse.Namespace) -> None:
    """Read the logs, make turns and pairs of them, filter, split and write."""
    filters, columns, gap = read_filters(args), _read_columns(args.columns), _read_gap(args.gap)
    check_output(args)
    names = _source_names(args.files)
    for path in args.files:
        check_log(path)
    broken, left_out = BrokenLines(), Counter[str]()
    with new_folder(args.output, args.overwrite) as (folder, scratch), connect(args, scratch) as database:
        messages_file, ready_file = scratch / "messages.parquet", scratch / "ready.parquet"
        with (
            parquet_writer(messages_file, MESSAGE_SCHEMA) as messages,
            parquet_writer(ready_file, READY_SCHEMA) as ready,
        ):
            for path, name in zip(args.files, names, strict=True):
                log = ChatLog(path, name, columns, gap, BrokenLines(), left_out)
                _read(log, filters, messages, ready)
                broken.join(log.broken)
        settings = {"split": args.split, **filter_settings(filters)}
        settings |= {name: value for name, value in (("gap", args.gap), ("columns", args.columns)) if value}
        report = start_report("conversations", [path.name for path in args.files], settings, broken)
        report["messages left out"] = dict(left_out)
        pairs = []
        if messages.added or not ready.added:
            pairs.append(_message_pairs(read_parquet(database, [messages_file]), scratch, filters, report))
        if ready.added:
            pairs.append(_ready_pairs(read_parquet(database, [ready_file]), scratch, filters, report))
        write_pairs(pairs[0].union(*pairs[1:]) if pairs[1:] else pairs[0], folder, scratch, args, report)
    push(args)


def _read(log: ChatLog, filters: Filters, messages: BatchWriter, ready: BatchWriter) -> None:
    before = messages.added + ready.added + log.left_out.total()
    for place, item in read_log(log):
        try:
            "".join(value for value in item if isinstance(value, str)).encode()
        except UnicodeEncodeError:
            log.broken.add("not UTF-8", place, "half of a surrogate pair")
            continue
        if isinstance(item, Pair):
            texts, numbers = zip(*(_measure(text, filters) for text in item[:2]), strict=True)
            ready.add((*texts, *item[2:], *numbers[0], *numbers[1]), len(item.input) + len(item.response))
        else:
            text, measures = _measure(item.text, filters)
            row = (*item._replace(text=text), messages.added, *measures)
            messages.add(row, len(text) + 100)  # with its ids and times
    if messages.added + ready.added + log.left_out.total() == before:
        raise InputError("; ".join([f"{log.path}: no message and no pair in it", *log.broken.examples[:1]]))


def _measure(text: str, filters: Filters) -> tuple[str, tuple[int, int, str]]:
    text, characters, alphabetic = measure(text, filters)
    language = language_of(text, characters, alphabetic, filters) if filters.language else ""
    return text, (characters, alphabetic, language)


def _message_pairs(messages: ir.Table, scratch: Path, filters: Filters, report: dict[str, Any]) -> ir.Table:
    """The pairs of a kept turn and the kept turn that it answers."""
    read = messages.count().to_pyarrow().as_py()
    turns = keep(make_turns(messages, scratch), scratch, "turns")
    used = turns.messages.sum().to_pyarrow().as_py() or 0
    report["messages"] = {"read": read, REPEATED: read - used, "in turns": used}
    removed = rules(turns.text, turns.characters, turns.alphabetic, turns.speaker, turns.language, filters)
    turns = turns.mutate(rule=first_rule(removed))
    report["turns"] = count(turns, turns.rule, [*removed, KEPT])
    inputs = turns.select(answers="turn", input="text", input_rule="rule", input_speaker="speaker")
    joined = turns.filter(turns.rule == KEPT).left_join(inputs, "answers")
    lost = {
        "answer to nothing": joined.answers.isnull() & ~joined.lost,
        "message answered is not there": joined.lost,
        "answer to the same speaker": (joined.answers == joined.turn)
        | (joined.speaker == joined.input_speaker).fill_null(False),
        "message answered was removed": joined.input_rule != KEPT,
    }
    outcome = ibis.cases(*((condition, ibis.literal(name)) for name, condition in lost.items()), else_=PAIR)
    report["kept turns"] = count(joined, outcome, [*lost, PAIR])
    pairs = joined.filter(outcome == PAIR).drop("thread").inner_join(thread_names(turns, scratch), "turn")
    return pairs.select("input", "thread", "source", response="text").select(PAIR_SCHEMA.names)


def _ready_pairs(pairs: ir.Table, scratch: Path, filters: Filters, report: dict[str, Any]) -> ir.Table:
    """The pairs of which both texts are kept; those that name no thread are given one."""
    removed = {
        f"{side}: {name}": condition
        for side in ("input", "response")
        for name, condition in rules(
            pairs[side],
            pairs[f"{side}_characters"],
            pairs[f"{side}_alphabetic"],
            language=pairs[f"{side}_language"],
            filters=filters,
        ).items()
    }
    pairs = pairs.mutate(rule=first_rule(removed))
    report["pairs read"] = count(pairs, pairs.rule, [*removed, KEPT])
    kept = pairs.filter(pairs.rule == KEPT).select(PAIR_SCHEMA.names)
    bare = keep(kept.filter(kept.thread.isnull()).drop("thread"), scratch, "bare")
    bare = bare.order_by("source", "input", "response")  # it is read twice
    with parquet_writer(scratch / "named.parquet", PAIR_SCHEMA) as writer:
        for table in add_threads(lambda: batches(bare, scratch, "threads", 100_000)):
            writer.add_table(table.select(PAIR_SCHEMA.names).cast(PAIR_SCHEMA))
    named = read_parquet(pairs.get_backend(), [scratch / "named.parquet"])
    return kept.filter(kept.thread.notnull()).union(named)
