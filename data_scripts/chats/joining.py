"""Joins stored messages to turns and pairs, and filters them; filters stored ready pairs.

The report counts why texts are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from data_scripts.clean.filters import KEPT, PAIR, REPEATED, Filters, count_values, first_rule, removal_rules
from data_scripts.dataset_folders import Report
from data_scripts.schemas import PAIR_SCHEMA

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from data_scripts.pairs.engines import Database

IN_ANOTHER_SOURCE, AUTOMATIC = "in another source", "automatic"
BETWEEN_PARTS = "between the parts of a long thread"
MESSAGES_FILE, READY_FILE = "messages.parquet", "ready.parquet"  # of `conversations.store_logs`


def join_logs(
    stored: tuple[int, int],
    database: Database,
    scratch: Path,
    filters: Filters,
    report: Report,
    repliers: Sequence[str] | None = None,
    context: int = 0,
) -> ir.Table:
    """The pairs of what `store_logs` wrote, and returned as `stored`; the texts left out are counted in `report`.

    Args:
        stored: how many messages and how many ready pairs there are.
        database: where they are joined.
        scratch: the folder of `store_logs`.
        filters: the rules.
        report: gets the counts.
        repliers: the authors whose replies become pairs; empty for those of the side that answers, if the logs say
            which one does; None for all.
        context: the maximum number of earlier turns of a pair.

    Returns:
        The columns of a pair, and `asker` and `replier`, the speakers of its texts, which may be null.

    Raises:
        InputError: a replier is not the author of any message.
    """
    from data_scripts.boilerplate.stored import strip_stored
    from data_scripts.pairs.engines import read_parquet

    messages, ready = stored
    if filters.strip_letters:
        report["removed from texts"] = strip_stored(scratch / MESSAGES_FILE, scratch / READY_FILE, filters)
    pairs = []
    if messages or not ready:
        table = read_parquet(database, [scratch / MESSAGES_FILE])
        pairs.append(_message_pairs(table, filters, report, repliers, context))
    if ready:
        pairs.append(_ready_pairs(read_parquet(database, [scratch / READY_FILE]), filters, report, context))
    return pairs[0].union(*pairs[1:]) if pairs[1:] else pairs[0]


def _message_pairs(
    messages: ir.Table, filters: Filters, report: Report, repliers: Sequence[str] | None, context: int
) -> ir.Table:
    """The pairs of a turn and the turn that it answers, if the rules keep both."""
    from data_scripts.chats.links import READ_WITHOUT_PREFIX, read_without_prefixes
    from data_scripts.chats.turns import mark_answers
    from data_scripts.pairs.contexts import add_contexts, find_earlier_turns

    messages = mark_answers(messages, repliers)
    messages, read_anew = read_without_prefixes(messages)
    messages = _leave_out_automatic(messages, filters, report)
    if read_anew:
        report["messages"][READ_WITHOUT_PREFIX] = read_anew
    turns = _filter_turns(messages, filters, report)
    has_links = messages.parent.notnull().any().to_pyarrow().as_py()
    names, is_divided = _name_threads(turns, may_divide=not has_links)
    joined = _join_answers(turns, names if is_divided else None)
    losses = _losses(joined, all_authors=repliers is None)
    outcome = first_rule(losses, PAIR)
    report["kept turns"] = count_values(joined, outcome, [*losses, PAIR])
    pairs = joined.filter(outcome == PAIR).drop("thread").inner_join(names, "turn")
    nodes = _links_within_threads(turns, names)
    earlier = find_earlier_turns(nodes, nodes.select("key", turn0="parent"), context)
    pairs = pairs.inner_join(add_contexts(earlier, turns.select("text", key="turn"), context), [("turn", "key")])
    pairs = pairs.mutate(response=pairs.text, asker=pairs.input_speaker, replier=pairs.speaker)
    return pairs.select(*PAIR_SCHEMA.names, "asker", "replier")


def _leave_out_automatic(messages: ir.Table, filters: Filters, report: Report) -> ir.Table:
    """The messages that a person wrote, or all of them, as the filters ask; counted."""
    from data_scripts.chats.automatic import leave_out_automatic

    read = _count(messages)
    report["messages"] = {"read": read}
    if filters.strip_letters:
        messages = leave_out_automatic(messages)
        report["messages"][AUTOMATIC] = read - _count(messages)
    return messages


def _filter_turns(messages: ir.Table, filters: Filters, report: Report) -> ir.Table:
    """The turns of messages, and in the column `rule` what removes each of them, or `KEPT`; counted."""
    from data_scripts.chats.turns import make_turns
    from data_scripts.pairs.engines import materialize

    counts = report["messages"]
    turns = materialize(make_turns(messages), "turns")
    used = turns.messages.sum().to_pyarrow().as_py() or 0
    counts |= {REPEATED: counts["read"] - counts.get(AUTOMATIC, 0) - used, "in turns": used}
    removed = removal_rules(turns.text, turns.characters, turns.alphabetic, turns.speaker, turns.language, filters)
    turns = turns.mutate(rule=first_rule(removed))
    report["turns"] = count_values(turns, turns.rule, [*removed, KEPT])
    return turns


def _name_threads(turns: ir.Table, may_divide: bool) -> tuple[ir.Table, bool]:
    """The name of each turn's thread, and whether long threads were divided; a part of a tree would lose many pairs."""
    from data_scripts.chats.threads import divide_threads, thread_names
    from data_scripts.pairs.engines import materialize

    names = materialize(thread_names(turns), "threads")
    divided = divide_threads(names) if may_divide else None
    return (names, False) if divided is None else (materialize(divided, "threads"), True)


