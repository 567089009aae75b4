import random

import ibis
import pyarrow as pa
import pytest

from data_scripts.clean.filters import (
    KEPT,
    PAPER,
    Filters,
    count_values,
    first_rule,
    is_placeholder,
    measure,
    measure_language,
    removal_rules,
)
from data_scripts.clean.text import unescape
from data_scripts.reddit.columns import measure_column

NONE, CHAT = Filters("none"), Filters("chat")


def removed_by(texts: list[str], authors: list[str] | None = None, filters: Filters = PAPER) -> list[str]:
    """The first rule that removes each text, computed by the engine."""
    rows = []
    for position, (text, author) in enumerate(zip(texts, authors or ["someone"] * len(texts), strict=True)):
        body, characters, alphabetic = measure(text, filters)
        row = {"position": position, "body": body, "characters": characters, "alphabetic": alphabetic, "author": author}
        rows.append(row | {"language": measure_language(*list(row.values())[1:4], filters)})
    table = ibis.memtable(rows)
    author = table.author if authors else None
    removed = removal_rules(table.body, table.characters, table.alphabetic, author, table.language, filters)
    return table.mutate(rule=first_rule(removed)).order_by("position").to_pyarrow()["rule"].to_pylist()


def test_350_characters_are_removed_and_349_are_kept():
    assert removed_by(["a" * 349, "é" * 349, "a" * 350]) == [KEPT, KEPT, "350 characters or more"]


def test_70_percent_is_exact_at_every_length():
    lengths = range(10, 350, 10)
    texts = [("a" * letters).ljust(n, ".") for n in lengths for letters in (n * 7 // 10, n * 7 // 10 + 1)]
    assert removed_by(texts) == ["70 % letters or fewer", KEPT] * len(lengths)


def test_letters_of_every_script_count():
    assert removed_by(["Привет", "こんにちは"]) == [KEPT, KEPT]


def test_links_and_mentions_at_the_start_are_removed_and_elsewhere_kept():
    texts = ["https about this", "/r/something said", "@somebody said"]
    assert removed_by(texts) == ["starts with https, /r/, @"] * 3
    assert removed_by([f"look {text}" for text in texts]) == [KEPT] * 3


def test_authors_with_bot_in_any_case_are_removed():
    authors = ["bot", "AutoBot", "robOTics", "bo_t"]
    assert removed_by(["an ordinary text"] * 4, authors) == [*["author contains bot"] * 3, KEPT]


def test_deleted_and_empty_texts_are_always_removed():
    texts = ["", " ", "\n\t ", "\t[deleted]", "\r[deleted]", "\n[removed]", "[deleted]", "[removed]", "[Deleted]"]
    texts += ["[ REMOVED ]", " [removed]\n", "[deleted by user]", "[ Removed by Reddit ]", "[removed by moderator]"]
    texts += ["[Removed by reddit in response to a copyright notice.]"]
    assert removed_by(texts, filters=NONE) == ["deleted or empty"] * len(texts) and all(map(is_placeholder, texts))
    about = ["deleted", "[deleted] why?", "[removed](x)", "it was [removed]", "[deleted][x]", "[undeleted]"]
    assert removed_by(about, filters=NONE) == [KEPT] * len(about) and not any(map(is_placeholder, about))


def test_without_the_papers_rules_all_other_texts_are_kept():
    assert removed_by(["a" * 400, "12345", "https"], ["bot"] * 3, NONE) == [KEPT] * 3


def test_the_rules_for_chats_remove_only_texts_of_2000_characters_or_more():
    texts = ["$45.90 on 3/4, order 1182-A", "@ann see below", "https://example.org", "a" * 1_999, "a" * 2_000, " "]
    removed = [KEPT, KEPT, KEPT, KEPT, "2,000 characters or more", "deleted or empty"]
    assert removed_by(texts, ["Ann Abbot"] * 6, CHAT) == removed


def test_a_text_is_counted_under_the_first_rule_only():
    table = ibis.memtable(
        [
            {"body": "https" + "1" * 400, "characters": 405, "alphabetic": 5},
            *[{"body": "fine", "characters": 4, "alphabetic": 4}] * 3,
        ]
    )
    removed = removal_rules(table.body, table.characters, table.alphabetic)
    counts = count_values(table, first_rule(removed), [*removed, KEPT])
    assert counts["350 characters or more"] == 1
    assert counts[KEPT] == 3
    assert sum(counts.values()) == 4


def test_entities_of_a_column_are_unescaped_as_those_of_its_texts():
    draw = random.Random(0)
    parts = [
        "&amp;",
        "&lt;",
        "&gt;",
        "&",
        "amp;",
        "lt;",
        "&nbsp;",
        "&#39;",
        "&#x41;",
        "&AMP",
        "&lt",
        "x",
        " ",
        ";",
        "#",
    ]
    texts = ["".join(draw.choices(parts, k=draw.randrange(8))) for _ in range(5_000)]
    assert measure_column(pa.array(texts, pa.string()))[0].to_pylist() == [unescape(text) for text in texts]


@pytest.mark.parametrize(("offset", "length"), [(0, 12), (2, 10), (1, 4), (3, 0)])
def test_measures_of_a_column_equal_those_of_its_texts(offset, length):
    texts = ["", "plain text", "one &amp; two", "Ünï &eacute; Ελ", "数字 123", "<b>", "", "&lt;&lt;", "😀 smile"]
    texts += ["\U0010ffff last", "_-!"]
    column = pa.array(texts, pa.string()).slice(offset, length)
    bodies, characters, alphabetic = measure_column(column)
    found = list(zip(bodies.to_pylist(), characters.tolist(), alphabetic.tolist(), strict=True))
    assert found == [measure(unescape(text)) for text in texts[offset : offset + length]]
    assert characters.dtype == alphabetic.dtype == "int32"


def test_markdown_is_stripped_from_a_column_as_from_its_texts():
    texts = [
        "see [here](http://a.b/c)",
        "> you said\nI say no",
        "none",
        "[a](b",
        "x > y",
        "deep\n  > quoted\nend",
        " a > b ",
    ]
    filters = Filters(markdown=True)
    bodies, characters, alphabetic = measure_column(pa.array(texts), filters)
    assert bodies.to_pylist() == ["see here", "I say no", "none", "[a](b", "x > y", "deep\nend", " a > b "]
    found = list(zip(bodies.to_pylist(), characters.tolist(), alphabetic.tolist(), strict=True))
    assert found == [measure(text, filters) for text in texts]


def test_texts_shorter_than_the_minimum_are_removed():
    assert removed_by(["four", "three"], filters=Filters(min_characters=5)) == ["fewer than 5 characters", KEPT]


def test_the_list_of_bots_applies_in_any_case_and_without_the_papers_rules():
    filters = Filters("none", bots=("automoderator",))
    assert removed_by(["hello there"] * 2, ["AutoModerator", "bot"], filters) == ["author on the list of bots", KEPT]
