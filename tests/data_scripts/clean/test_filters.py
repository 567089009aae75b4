import argparse
import html
import random
from pathlib import Path

import ibis
import pyarrow as pa
import pytest

from data_scripts.clean.filters import (
    KEPT,
    PAPER,
    Filters,
    add_filter_arguments,
    count_values,
    first_rule,
    is_placeholder,
    read_filters,
    removal_rules,
)
from data_scripts.clean.measures import measure, measure_column, measure_language
from data_scripts.errors import InputError

NONE = Filters(paper=False)


def removed_by(texts: list[str], authors: list[str] | None = None, filters: Filters = PAPER) -> list[str]:
    """The first rule that removes each text, computed by the engine."""
    rows = []
    for position, (text, author) in enumerate(zip(texts, authors or ["someone"] * len(texts), strict=True)):
        body, characters, alphabetic = measure(text, filters)
        row = {"position": position, "body": body, "characters": characters, "alphabetic": alphabetic, "author": author}
        rows.append(row | {"language": measure_language(*list(row.values())[1:4], filters) if filters.language else ""})
    table = ibis.memtable(rows)
    author = table.author if authors else None
    removed = removal_rules(table.body, table.characters, table.alphabetic, author, table.language, filters)
    return table.mutate(rule=first_rule(removed)).order_by("position").to_pyarrow()["rule"].to_pylist()


def test_350_characters_are_removed_and_349_are_kept():
    assert removed_by(["a" * 349, "a" * 350]) == [KEPT, "350 characters or more"]


def test_characters_are_unicode_characters_not_bytes():
    assert removed_by(["é" * 349]) == [KEPT]


def test_exactly_70_percent_letters_are_removed_and_one_more_letter_is_kept():
    assert removed_by(["I am a man", "I am amanx"]) == ["70 % letters or fewer", KEPT]


@pytest.mark.parametrize("characters", range(10, 350, 10))
def test_70_percent_is_exact_at_every_length(characters):
    letters = characters * 7 // 10
    at_limit = "a" * letters + "." * (characters - letters)
    above = "a" * (letters + 1) + "." * (characters - letters - 1)
    assert removed_by([at_limit, above]) == ["70 % letters or fewer", KEPT]


def test_letters_of_every_script_count():
    assert removed_by(["Привет", "こんにちは"]) == [KEPT, KEPT]


@pytest.mark.parametrize("text", ["https about this", "/r/something said", "@somebody said"])
def test_links_and_mentions_at_the_start_are_removed_and_elsewhere_kept(text):
    assert removed_by([text, f"look {text}"]) == ["starts with https, /r/, @", KEPT]


@pytest.mark.parametrize("author", ["bot", "AutoBot", "robOTics"])
def test_authors_with_bot_in_any_case_are_removed(author):
    assert removed_by(["an ordinary text"], [author]) == ["author contains bot"]


def test_other_authors_are_kept():
    assert removed_by(["an ordinary text"], ["bo_t"]) == [KEPT]


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "\n\t ", "[deleted]", "[removed]", "[Deleted]", "[ REMOVED ]", " [removed]\n", "[deleted by user]"),
        *("[ Removed by Reddit ]", "[Removed by reddit in response to a copyright notice.]", "[removed by moderator]"),
    ],
)
def test_deleted_and_empty_texts_are_always_removed(text):
    assert removed_by([text], filters=NONE) == ["deleted or empty"]
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text", ["deleted", "[deleted] why?", "[removed](x)", "it was [removed]", "[deleted][x]", "[undeleted]"]
)
def test_texts_about_deleted_ones_are_kept(text):
    assert removed_by([text], filters=NONE) == [KEPT]
    assert not is_placeholder(text)


def test_without_the_papers_rules_all_other_texts_are_kept():
    assert removed_by(["a" * 400, "12345", "https"], ["bot"] * 3, NONE) == [KEPT] * 3


