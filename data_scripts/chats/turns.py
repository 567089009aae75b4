"""Joins messages to turns, and finds the turn that each one answers and who answers."""

import shlex
from collections import Counter
from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from data_scripts.chats.column_roles import MOST_SIDES, answering_roles, side_of
from data_scripts.chats.threads import find_roots
from data_scripts.pairs.engines import materialize
from modeling_convsim.files.errors import InputError


def make_turns(messages: ir.Table) -> ir.Table:
    """Join consecutive messages of a speaker to turns, and find the turn that each turn answers.

    Within a source and thread, messages are ordered by time, then by row. A message without a parent joins the message
    before it if both have the same known speaker. A pause longer than the gap of a message ends the conversation before
    it. Replies of a speaker to the same message that nobody else's reply to it separates, and to the speaker's own
    message, are parts of one turn, until somebody answers one of them, or a pause is longer than the gap. A turn
    answers the turn that contains its parent or, without a parent, the previous turn of the conversation.

    Args:
        messages: the columns of `schemas.MESSAGE_SCHEMA`, explained in `messages.Message`; `row` numbers the
            messages from 0. Of the messages with the same id in a source only the first is used.

    Returns:
        `turn` (its lowest row), `id` (of its first message), `answers` (a turn, or null), `lost` (whether its parent is
        missing), `thread, speaker, source, gap, is_answer` (of its first message), `text, characters, alphabetic,
        language`, and `messages` (their number).
        Texts are joined by a space; the language is that of the longest text.
    """
    first = messages.group_by("source", "id").agg(row=ibis._.row.min())
    messages = messages.semi_join(first, "row")
    ordered = materialize(_in_order(messages), "order")
    holders = ordered.select("source", parent="id", holder="turn")
    heads = ordered.filter(ordered.starts).left_join(holders, ["source", "parent"])
    heads = materialize(heads.drop("starts", "source_right", "parent_right"), "heads")
    if heads.holder.notnull().any().to_pyarrow().as_py():
        parts = materialize(_find_parts(heads), "parts")
    else:
        parts = heads.limit(0).select(part="turn", whole="turn", order="row")
    answers = ibis.ifelse(heads.parent.notnull(), heads.holder, ibis.ifelse(heads.ends, None, heads.previous))
    lost = (heads.parent != "").fill_null(False) & heads.holder.isnull()
    heads = heads.mutate(answers=answers, lost=lost).anti_join(parts.filter(parts.order > 0), [("turn", "part")])
    heads = _in_wholes(_in_wholes(heads, "turn", parts), "answers", parts)
    heads = heads.select("turn", "id", "answers", "lost", "thread", "speaker", "source", "gap", "is_answer")
    ordered = ordered.left_join(parts.select("part", "order"), [("turn", "part")]).drop("part")
    return heads.inner_join(_texts(messages, _in_wholes(ordered, "turn", parts)), "turn")


def _find_parts(heads: ir.Table) -> ir.Table:
    """`part, whole, order` of the turns with parents that are parts of one reply: the lowest of them is the whole.

    `heads` are the first messages of turns, with the turn that holds the parent of each in `holder`. If a source has
    most replies before what they answer, the newest message is first in it, so the later of two rows of one time, too.
    """
    is_backward = (heads.turn < heads.holder).cast("int8").mean().over(ibis.window(group_by="source")) > 0.5
    heads = heads.mutate(row=ibis.ifelse(is_backward, -heads.row, heads.row))
    replies = heads.inner_join(heads.select(holder="turn", author="speaker"), "holder")
    siblings = ibis.window(group_by="holder", order_by=["time", "row"])
    replies = replies.mutate(before=replies.turn.lag().over(siblings), neighbor=replies.speaker.lag().over(siblings))
    is_own = (replies.speaker == replies.author).fill_null(False)
    other = ibis.ifelse(is_own, replies.holder, ibis.ifelse(replies.speaker == replies.neighbor, replies.before, None))
    replies = materialize(replies.select("turn", "holder", "time", "row", "gap", is_own=is_own, other=other), "replies")
    links = replies.filter(replies.other.notnull()).select("turn", "other")
    roots = find_roots(links.union(links.select(turn="other", other="other")))
    # Each answer of somebody else to a part, and each long pause, ends the reply before it.
    members = heads.inner_join(roots, "turn")
    pause = members.time - members.time.lag().over(ibis.window(group_by="root", order_by=["time", "row"]))
    members = members.select("root", "turn", "time", "row", ends=(pause > members.gap).fill_null(False))
    others = replies.filter(~replies.is_own).drop("turn").inner_join(roots.select("root", holder="turn"), "holder")
    others = others.select("root", "time", "row", turn=ibis.null("int64"), ends=True)
    events = members.union(others.select(members.columns))
    order = ibis.cumulative_window(group_by="root", order_by=["time", "row"])
    events = events.mutate(number=events.ends.cast("int64").sum().over(order)).filter(ibis._.turn.notnull())
    reply = ibis.window(group_by=["root", "number"])
    order = ibis.row_number().over(ibis.window(group_by=["root", "number"], order_by=["time", "row"]))
    return events.select(part="turn", whole=events.turn.min().over(reply), order=order)


