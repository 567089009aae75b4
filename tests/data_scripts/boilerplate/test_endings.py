"""What recurs at the ends of an author's messages is removed; a text that happens to end so keeps its end."""

from collections import Counter

import pytest

from data_scripts.boilerplate.endings import PARTS, SIGNATURES, Endings, is_signature
from data_scripts.boilerplate.letters import strip_letter
from data_scripts.boilerplate.names import Names

OTHERS = [("cara", "Is it open? - Mike"), ("cara", "It says A/B and km/h"), ("dan", "I like it *NEW"),
          ("dan", "Until 6-PM"), ("dan", "I rate it 3/5"), ("dan", "no, 4/5"), ("dan", "ok, 5/5"),
          ("eve", "I rate it 1/2"), ("flo", "see you at the station -Anna"), ("flo", "Nice. Awesome"),
          ("flo", "it was 1/2 full..."), ("flo", "...really?")]  # fmt: skip


def strip(texts, text, author="desk"):
    """The text without its ending, after texts of its author and of others."""
    endings, counts = Endings(), Counter()
    for writer, each in [*(("desk", text) for text in texts), *OTHERS]:
        endings.messages[writer] += 1
        endings.add(writer, each)
    stripped = strip_letter(text, Names(), counts, author, endings)
    return stripped, {kind for kind in (SIGNATURES, PARTS) if counts[kind]}


@pytest.mark.parametrize(
    ("endings", "text", "stripped"),
    [
        ([" ^MB", ".^TJ", "\n^ACM", " ^nw"], "Send it. ^MB", "Send it."),
        ([" *TJN", " *ABN", " *DannyHarvey"], "Send it  *TJN", "Send it"),
        (["-Becky", " -Jen", " - Mike P", " —Tom."], "Send it. -Jen.", "Send it."),
        ([" /KB", " /MT", " /GK"], "Send it /KB", "Send it"),
        ([" ~AT", " -AT", " –AT"], "Send it! ~AT", "Send it!"),
        ([" -KB", " -JV", " -DD"], "Send it.--JV", "Send it."),
        ([" -KB", " -KB", " -DD", " -DD"], "you go-DD", "you go"),
        ([" -KB", " -KB", " -KB"], "Here. KB", "Here."),
        ([" -Sha", " -Sha", " -Anwar"], "Here. Thanks-Sha", "Here. Thanks"),
        ([" ^MB", " ^TJ", " ^MB"], "😳 ^TV", "😳"),
        ([" - Peter", " - Jayne", " - Lauren"], "Here. Lauren https://t.co/x", "Here. https://t.co/x"),
        ([" = JJ", " = JJ", " -JJ"], "Here\n= JJ https://t.co/x", "Here https://t.co/x"),
        (["\nRobbie", "\nRobbie", ". Robbie"], "Here.\nRobbie", "Here."),
        (["。ET", "。ET", "。ET"], "はい。ET", "はい。"),
        ([" -Anna"] * 3 + ["."] * 20, "See you -Anna", "See you"),
    ],
)
def test_signatures_that_recur_are_removed(endings, text, stripped):
    texts = [f"Answer {number}{ending}" for number, ending in enumerate(endings)]
    assert strip(texts, text) == (stripped, {SIGNATURES})


@pytest.mark.parametrize(
    ("endings", "text", "most"),
    [
        ([" -Anna"] * 3, "See you -Anna", 30),
        ([" -Becky", " -Jen", " -Sara", " -Tom", " -Al", " -Bo"], "Send it -Sue", 30),
        ([" ^MB", " ^TJ", " ^AC"], "Nice ^TV", 300 - len(OTHERS)),
    ],
)
def test_a_signature_is_in_a_share_of_the_messages_and_at_least_three(endings, text, most):
    texts = [f"Answer {number}{ending}" for number, ending in enumerate(endings)]
    for count, is_removed in ((most, True), (most + 1, False)):
        assert (strip([*texts, *["ok then"] * (count - len(texts))], text)[0] != text) == is_removed
    assert strip(texts[:2], text)[0] == text
    assert strip(["a -KB"] * 3 + ["b -DD"], "you go-DD")[0] == "you go-DD"  # after a word, a mark that recurs


def test_a_line_of_names_signs_and_prose_or_a_sentence_in_capitals_does_not():
    lines = {"THE SHOP GOT CLOSED": True, "THE SHOP GOT CLOSED NOW": False}
    lines |= {"Mia Hart met Manager": True, "Mia met Manager": False}
    assert {line: is_signature(line, Names()) for line in lines} == lines
    assert strip([], "It left, Dan Roe", "Dan Roe")[0] == "It left"


def test_lines_that_recur_or_begin_with_the_author_are_a_signature():
    block = "Mia Hart\nCare Manager\n\nTel. +44 20 7946 0018\nwww.acme.example"
    texts = [f"Answer {number}\n\n{block}\n" for number in range(3)]
    quotation = "\n\nOn Mon, Jan 5, 2026 at 9:00 AM Ann wrote:\n> a"
    assert strip([text + quotation for text in texts], f"It left.\n{block}") == ("It left.", {SIGNATURES})
    assert strip(texts, f"It left.\n{block}", "dan")[0] == f"It left.\n{block}"
    assert strip([], "It left.\nDan Roe, CEO\n+1 202 555 0143", "Dan Roe,")[0] == "It left."
    texts = ["Your parcel for Ann\nis on its way\nand arrives soon"] * 9
    assert strip(texts, texts[0])[0] == texts[0]


@pytest.mark.parametrize(
    ("marks", "text", "stripped"),
    [
        (["{} 1/2", "{} 2/2"], "Send it, and 1/2", "Send it, and"),
        (["{} 1/2", "@tom9 2/2 {}"], "@tom9 (2/2) Send it", "Send it"),
        (["{} [1/3]", "{} [2/3]", "{} [3/3]"], "Send it... [2/3]", "Send it"),
        (["2/2 {}", "1/2 {}"], "@tom9 ...send it 2/2", "send it"),
        (["{} 4/4", "{} 3/4"], "2/4... and so on", "and so on"),
    ],
)
def test_marks_of_parts_are_removed(marks, text, stripped):
    assert strip([mark.format("Answer") for mark in marks], text) == (stripped, {PARTS})


@pytest.mark.parametrize(
    "text", ["A. - Mike 2/2", "A. 2/2 -Mike", "A. 2/2. ^Mike", "2/2 A. -Mike https://t.co/x", "A.2/2^Mike"]
)
def test_marks_may_be_beside_a_signature(text):
    texts = ["B -Mike 1/2", "C 2/2 -Mike", "D -Mike", "E ^MB", "F ^MB", "G ^TJ"]
    stripped, kinds = strip(texts, text)
    assert (stripped.removesuffix(" https://t.co/x"), kinds) == ("A.", {SIGNATURES, PARTS})


def test_a_text_that_happens_to_end_so_keeps_its_end():
    for author, text in OTHERS:
        assert strip(["B ^MB", "C ^MB", "D ^TJ", "E 1/2", "F 2/2"], text, author)[0] == text
    texts = ["B -MB", "C -MB", "D -TJ", "E 1/2", "F 2/2", "dpkg -l | grep ^ii", "grep '^rc'"]
    kept = [
        "Add 1/3 cup",
        "It costs $1/2",
        "a T-Shirt",
        "on 11/2",
        "from A/B",
        "what a day...",
        "in 1/2 an hour",
        "-MB",
    ]
    assert [strip(texts, text)[0] for text in kept] == kept
