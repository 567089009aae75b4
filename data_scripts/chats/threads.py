"""Names threads: those of turns that answer each other, and of pairs that have none."""

import math

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

LONG_TEXT = 20  # characters; pairs that share a longer text are in the same thread
FEW_THREADS = 100  # fewer threads would leave a split with only a few of them
MOST_OF_A_SOURCE = 10  # a thread of bare pairs has at most this part of them
SHORTEST_PART = 20  # turns or pairs


def thread_names(turns: ir.Table) -> ir.Table:
    """`turn, thread` of each turn: its named thread, unless it has none or pauses end conversations within the thread.

    In that case each conversation is a thread: the turns that answers connect, named after the first turn. Memory grows
    by about 60 bytes per message.

    `turns` is the table of `make_turns`.
    """
    named = turns.thread.notnull() & turns.gap.isnull()
    links = turns.filter(~named).select("turn", other=ibis.coalesce(turns.answers, turns.turn))
    heads = turns.select(root="turn", name=ibis.coalesce(turns.thread, turns.source) + "/" + turns.id)
    roots = find_roots(links).inner_join(heads, "root")
    return turns.filter(named).select("turn", "thread").union(roots.select("turn", thread="name"))


def name_bare_threads(pairs: ir.Table) -> ir.Table:
    """Name a thread for each pair, given only the texts of the pairs.

    Pairs of the same source are connected if they share a text of more than 20 characters, as input or response, or are
    in the same chain. A connected component is a thread, named after its source and the smallest hash of its pairs,
    which does not depend on their order. One of more than a tenth of the pairs of its source, and more than 20, is
    divided into parts of so many pairs. Memory grows by about 60 bytes per pair; texts are not kept in it.

    Args:
        pairs: the columns `row` (unique), `input, response, source` and `chain` (its number), and others.

    Returns:
        The pairs, with the column `thread`.
    """
    sides = [pairs.select("row", "source", text=pairs[side]) for side in ("input", "response")]
    texts = sides[0].union(sides[1]).filter(ibis._.text.length() > LONG_TEXT)
    shared = texts.select(turn="row", other=texts.row.min().over(group_by=["source", "text"]))
    chained = pairs.select(turn="row", other=pairs.row.min().over(group_by="chain"))
    roots = find_roots(shared.union(chained))
    pairs = pairs.inner_join(roots.select("root", row="turn"), "row")
    digest = (pairs.input + "\t" + pairs.response).hexdigest("sha256").substr(0, 16)
    name = pairs.source + "/" + digest.min().over(group_by=["source", "root"])
    longest = ibis.greatest(SHORTEST_PART, (ibis._.count().over(group_by="source") / MOST_OF_A_SOURCE).ceil())
    number = ibis.row_number().over(group_by="root", order_by="row")
    pairs = pairs.mutate(name=name, part=number // longest)
    return pairs.mutate(thread=pairs.name + _suffix(pairs.part)).drop("root", "name", "part")


def find_roots(links: ir.Table) -> ir.Table:
    """`turn, root` of the turns or pairs in `turn`: the smallest one that the links between `turn` and `other` connect.

    The numbers of `links` are from 0; the second column may repeat the first.
    """
    table = links.to_pyarrow()
    if len(table):  # not if all threads are named, so that SciPy need not be imported
        table = _connect(*(table[name].to_numpy() for name in ("turn", "other")))
    name = ibis.util.gen_name("convsim")
    return links.get_backend().create_table(name, table.rename_columns(["turn", "root"]), temp=True)


def _connect(turns: np.ndarray, others: np.ndarray) -> pa.Table:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    size = int(max(turns.max(), others.max())) + 1
    graph = coo_array((np.ones(len(turns), bool), (turns, others)), shape=(size, size))
    number, component = connected_components(graph, directed=False)
    roots = np.full(number, size)
    np.minimum.at(roots, component[turns], np.minimum(turns, others))
    turns = np.unique(turns)
    return pa.table({"turn": turns, "root": roots[component[turns]]})


def _suffix(part: ir.IntegerValue) -> ir.StringValue:
    """What the name of a part of a thread ends with; the first part keeps the name of the thread."""
    return ibis.ifelse(part < 1, "", "/part " + (part.cast("int64") + 1).cast("string"))


def divide_threads(names: ir.Table) -> ir.Table | None:
    """The table of `thread_names` with long threads divided into parts by position; None if that is not needed.

    If there are fewer than 100 threads, a thread with more than a hundredth of all turns, and more than 20, is divided
    into parts of that size. The first part keeps the name.
    """
    threads, turns = (
        names.aggregate(threads=names.thread.nunique(), turns=names.count()).to_pyarrow().to_pylist()[0].values()
    )
    longest = max(SHORTEST_PART, math.ceil(turns / FEW_THREADS))
    if threads >= FEW_THREADS or turns <= longest:
        return None
    number = ibis.row_number().over(group_by="thread", order_by="turn")
    names = names.mutate(part=number // longest)
    return names.select("turn", thread=names.thread + _suffix(names.part))
