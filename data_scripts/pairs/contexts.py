"""Joins pairs to the earlier turns of their threads, on any engine.

The keys of the earlier turns are found first, in tables without texts; each of the texts is then joined once. Engines
spill such joins to disk, but not the lists that an aggregation collects. Each join is a query of its own, because a
query with several large joins holds the hash tables of all of them, which may exceed DuckDB's memory limit.
"""

import ibis
import ibis.expr.types as ir

from data_scripts.pairs.engines import materialize


def find_earlier_turns(nodes: ir.Table, pairs: ir.Table, turns: int) -> ir.Table:
    """The keys of the earlier turns of each pair, the newest first.

    The first of them is the turn that the input answers, the next is the turn that this one answers, and so on. Turns
    that the rules removed are left out. The chain ends at a turn that is not there or that comes again.

    Args:
        nodes: all turns: their unique `key`, `parent` (the key of the turn that it answers, or null) and `kept`
            (whether the rules keep it).
        pairs: `key`, which identifies a pair, and `turn0`, the key of its input, or null for no earlier turns. If the
            key of a pair is that of its response, the response is no earlier turn.
        turns: the maximum number of earlier turns.

    Returns:
        `key, turn0, turn1` …, where a key may be null.
    """
    chain = pairs.select("key", "turn0")
    if not turns:
        return chain
    parents = materialize(_kept_parents(nodes), "parents")
    for number in range(1, turns + 1):
        known = chain.columns
        joined = chain.left_join(parents, [(f"turn{number - 1}", "child")])
        comes_again = ibis.or_(*(joined.parent == joined[name] for name in known))
        earlier = ibis.ifelse(comes_again, ibis.null(joined.parent.type()), joined.parent)
        chain = joined.mutate(earlier=earlier).select(*known, **{f"turn{number}": "earlier"})
        chain = materialize(chain, "earlier turns")
    return chain


def _kept_parents(nodes: ir.Table) -> ir.Table:
    """`child, parent` of each kept turn: the nearest turn before it that the rules did not remove."""
    removed = _skip_removed(nodes.filter(~nodes.kept).select(middle="key", next="parent"))
    links = nodes.filter(nodes.kept).select("parent", child="key")
    joined = links.left_join(removed, [("parent", "middle")])
    return joined.select("child", parent=ibis.ifelse(joined.middle.notnull(), joined.next, joined.parent))


def _skip_removed(removed: ir.Table) -> ir.Table:
    """Let `next` of each removed turn `middle` be the nearest turn before it that was not removed, or null.

    Each pass doubles the number of removed turns that are skipped. Turns in a cycle are skipped in no pass.
    """
    removed, left = materialize(removed, "removed"), None
    while True:
        further = removed.select(target="middle", beyond="next")
        joined = removed.left_join(further, [("next", "target")])
        skips = joined.target.notnull()
        removed = materialize(
            joined.select("middle", next=ibis.ifelse(skips, joined.beyond, joined.next), skips=skips), "removed"
        )
        before, left = left, removed.filter(removed.skips).count().to_pyarrow().as_py()
        if left in (0, before):
            return removed.select(
                "middle", next=ibis.ifelse(removed.skips, ibis.null(removed.next.type()), removed.next)
            )


def add_contexts(earlier: ir.Table, texts: ir.Table, turns: int) -> ir.Table:
    """Replace the keys of earlier turns by the column `context`: their texts, the newest first; it is never null.

    Args:
        earlier: the table of `find_earlier_turns`.
        texts: `key, text` of all turns; engines read them once.
        turns: the maximum number of earlier turns.
    """
    found = earlier.mutate(context=ibis.literal([], type="array<string>"))
    if not turns:
        return found
    keys = [earlier.select(key=f"turn{number}") for number in range(1, turns + 1)]
    needed = materialize(texts.semi_join(ibis.union(*keys, distinct=True), "key"), "earlier texts")
    for number in range(1, turns + 1):
        turn = f"turn{number}"
        joined = found.left_join(needed.select(turn_key="key", turn_text="text"), [(turn, "turn_key")])
        # No text follows a missing one, which is that of a turn that is not there.
        longer = joined.context.concat(ibis.array([joined.turn_text]))
        longer = ibis.ifelse(joined.turn_text.isnull(), joined.context, longer)
        found = joined.mutate(context=longer).drop(turn, "turn_key", "turn_text")
        found = materialize(found, "texts of earlier turns")
    return found
