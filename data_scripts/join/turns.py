"""From messages to turns, each of which answers another turn or none, and to the threads that they make."""

from pathlib import Path

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from data_scripts.join.engines import keep, read_parquet


def make_turns(messages: ir.Table, scratch: Path) -> ir.Table:
    """Join consecutive messages of a speaker to turns, and find what each turn answers.

    Within a source and thread, messages are in order of time, then of row. One without a parent joins the message
    before it if both are of the same known speaker; a pause longer than its gap ends the conversation before it. A turn
    answers the turn that holds its parent, or without one the turn before it in the conversation.

    Args:
        messages: `id, parent, thread, speaker, time, text, source, gap` as in `chat_tables.Message`; `row`, int64 from
            0, each once; `characters, alphabetic, language` of the text. Of those with one id in a source only the
            first is used.
        scratch: a folder for files that are not kept.

    Returns:
        `turn` (the lowest row in it), `id` (of its first message), `answers` (a turn, or null), `lost` (whether its
        parent is not there), `thread, speaker, source, gap, text, characters, alphabetic, language`, and `messages`
        (how many it holds). Texts are joined by a space; the language is that of the longest.
    """
    first = messages.group_by("source", "id").agg(row=ibis._.row.min())
    messages = messages.semi_join(first, "row")
    ordered = keep(_in_order(messages), scratch, "order")
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
    """Messages without their texts: the turn that each is in, and the turn before it in its thread."""
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
    # Texts that are gathered to be joined are held in memory; most turns are one message, and need not be.
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


def thread_names(turns: ir.Table, scratch: Path) -> ir.Table:
    """`turn, thread` of every turn: the thread that it names, unless pauses end conversations there, or none is named.

    A conversation is then a thread: the turns that are connected by what answers what, named after the first of them.
    Memory holds about 60 bytes a message.

    Args:
        turns: the table of `make_turns`.
        scratch: a folder for files that are not kept.
    """
    named = turns.thread.notnull() & turns.gap.isnull()
    links = turns.filter(~named).select("turn", answers=ibis.coalesce(turns.answers, turns.turn)).to_pyarrow()
    ends = [links[name].to_numpy() for name in ("turn", "answers")]
    size = max((int(end.max()) for end in ends if len(end)), default=0) + 1
    graph = coo_array((np.ones(len(links), bool), tuple(ends)), shape=(size, size))
    number, component = connected_components(graph, directed=False)
    roots = np.full(number, size)
    np.minimum.at(roots, component[ends[0]], np.minimum(*ends))
    file = scratch / "roots.parquet"
    pq.write_table(pa.table({"turn": ends[0], "root": roots[component[ends[0]]]}), file)
    heads = turns.select(root="turn", name=ibis.coalesce(turns.thread, turns.source) + "/" + turns.id)
    roots = read_parquet(turns.get_backend(), [file]).inner_join(heads, "root")
    return turns.filter(named).select("turn", "thread").union(roots.select("turn", thread="name"))
