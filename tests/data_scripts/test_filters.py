import ibis
import pyarrow as pa
import pytest

from data_scripts.filters import KEPT, count, first_rule, measure, measure_column, rules


def judge(texts: list[str], authors: list[str] | None = None, paper: bool = True) -> list[str]:
    """The first rule that removes each text, by way of the engine."""
    rows = [
        {"position": position, "body": body, "characters": characters, "alphabetic": alphabetic, "author": author}
        for position, ((body, characters, alphabetic), author) in enumerate(
            zip(map(measure, texts), authors or ["someone"] * len(texts), strict=True)
        )
    ]
    table = ibis.memtable(rows)
    removed = rules(table.body, table.characters, table.alphabetic, table.author if authors else None, paper)
    return table.mutate(rule=first_rule(removed)).order_by("position").to_pyarrow()["rule"].to_pylist()


def test_350_characters_are_removed_and_349_are_kept():
    assert judge(["a" * 349, "a" * 350]) == [KEPT, "350 characters or more"]


def test_characters_are_unicode_characters_not_bytes():
    assert judge(["é" * 349]) == [KEPT]


def test_exactly_70_percent_letters_are_removed_and_one_more_letter_is_kept():
    assert judge(["I am a man", "I am amanx"]) == ["70 % letters or fewer", KEPT]


@pytest.mark.parametrize("characters", range(10, 350, 10))
def test_70_percent_is_exact_at_every_length(characters):
    letters = characters * 7 // 10
    at_limit = "a" * letters + "." * (characters - letters)
    above = "a" * (letters + 1) + "." * (characters - letters - 1)
    assert judge([at_limit, above]) == ["70 % letters or fewer", KEPT]


def test_letters_of_every_script_count():
    assert judge(["Привет", "こんにちは"]) == [KEPT, KEPT]


@pytest.mark.parametrize("text", ["https about this", "/r/something said", "@somebody said"])
def test_links_and_mentions_at_the_start_are_removed_and_elsewhere_kept(text):
    assert judge([text, f"look {text}"]) == ["starts with https, /r/, @", KEPT]


@pytest.mark.parametrize("author", ["bot", "AutoBot", "robOTics"])
def test_authors_with_bot_in_any_case_are_removed(author):
    assert judge(["an ordinary text"], [author]) == ["author contains bot"]


def test_other_authors_are_kept():
    assert judge(["an ordinary text"], ["bo_t"]) == [KEPT]


@pytest.mark.parametrize("text", ["", "[deleted]", "[removed]"])
def test_deleted_and_empty_texts_are_always_removed(text):
    assert judge([text], paper=False) == ["deleted or empty"]


def test_without_the_papers_rules_all_else_is_kept():
    assert judge(["a" * 400, "12345", "https"], ["bot"] * 3, paper=False) == [KEPT] * 3


def test_html_entities_are_unescaped_before_they_are_measured():
    assert measure("you &amp; me &gt; them") == ("you & me > them", 15, 9)


def test_a_text_is_counted_under_the_first_rule_only():
    table = ibis.memtable(
        [
            {"body": "https" + "1" * 400, "characters": 405, "alphabetic": 5},
            *[{"body": "fine", "characters": 4, "alphabetic": 4}] * 3,
        ]
    )
    removed = rules(table.body, table.characters, table.alphabetic)
    counts = count(table, first_rule(removed), [*removed, KEPT])
    assert counts["350 characters or more"] == 1
    assert counts[KEPT] == 3
    assert sum(counts.values()) == 4


@pytest.mark.parametrize("offset", [0, 2])
def test_measures_of_a_column_are_those_of_its_texts(offset):
    texts = ["", "plain text", "one &amp; two", "Ünï &eacute; Ελ", "数字 123", "<b>", "", "&lt;&lt;", "😀 smile", "_-!"]
    column = pa.array(texts, pa.string()).slice(offset)
    bodies, characters, alphabetic = measure_column(column)
    found = list(zip(bodies.to_pylist(), characters.tolist(), alphabetic.tolist(), strict=True))
    assert found == [measure(text) for text in texts[offset:]]
