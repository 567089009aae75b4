"""Joins messages to turns, and finds the turn that each one answers and who answers."""

import shlex
from collections import Counter
from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from data_scripts.chats.column_roles import answering_roles
from data_scripts.pairs.engines import materialize
from modeling_convsim.files.errors import InputError


def make_turns(messages: ir.Table) -> ir.Table:
    """Join consecutive messages of a speaker to turns, and find the turn that each turn answers.

    Within a source and thread, messages are ordered by time, then by row. A message without a parent joins the message
    before it if both have the same known speaker. A pause longer than the gap of a message ends the conversation before
    it. A turn answers the turn that contains its parent or, without a parent, the previous turn of the conversation.

    Args:
        messages: the columns of `schemas.MESSAGE_SCHEMA`, explained in `messages.Message`; `row` numbers the
            messages from 0. Of the messages with the same id in a source only the first is used.

    Returns:
        `turn` (its lowest row), `id` (of its first message), `answers` (a turn, or null), `lost` (whether its parent is
        missing), `thread, speaker, source, gap, text, characters, alphabetic, language`, and `messages` (their number).
        Texts are joined by a space; the language is that of the longest text.
    """
    first = messages.group_by("source", "id").agg(row=ibis._.row.min())
    messages = messages.semi_join(first, "row")
    ordered = materialize(_in_order(messages), "order")
    holders = ordered.select("source", parent="id", holder="turn")
    heads = ordered.filter(ordered.starts)
    heads = heads.left_join(holders, ["source", "parent"]).mutate(
        answers=ibis.ifelse(
            heads.parent.notnull(), ibis._.holder, ibis.ifelse(heads.ends, ibis.null("int64"), ibis._.previous)
        ),
        lost=(heads.parent != "").fill_null(False) & ibis._.holder.isnull(),
    )
    heads = heads.select("turn", "id", "answers", "lost", "thread", "speaker", "source", "gap", messages="size")
    return heads.inner_join(_texts(messages, ordered), "turn")


def _in_order(messages: ir.Table) -> ir.Table:
    """Messages without their texts, each with its turn and the turn before that in its thread."""
    lane = ibis.coalesce(messages.thread, messages.id)
    table = messages.select("row", "id", "parent", "thread", "speaker", "time", "source", "gap", lane=lane)
    order = {"group_by": ["source", "lane"], "order_by": ["time", "row"]}
    window = ibis.window(**order)
    table = table.mutate(
        before=table.speaker.lag().over(window),
        pause=table.time - table.time.lag().over(window),
        first=table.row.lag().over(window).isnull(),
    )
    table = table.mutate(ends=table.first | (table.pause > table.gap).fill_null(False))
    table = table.mutate(starts=table.parent.notnull() | table.ends | (table.speaker != table.before).fill_null(True))
    table = table.mutate(number=table.starts.cast("int64").sum().over(ibis.cumulative_window(**order)))
    same_turn = ibis.window(group_by=["source", "lane", "number"])
    table = table.mutate(turn=table.row.min().over(same_turn), size=ibis._.count().over(same_turn))
    table = table.mutate(previous=table.turn.lag().over(window))
    return table.drop("before", "pause", "first", "number", "lane")


def _texts(messages: ir.Table, ordered: ir.Table) -> ir.Table:
    """`turn, text, characters, alphabetic, language` of each turn."""
    measured = ["text", "characters", "alphabetic", "language"]
    members = messages.select("row", *measured).inner_join(ordered.select("row", "turn", "time", "size"), "row")
    # Joining texts keeps them in memory; most turns have one message, whose text need not be joined.
    single = members.filter(members.size == 1).select("turn", *measured)
    parts = members.filter(members.size > 1)
    said = parts.text != ""
    joined = parts.group_by("turn").agg(
        text=parts.text.group_concat(" ", where=said, order_by=[parts.time, parts.row]).fill_null(""),
        characters=(parts.characters.sum() + ibis.greatest(said.sum() - 1, 0)).cast("int32"),
        alphabetic=parts.alphabetic.sum().cast("int32"),
        language=parts.language.argmax(parts.characters),
    )
    return single.union(joined)


SHOWN = 10  # authors, in a message
MOST_REPLIERS = 10  # that are found; more are named by a column of roles
FEWEST_REPLIES = 5  # of each
FEWEST_ASKERS = 3  # for each of them; two people who chat with each other have no roles
BETWEEN = 0.95  # of the pairs have one of them on exactly one side


def check_repliers(messages: ir.Table, repliers: Sequence[str]) -> None:
    """Check that each of the names is that of an author.

    Args:
        messages: with the column `speaker`.
        repliers: the names; empty: nothing is checked.

    Raises:
        InputError: one is not; the message has the most frequent authors.
    """
    if not repliers:
        return
    counts = messages.filter(messages.speaker.notnull()).group_by("speaker").agg(messages=ibis._.count())
    known = counts.filter(counts.speaker.isin(repliers)).to_pyarrow()["speaker"].to_pylist()
    missing = [name for name in repliers if name not in known]
    if not missing:
        return
    frequent = counts.order_by(counts.messages.desc(), "speaker").limit(SHOWN).to_pyarrow().to_pylist()
    names = ", ".join(f"{shlex.quote(each['speaker'])} ({each['messages']:,})" for each in frequent)
    remedy = f"the authors with the most messages are {names}" if names else "name their column: --columns speaker=NAME"
    raise InputError(f"--repliers {shlex.quote(missing[0])}: no message is by this author; {remedy}")


def find_repliers(pairs: Sequence[tuple[str | None, str | None]]) -> list[str]:
    """The few authors who answer many others, such as the agents of a support log; none if there are no such roles.

    Args:
        pairs: the authors of input and response of each pair.
    """
    replies = Counter(replier for _, replier in pairs if replier)
    authors = {author for pair in pairs for author in pair if author}
    if roles := answering_roles(authors):
        return roles
    partners: dict[str, set[str]] = {}
    for asker, replier in pairs:
        if asker and replier:
            partners.setdefault(replier, set()).add(asker)
    ranked = sorted(partners, key=lambda name: (-len(partners[name]), -replies[name], name))
    for count in range(1, min(MOST_REPLIERS, len(ranked)) + 1):
        found = set(ranked[:count])
        if replies[ranked[count - 1]] < FEWEST_REPLIES or len(authors) < count * (FEWEST_ASKERS + 1):
            break
        between = sum((asker in found) != (replier in found) for asker, replier in pairs)
        if between >= BETWEEN * len(pairs):
            return ranked[:count]
    return []
