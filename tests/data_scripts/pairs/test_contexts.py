"""Earlier turns, against threads written by hand and a loop over random ones."""

import random

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pytest

from data_scripts.pairs.contexts import add_contexts, find_earlier_turns
from data_scripts.pairs.engines import connect

Node = tuple[str, str | None, bool]  # key, the key of its parent, whether the rules keep it
NODES = pa.schema([("key", pa.string()), ("parent", pa.string()), ("kept", pa.bool_())])


def random_nodes(seed: int, number: int = 80) -> list[Node]:
    """Chains with removed turns in a row, parents that are missing, links of turns to themselves and cycles."""
    draw = random.Random(seed)
    share = draw.choice([0.1, 0.5, 0.9])  # of the removed ones
    return [
        (
            f"n{row}",
            draw.choice([f"n{max(row - 1, 0)}"] * 6 + [f"n{draw.randrange(number + 9)}", f"n{row}", None]),
            draw.random() > share,
        )
        for row in range(number)
    ]


def pairs_of(nodes: list[Node]) -> list[tuple[str, str]]:
    """(key of the response, key of the input)."""
    kept = {key for key, _, is_kept in nodes if is_kept}
    return [(key, parent) for key, parent, _ in nodes if key in kept and parent in kept and parent != key]


def contexts_of(nodes: list[Node], turns: int) -> dict[str, list[str]]:
    """Response -> its context, found turn by turn."""
    parents, contexts = {key: parent for key, parent, _ in nodes}, {}
    kept = {key for key, _, is_kept in nodes if is_kept}
    for response, answered in pairs_of(nodes):
        seen, context = {response, answered}, []
        turn = parents[answered]
        while turn in parents and turn not in seen and len(context) < turns:
            seen.add(turn)
            context += [f"text {turn}"] if turn in kept else []
            turn = parents[turn]
        contexts[response] = context
    return contexts


def tables(nodes: list[Node]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """The pairs, the nodes and the texts."""
    columns = list(zip(*nodes, strict=True))
    keys, inputs = zip(*pairs_of(nodes), strict=True)
    texts = pa.table({"key": columns[0], "text": [f"text {key}" for key in columns[0]]})
    return pa.table({"key": keys, "turn0": inputs}), pa.table(list(map(list, columns)), schema=NODES), texts


def in_database(nodes: list[Node]) -> list[ir.Table]:
    """The tables of `tables` in DuckDB."""
    database = ibis.duckdb.connect()
    return [database.create_table(name, table) for name, table in zip("pnt", tables(nodes), strict=True)]


def found_contexts(pairs: ir.Table, nodes: ir.Table, texts: ir.Table, turns: int) -> dict[str, list[str]]:
    earlier = find_earlier_turns(nodes, pairs, turns)
    rows = add_contexts(earlier, texts, turns).to_pyarrow().to_pylist()
    assert len(rows) == len({row["key"] for row in rows})
    return {row["key"]: row["context"] for row in rows}


@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_contexts_equal_those_of_a_loop_over_the_turns(seed, turns):
    nodes = random_nodes(seed)
    assert found_contexts(*in_database(nodes), turns) == contexts_of(nodes, turns)


def test_the_chain_continues_past_many_removed_turns_and_ends_at_a_missing_one():
    nodes: list[Node] = [("a", "missing", True)]
    nodes += [(f"r{number}", f"r{number - 1}" if number else "a", False) for number in range(300)]
    nodes += [("b", "r299", True), ("c", "b", True)]
    pairs, links, texts = in_database(nodes)
    assert found_contexts(pairs, links, texts, 3) == {"c": ["text a"]}
    (row,) = find_earlier_turns(links, pairs, 2).to_pyarrow().to_pylist()
    assert row == {"key": "c", "turn0": "b", "turn1": "a", "turn2": "missing"}


def test_a_response_that_its_input_answers_is_no_earlier_turn():
    nodes: list[Node] = [("a", "b", True), ("b", "a", True), ("x", "y", False), ("y", "x", False), ("c", "x", True)]
    nodes += [("d", "c", True)]
    assert found_contexts(*in_database(nodes), 3) == {"a": [], "b": [], "d": []}


def test_the_joins_of_many_turns_fit_in_the_memory_of_one(tmp_path):
    rows, turns = 150_000, 8
    with connect(tmp_path, "90MB") as database:
        database.raw_sql("SET threads = 2")  # every thread has memory of its own
        database.raw_sql(
            "CREATE TABLE nodes AS SELECT 'key ' || i AS key, 'key ' || (i - 1) AS parent, true AS kept, "
            f"repeat('text of ' || i || ' ', 5) AS text FROM range({rows}) numbers(i)"
        )
        nodes = database.table("nodes")
        earlier = find_earlier_turns(nodes.drop("text"), nodes.select("key", turn0="parent"), turns)
        found = add_contexts(earlier, nodes.select("key", "text"), turns)
        lengths = found.context.length()
        assert found.aggregate(sum=lengths.sum(), longest=lengths.max()).to_pyarrow().to_pylist() == [
            {"sum": turns * rows - sum(range(2, turns + 2)), "longest": turns}
        ]
