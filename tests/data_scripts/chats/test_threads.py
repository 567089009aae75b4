"""Threads of pairs that have none."""

import hashlib
import random

import ibis
import pyarrow as pa

from data_scripts.chats.threads import name_bare_threads

Bare = tuple[str, str, str]  # input, response, source


def long(word: str) -> str:
    return f"a sentence of more than twenty characters about {word}"


def threads(*pairs: Bare, chains: list[int] | None = None) -> list[str]:
    columns = dict(zip(("input", "response", "source"), map(list, zip(*pairs, strict=True)), strict=True))
    numbers = list(range(len(pairs)))
    table = ibis.duckdb.connect().create_table("p", pa.table(columns | {"chain": chains or numbers, "row": numbers}))
    return name_bare_threads(table).order_by("row").to_pyarrow()["thread"].to_pylist()


def name(*pairs: Bare) -> str:
    """The name of the thread of some pairs, with the smallest of their hashes."""
    return f"{pairs[0][2]}/" + min(hashlib.sha256(f"{one}\t{two}".encode()).hexdigest()[:16] for one, two, _ in pairs)


def brute_force_components(pairs: list[Bare], chains: list[int]) -> set[frozenset[int]]:
    """Grow a component from each pair until no other pair shares a long text or a chain with it."""
    texts: list[set] = [{(source, text) for text in pair if len(text) > 20} for *pair, source in pairs]
    texts = [held | {chain} for held, chain in zip(texts, chains, strict=True)]
    left, components = set(range(len(pairs))), set()
    while left:
        component, reached = set(), {left.pop()}
        while reached:
            component |= reached
            held = set().union(*(texts[index] for index in component))
            reached = {index for index in left if texts[index] & held}
            left -= reached
        components.add(frozenset(component))
    return components


def test_components_equal_those_of_a_brute_force_search():
    draw = random.Random(0)
    words = [long(str(number)) for number in range(60)] + ["thanks", "no", "exactly twenty chars"]
    words.append("twenty-one characters")
    pairs = sorted({(draw.choice(words), draw.choice(words), draw.choice("ab")) for _ in range(100)})
    chains = [draw.randrange(80) + 100 * (source == "b") for *_, source in pairs]
    members: dict[str, set[int]] = {}
    for index, thread in enumerate(threads(*pairs, chains=chains)):
        members.setdefault(thread.partition("/part ")[0], set()).add(index)
    assert set(map(frozenset, members.values())) == brute_force_components(pairs, chains)


def test_a_thread_is_named_after_its_source_and_the_smallest_hash_of_its_pairs():
    pairs = [(long("cats"), long("dogs"), "s"), (long("dogs"), "yes", "s"), ("yes", "no", "s"), ("yes", "no", "t")]
    assert threads(*pairs) == [name(*pairs[:2])] * 2 + [name(pairs[2]), name(pairs[3])]
    pairs = [("hi", "hello", "s"), ("hello", "how are you", "s"), ("how are you", "fine", "s"), ("hi", "bye", "s")]
    assert threads(*pairs, chains=[0, 0, 0, 3]) == [name(*pairs[:3])] * 3 + [name(pairs[3])]


def test_a_thread_of_more_than_a_tenth_of_a_source_is_divided():
    pairs = [(long("thanks"), str(number), "s") for number in range(30)]
    first = name(*pairs)
    assert threads(*pairs) == [first] * 20 + [f"{first}/part 2"] * 10
    others = [("hi", str(number), "s") for number in range(270)]
    assert threads(*pairs, *others)[:30] == [first] * 30
    assert threads(*pairs[:20], ("hi", "ho", "t")) == [name(*pairs[:20])] * 20 + [name(("hi", "ho", "t"))]