def _in_wholes(table: ir.Table, column: str, parts: ir.Table) -> ir.Table:
    """The table with the wholes of the parts in a column of turns."""
    table = table.left_join(parts.select("part", "whole"), [(column, "part")])
    return table.mutate(**{column: ibis.coalesce(table.whole, table[column])}).drop("part", "whole")


def _in_order(messages: ir.Table) -> ir.Table:
    """Messages without their texts, each with its turn and the turn before that in its thread."""
    lane = ibis.coalesce(messages.thread, messages.id)
    table = messages.select("row", "id", "parent", "thread", "speaker", "time", "source", "gap", "is_answer", lane=lane)
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
    table = table.mutate(turn=table.row.min().over(same_turn))
    table = table.mutate(previous=table.turn.lag().over(window))
    return table.drop("before", "pause", "first", "number", "lane")


def _texts(messages: ir.Table, ordered: ir.Table) -> ir.Table:
    """`turn, text, characters, alphabetic, language, messages` of each turn."""
    measured = ["text", "characters", "alphabetic", "language"]
    turns = ordered.select("row", "turn", "time", "order", messages=ibis._.count().over(group_by="turn"))
    members = messages.select("row", *measured).inner_join(turns, "row")
    # Joining texts keeps them in memory; most turns have one message, whose text need not be joined.
    single = members.filter(members.messages == 1).select("turn", *measured, "messages")
    parts = members.filter(members.messages > 1)
    said = parts.text != ""
    joined = parts.group_by("turn").agg(
        text=parts.text.group_concat(" ", where=said, order_by=[parts.time, parts.order, parts.row]).fill_null(""),
        characters=(parts.characters.sum() + ibis.greatest(said.sum() - 1, 0)).cast("int32"),
        alphabetic=parts.alphabetic.sum().cast("int32"),
        language=parts.language.argmax(parts.characters),
        messages=ibis._.count(),
    )
    return single.union(joined)


SHOWN = 10  # authors, in a message
MOST_REPLIERS = 10  # that are found; more are named by a column of roles
FEWEST_REPLIES = 5  # of each
FEWEST_ASKERS = 3  # for each of them; two people who chat with each other have no roles
BETWEEN = 0.95  # of the pairs have one of them on exactly one side


def mark_answers(messages: ir.Table, repliers: Sequence[str] | None) -> ir.Table:
    """The messages with `is_answer`: whether replies become pairs; null if the log does not say so.

    Args:
        messages: the columns of `schemas.MESSAGE_SCHEMA`.
        repliers: the authors of such replies; empty for the side that answers; None for all.

    Raises:
        InputError: one is not the author of any message.
    """
    if repliers:
        _check_repliers(messages, repliers)
        return messages.mutate(is_answer=messages.speaker.isin(repliers).fill_null(False))
    if repliers is None:
        return messages
    authors = messages.filter(messages.is_answer.isnull() & messages.speaker.notnull()).select("speaker").distinct()
    roles = answering_roles(authors.limit(MOST_SIDES + 1).to_pyarrow()["speaker"].to_pylist())
    if not roles or side_of(roles[0]) == "me":  # both friends of a chat answer
        return messages
    return messages.mutate(is_answer=ibis.coalesce(messages.is_answer, messages.speaker.isin(roles)))


def _check_repliers(messages: ir.Table, repliers: Sequence[str]) -> None:
    """Check that each of the names is that of an author; the error has the most frequent ones."""
    counts = messages.filter(messages.speaker.notnull()).group_by("speaker").agg(messages=ibis._.count())
    known = counts.filter(counts.speaker.isin(repliers)).to_pyarrow()["speaker"].to_pylist()
    missing = [name for name in repliers if name not in known]
    if not missing:
        return
    frequent = counts.order_by(counts.messages.desc(), "speaker").limit(SHOWN).to_pyarrow().to_pylist()
    names = ", ".join(f"{shlex.quote(each['speaker'])} ({each['messages']:,})" for each in frequent)
    remedy = f"the authors with the most messages are {names}" if names else "set their column: --columns speaker=NAME"
    raise InputError(f"--repliers {shlex.quote(missing[0])}: no messages by this author; {remedy}")


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
