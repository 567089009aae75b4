import hashlib
import random

import pyarrow as pa

from data_scripts.chats.threads import add_threads


def table(*pairs: tuple[str, str, str], chains: list[int] | None = None) -> pa.Table:
    columns = dict(zip(("input", "response", "source"), map(list, zip(*pairs, strict=True)), strict=True))
    return pa.table(columns | {"chain": chains or list(range(len(pairs)))})


def long(word: str) -> str:
    return f"a sentence of more than twenty characters about {word}"


def parts(pairs: pa.Table) -> list[pa.Table]:
    return [pairs.slice(start, 30) for start in range(0, len(pairs), 30)]


def threads(*pairs: tuple[str, str, str], chains: list[int] | None = None) -> list[str]:
    tables = parts(table(*pairs, chains=chains))
    return [name for part in add_threads(lambda: tables) for name in part["thread"].to_pylist()]


def brute_force_components(pairs: list[tuple[str, str, str]], chains: list[int]) -> set[frozenset[int]]:
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
    pairs = sorted({(draw.choice(words), draw.choice(words), draw.choice("ab")) for _ in range(100)})
    chains = [draw.randrange(80) + 100 * (source == "b") for *_, source in pairs]
    members: dict[str, set[int]] = {}
    for index, name in enumerate(threads(*pairs, chains=chains)):
        members.setdefault(name, set()).add(index)
    assert set(map(frozenset, members.values())) == brute_force_components(pairs, chains)


def test_a_text_of_20_characters_does_not_connect_and_one_of_21_does():
    first, second = threads(("a" * 20, "one", "s"), ("a" * 20, "two", "s"))
    assert first != second
    first, second = threads(("a" * 21, "one", "s"), ("two", "a" * 21, "s"))
    assert first == second


def test_a_thread_is_named_after_the_smallest_hash_of_its_long_texts():
    texts = [long("cats"), long("dogs"), "yes"]
    smallest = min(hashlib.sha256(f"s\t{text}".encode()).hexdigest() for text in texts[:2])[:16]
    assert threads((texts[0], texts[1], "s"), (texts[1], texts[2], "s")) == [f"s/{smallest}"] * 2


def test_a_threads_name_does_not_depend_on_the_order_or_on_other_threads():
    own = [(long("cats"), long("dogs"), "s"), (long("dogs"), "yes", "s"), ("yes", "no", "s")]
    others = [(long(str(number)), "yes", "s") for number in range(50)]
    names = dict(zip(own, threads(*own), strict=True))
    mixed = [*others, *reversed(own)]
    later = dict(zip(mixed, threads(*mixed), strict=True))
    assert {pair: later[pair] for pair in own} == names


def test_pairs_without_any_long_text_get_threads_too():
    pairs = [("yes", "no", "s"), ("no", "yes", "s"), ("yes", "no", "other")]
    keys = ["\t".join((source, first, second)) for first, second, source in pairs]
    names = [hashlib.sha256(key.encode()).hexdigest()[:16] for key in keys]
    assert threads(*pairs) == [f"{source}/{name}" for (*_, source), name in zip(pairs, names, strict=True)]


def test_a_chain_of_short_texts_is_one_thread_named_after_its_smallest_pair():
    pairs = [("hi", "hello", "s"), ("hello", "how are you", "s"), ("how are you", "fine", "s"), ("hi", "bye", "s")]
    keys = [
        hashlib.sha256("\t".join((source, first, second)).encode()).hexdigest()[:16] for first, second, source in pairs
    ]
    assert threads(*pairs, chains=[0, 0, 0, 3]) == [f"s/{min(keys[:3])}"] * 3 + [f"s/{keys[3]}"]