def _join_answers(turns: ir.Table, parts: ir.Table | None) -> ir.Table:
    """The kept turns, with the text, the speaker and the rule of the turn that each one answers.

    Args:
        turns: as `_filter_turns` returns them.
        parts: the part of a thread in which each turn is, if threads were divided: then `part` and `other` are those
            of both turns.
    """
    inputs = turns.select(answers="turn", input="text", input_rule="rule", input_speaker="speaker")
    joined = turns.filter(turns.rule == KEPT).left_join(inputs, "answers")
    if parts is not None:
        answering, answered = parts.select(first="turn", part="thread"), parts.select(second="turn", other="thread")
        joined = joined.left_join(answering, joined.turn == answering.first)
        joined = joined.left_join(answered, joined.answers == answered.second)
    return joined


def _losses(joined: ir.Table, all_authors: bool) -> dict[str, ir.BooleanValue]:
    """Why a kept turn becomes no response -> whether it applies; of several, the first one counts."""
    from data_scripts.chats.links import LOST

    losses = {
        "starts a conversation": joined.answers.isnull() & ~joined.lost,
        LOST: joined.lost,
        "answer to the same speaker": (joined.answers == joined.turn)
        | (joined.speaker == joined.input_speaker).fill_null(False),
        "original message removed": joined.input_rule != KEPT,
    }
    if not all_authors:
        losses["reply of another author"] = ~joined.is_answer.fill_null(True)
    if "part" in joined.columns:  # a pair of two parts could have a text in each of two splits
        losses[BETWEEN_PARTS] = (joined.part != joined.other).fill_null(False)
    return losses


def _links_within_threads(turns: ir.Table, names: ir.Table) -> ir.Table:
    """`key, parent, kept` of each turn; `parent` is the turn that it answers, or null if that is in another thread."""
    import ibis

    links = turns.select("turn", "answers", kept=turns.rule == KEPT).inner_join(names, "turn")
    links = links.left_join(names.select(answered="turn", other="thread"), [("answers", "answered")])
    parent = ibis.ifelse(links.thread == links.other, links.answers, ibis.null("int64"))
    return links.select("kept", key="turn", parent=parent)


def _count(table: ir.Table) -> int:
    return table.count().to_pyarrow().as_py()


def _ready_pairs(pairs: ir.Table, filters: Filters, report: Report, context: int) -> ir.Table:
    """The pairs whose two texts the rules keep; threads are named for pairs that have none."""
    import ibis

    from data_scripts.chats.threads import LONG_TEXT, name_bare_threads
    from data_scripts.pairs.contexts import add_contexts, find_earlier_turns
    from data_scripts.pairs.engines import materialize

    rules = {
        side: removal_rules(
            pairs[side],
            pairs[f"{side}_characters"],
            pairs[f"{side}_alphabetic"],
            language=pairs[f"{side}_language"],
            filters=filters,
        )
        for side in ("input", "response")
    }
    removed = {f"{side}: {name}": condition for side, own in rules.items() for name, condition in own.items()}
    # The input of a pair is a turn, which answers the input of the pair that it follows.
    turns = pairs.select("input", key="row", parent="followed", kept=first_rule(rules["input"]) == KEPT)
    pairs = pairs.mutate(rule=first_rule(removed))
    # The threads of a comment in two dumps have different names, so that one could be in train and the other in test.
    first = pairs.source.min().over(ibis.window(group_by=["rule", "input", "response"]))
    is_long = (pairs.input_characters > LONG_TEXT) | (pairs.response_characters > LONG_TEXT)
    is_repeated = (pairs.rule == KEPT) & pairs.thread.isnull() & is_long & (pairs.source != first)
    pairs = pairs.mutate(rule=ibis.ifelse(is_repeated, IN_ANOTHER_SOURCE, pairs.rule))
    report["pairs read"] = count_values(pairs, pairs.rule, [*removed, IN_ANOTHER_SOURCE, KEPT])
    earlier = find_earlier_turns(turns, turns.select("key", turn0="key"), context)
    contexts = add_contexts(earlier, turns.select("key", text="input"), context)
    kept = pairs.filter(pairs.rule == KEPT).inner_join(contexts, [("row", "key")])
    kept = kept.select(*PAIR_SCHEMA.names, "row", "chain")
    bare = kept.filter(kept.thread.isnull()).select("row", "input", "response", "source", "chain")
    names = name_bare_threads(materialize(bare, "bare")).select(key="row", name="thread")
    named = kept.left_join(names, kept.row == names.key)
    pairs = named.mutate(thread=ibis.coalesce(named.thread, named.name)).select(PAIR_SCHEMA.names)
    nobody = ibis.null("string")
    return pairs.mutate(asker=nobody, replier=nobody)