def test_html_entities_are_unescaped_before_they_are_measured():
    assert measure("you &amp; me &gt; them") == ("you & me > them", 15, 9)


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


def test_entities_of_a_column_are_unescaped_as_by_the_standard_library():
    draw = random.Random(0)
    parts = ["&amp;", "&lt;", "&gt;", "&", "amp;", "lt;", "&nbsp;", "&#39;", "&#x41", "&AMP", "&lt", "x", " ", ";", "#"]
    texts = ["".join(draw.choices(parts, k=draw.randrange(8))) for _ in range(5_000)]
    assert measure_column(pa.array(texts, pa.string()))[0].to_pylist() == [html.unescape(text) for text in texts]


@pytest.mark.parametrize("offset", [0, 2])
def test_measures_of_a_column_equal_those_of_its_texts(offset):
    texts = ["", "plain text", "one &amp; two", "Ünï &eacute; Ελ", "数字 123", "<b>", "", "&lt;&lt;", "😀 smile", "_-!"]
    column = pa.array(texts, pa.string()).slice(offset)
    bodies, characters, alphabetic = measure_column(column)
    found = list(zip(bodies.to_pylist(), characters.tolist(), alphabetic.tolist(), strict=True))
    assert found == [measure(text) for text in texts[offset:]]


def test_markdown_is_stripped_from_a_column_as_from_its_texts():
    texts = [
        "see [here](http://a.b/c)",
        "&gt; you said\nI say no",
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
    filters = Filters(paper=False, bots=("automoderator",))
    assert removed_by(["hello there"] * 2, ["AutoModerator", "bot"], filters) == ["author on the list of bots", KEPT]


def test_texts_surely_in_another_language_are_removed_and_short_texts_stay():
    texts = [
        "This is certainly written in the English language, is it not?",
        "Das hier ist ganz bestimmt auf Deutsch geschrieben, nicht wahr?",
        "Ceci est certainement une phrase en langue française, n'est-ce pas ?",
        "ok",
    ]
    other = "not in language en"
    assert removed_by(texts, filters=Filters(language="en")) == [KEPT, other, other, KEPT]


@pytest.mark.parametrize(
    ("characters", "alphabetic", "paper", "language"),
    [
        (349, 349, True, "fr"),
        (350, 350, True, ""),  # removed for its length
        (100, 70, True, ""),  # removed for its letters
        (100, 71, True, "fr"),
        (350, 70, False, "fr"),
    ],
)
def test_languages_are_detected_only_in_texts_that_the_papers_rules_keep(
    monkeypatch, characters, alphabetic, paper, language
):
    monkeypatch.setattr("data_scripts.clean.language.detect_language", lambda text: "fr")
    filters = Filters(paper=paper, language="fr")
    assert measure_language("un texte", characters, alphabetic, filters) == language
    assert measure_language("[deleted]", 9, 9, filters) == ""


def options(*arguments: str) -> Filters:
    parser = argparse.ArgumentParser()
    add_filter_arguments(parser)
    return read_filters(parser.parse_args(arguments))


def test_default_filters_are_those_of_the_paper():
    assert options() == PAPER


def test_options_become_filters(tmp_path: Path):
    (tmp_path / "bots.txt").write_text("AutoModerator\n\n WikiTextBot \n")
    arguments = f"--filters none --markdown --min_characters 3 --language de --bots {tmp_path / 'bots.txt'}"
    assert options(*arguments.split()) == Filters(False, 3, ("automoderator", "wikitextbot"), "de", True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--min_characters", "-1"], "--min_characters -1: expected 0 or more"),
        (["--max_repeats", "0"], "--max_repeats 0: expected 1 or more"),
        (["--language", "english"], "--language english: expected one of .*, en, "),
        (["--bots", "missing.txt"], "--bots missing.txt: cannot be read"),
    ],
)
def test_options_out_of_range_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        options(*arguments)
