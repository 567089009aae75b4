"""Finds the messages that a program sends before a person answers, such as "Thank you for contacting us (#48216)".

Such a message is the first answer in its thread, has the same text in many threads apart from numbers, quotations and
names, and another answer follows it before the one who opened the thread has written again. An agent's canned reply
usually ends its thread, or the customer answers it. If another message such as "Anything else?" follows, the message is
automatic only if its author writes little else, or if it answers half of all threads.
"""

import ibis
import ibis.expr.types as ir

SHORTEST = 40  # characters; shorter texts are said again by chance
FEWEST = 5  # threads with the same text
_VARIABLE = r'\S*\d\S*|"[^"]*"|“[^”]*”|„[^“]*“|«[^»]*»'  # ids, dates, addresses with digits; quoted subjects


def leave_out_automatic(messages: ir.Table) -> ir.Table:
    """The messages without those that a program sent; a message that answers one of them answers what that answered.

    Args:
        messages: the columns of `schemas.MESSAGE_SCHEMA`. Those without a thread or speaker stay.
    """
    from data_scripts.pairs.engines import materialize

    answers = materialize(_first_answers(messages), "first answers")
    authors = answers.group_by("source", "speaker").agg(followed=ibis._.is_followed.sum(), threads=ibis._.count())
    authors = authors.filter((authors.followed > 0) & (authors.threads >= FEWEST))  # spares most texts the patterns
    texts = messages.filter(ibis._.characters >= SHORTEST).select("row", template=_template(messages.text))
    counts = (
        answers.semi_join(authors, ["source", "speaker"])
        .inner_join(texts, "row")
        .group_by("source", "speaker", "template")
        .agg(
            threads=ibis._.count(),
            followed=ibis._.is_followed.sum(),
            ended=(~ibis._.has_next).sum(),
        )
    )
    # Tickets that nobody answered say nothing, but some must have been.
    is_followed = (counts.followed * 2 >= counts.threads - counts.ended) & (counts.followed * 5 >= counts.threads)
    candidates = materialize(counts.filter((counts.threads >= FEWEST) & is_followed), "automatic messages")
    if not candidates.count().to_pyarrow().as_py():
        return messages
    chosen = _select(candidates, messages, answers)
    written = messages.semi_join(chosen, ["source", "speaker"]).filter(ibis._.thread.notnull())
    left_out = written.mutate(template=_template(written.text)).semi_join(chosen, ["source", "speaker", "template"])
    left_out = materialize(left_out.select("row", "id", "parent", "source"), "automatic messages")
    parents = left_out.select("source", parent="id", grandparent="parent").distinct(on=["source", "parent"])
    kept = messages.anti_join(left_out, "row").left_join(parents, ["source", "parent"])
    kept = kept.mutate(parent=ibis.ifelse(kept.parent_right.notnull(), kept.grandparent, kept.parent))
    return kept.select(messages.columns)


def _template(text: ir.StringValue) -> ir.StringValue:
    return text.re_replace(_VARIABLE, "#").re_replace(r"\s+", " ").lower()


def _first_answers(messages: ir.Table) -> ir.Table:
    """`row, source, speaker` of each thread's first message by another than who opened it, and what follows it.

    `has_next`: whether a message follows; `is_followed`: whether it is another answer.
    """
    table = messages.filter(messages.thread.notnull() & messages.speaker.notnull())
    table = table.select("row", "source", "thread", "speaker", "time")
    order = {"group_by": ["source", "thread"], "order_by": ["time", "row"]}
    window = ibis.window(**order)
    table = table.mutate(opener=table.speaker.first().over(window), following=table.speaker.lead().over(window))
    table = table.mutate(is_answer=table.speaker != table.opener)
    table = table.mutate(number=table.is_answer.cast("int64").sum().over(ibis.cumulative_window(**order)))
    first = table.filter(table.is_answer & (table.number == 1))
    return first.select(
        "row",
        "source",
        "speaker",
        has_next=first.following.notnull(),
        is_followed=(first.following != first.opener).fill_null(False),
    )


def _select(candidates: ir.Table, messages: ir.Table, answers: ir.Table) -> ir.Table:
    """The candidates of authors who write little else, and those that answer half of their source's threads."""
    written = messages.group_by("source", "speaker").agg(written=ibis._.count())
    threads = answers.group_by("source").agg(answered=ibis._.count())
    table = candidates.inner_join(written, ["source", "speaker"]).inner_join(threads, "source")
    together = table.threads.sum().over(ibis.window(group_by=["source", "speaker"]))
    return table.filter((together * 2 >= table.written) | (table.threads * 2 >= table.answered))
