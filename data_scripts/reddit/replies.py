"""Joins comments to the comments that they reply to."""

import ibis
import ibis.expr.types as ir

from data_scripts.clean.filters import KEPT, PAIR, REPEATED, Filters, count_values, first_rule, removal_rules
from data_scripts.dataset_folders import Report
from data_scripts.pairs.contexts import add_contexts, find_earlier_turns
from data_scripts.pairs.engines import materialize
from data_scripts.schemas import PAIR_SCHEMA

NOT_THERE = "is not in the dumps"


def join_replies(comments: ir.Table, filters: Filters, submissions: bool, report: Report, context: int = 0) -> ir.Table:
    """Apply the rules to comments, and join each kept comment to the kept comment that it replies to.

    Of several comments with the same id, only the first by time, then by text, can be kept. This does not depend on the
    order of the files. Tables that are used more than once are materialized; apart from that of the earlier turns, they
    contain no texts, which are joined at the end to the rows that need them.

    Args:
        comments: the columns of `dumps.comment_schema`; a submission is a comment without a parent.
        filters: which rules apply.
        submissions: whether `comments` contains submissions, so that replies to them become pairs too.
        report: gets the counts of the comments by rule, and of the kept ones by outcome.
        context: the maximum number of earlier turns of a pair.

    Returns:
        The pairs, with the columns of `schemas.PAIR_SCHEMA`.
    """
    key, parent = _keys(comments, submissions)
    keyed = comments.mutate(key=key, parent=parent)
    rules: list[str] = []

    def apply_rules(texts: ir.Table) -> ir.Table:
        language = texts.language if filters.language else None
        removed = {REPEATED: texts.repeat}
        removed |= removal_rules(texts.body, texts.characters, texts.alphabetic, texts.author, language, filters)
        rules[:] = removed
        return texts.select("key", "parent", rule=first_rule(removed))

    first_pass = materialize(apply_rules(keyed.mutate(repeat=ibis.literal(False))), "first_pass")
    twice = first_pass.group_by("key").agg(rows=ibis._.count()).filter(ibis._.rows > 1).select("key")
    twice = materialize(twice, "twice")
    # A window over all comments would sort them with their texts: only comments that share an id are ranked.
    same_key = ibis.window(group_by="key", order_by=["created_utc", "body", "author", "parent_id"])
    ranked = keyed.semi_join(twice, "key").mutate(repeat=ibis.row_number().over(same_key) > 0)
    ranked = materialize(ranked, "ranked")
    filtered = first_pass.anti_join(twice, "key").union(apply_rules(ranked))
    report["comments"] = count_values(filtered, filtered.rule, [*rules, KEPT])

    # The kept comments, each with the key and rule of the comment that it replies to, or nulls.
    parents = filtered.filter(filtered.rule != REPEATED).select(parent_key=filtered.key, parent_rule=filtered.rule)
    kept = filtered.filter(filtered.rule == KEPT)
    with_parents = kept.left_join(parents, kept.parent == parents.parent_key)
    losses = _losses(with_parents, submissions)
    outcome = first_rule(losses, PAIR)
    joined = materialize(with_parents.select("key", "parent", outcome=outcome), "joined")
    report["kept comments"] = count_values(joined, joined.outcome, [*losses, PAIR])

    def texts(**columns: ir.Value) -> ir.Table:
        # Each use starts from the files: engines keep in memory what two parts of a query share.
        single = comments.select(key=key, **columns).anti_join(twice, "key")
        return single.union(ranked.filter(~ranked.repeat).select(single.columns))

    links = joined.filter(joined.outcome == PAIR).select("key", turn0="parent")
    nodes = filtered.filter(filtered.rule != REPEATED)
    links = find_earlier_turns(nodes.select("key", "parent", kept=nodes.rule == KEPT), links, context)
    bodies = texts(body=comments.body)
    links = add_contexts(links, bodies.select("key", text="body"), context)
    responses = texts(body=comments.body, link_id=comments.link_id, subreddit=comments.subreddit)
    responses = responses.inner_join(links, "key")
    inputs = bodies.semi_join(links.select(key=links.turn0).distinct(), "key").select(input_key="key", input="body")
    pairs = responses.inner_join(inputs, responses.turn0 == inputs.input_key)
    pairs = pairs.mutate(response=pairs.body, thread=pairs.link_id, source=ibis.literal("reddit/") + pairs.subreddit)
    return pairs.select(PAIR_SCHEMA.names)


def explain_losses(report: Report) -> str | None:
    """What to do if more comments reply to comments that are not in the dumps than give pairs; else None."""
    counts = report["kept comments"]
    lost = sum(count for name, count in counts.items() if name.endswith(NOT_THERE))
    if lost <= counts[PAIR]:
        return None
    return (
        f"{lost:,} comments reply to comments that are not in the dumps; add the other dumps of the same subreddits "
        "and of earlier months; ids must be spelled as on Reddit, such as parent_id t1_c0b2xyz and id c0b2xyz"
    )


def _keys(comments: ir.Table, submissions: bool) -> tuple[ir.StringValue, ir.StringValue]:
    """The key of each comment and the key of the comment or submission that it replies to."""
    if submissions:  # a submission and a comment may have the same id
        return ibis.ifelse(comments.parent_id == "", "t3_", "t1_") + comments.id, comments.parent_id
    # The key is a column of the file: engines read its values first, and the texts only of the rows that they need.
    is_reply = comments.parent_id.startswith("t1_")
    return comments.id, ibis.ifelse(is_reply, comments.parent_id.substr(3), ibis.null("string"))


def _losses(joined: ir.Table, submissions: bool) -> dict[str, ir.BooleanValue]:
    """Name -> condition under which a kept comment is in no pair, in the order in which they are counted."""
    if submissions:
        losses = {"submissions": joined.parent == ""}
        parent = "what is replied to"
    else:
        losses = {"replies to a submission": joined.parent.isnull()}
        parent = "comment replied to"
    return losses | {
        "replies to themselves": joined.parent == joined.key,
        f"{parent} {NOT_THERE}": joined.parent_rule.isnull(),
        f"{parent} was removed": joined.parent_rule != KEPT,
    }
