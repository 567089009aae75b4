"""The parts of a reply that cannot be sent to others, and what marks them."""

import json
import re

import numpy as np
import pytest

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.__main__ import index as index_main
from modeling_convsim.suggestion.__main__ import main
from modeling_convsim.suggestion.deduplication import deduplicate
from modeling_convsim.suggestion.specifics import Specifics
from tests.modeling_convsim.suggestion.texts import make_texts

# «marked»
REPLIES = """\
Your order «4180-D» shipped «March 3rd»; a refund of «$27.90» follows within 3 days.
Order #«12345» is canceled. Ticket number: «20122». Case «00123456». See «#4711».
Tracking: «1Z999AA10123456784», tracking no. «1z999aa10123456784», booking ref «xk42p9», account «4111 1111 1111 1111»
Ihre Bestellnummer ist «84213», votre commande n° «48213», invoice «INV-2024-0815»
Flight «BA2490» leaves on «3 March 2024» at «4:15 pm», or «5pm», or «14:30 Uhr».
By «2024-03-05», «13.03.2024», «3/14/2024», on «3/15», on the «15th», «Dec. 24, 2023», le «3 mars 2024»
Paid: «27,90 €», «USD 40», «20 euros», «£1,234.56», «Rs. 500», «US$ 35.00».
See «https://shop.example.com/track?id=9», «www.example.com/a», shop.example.com and «shop.example.com/t/9».
Write to «ann.lee@example.com» or «@ann_lee»; call «1-800-555-0199», «(555) 123-4567», «+44 20 7946 0958», «0171 12345».
Hi «[name]», your «[EMAIL]» and «[PHONE]», «{name}»: «{{first_name}}»
My card is «4111 1111 1111 1111», and my account is «DE89 3704 0044 0532 0130 00».
We answer within 3 days, 24/7, in 5 to 7 working days, from 10 to 8, Monday to Friday; take 2 cups, 30 minutes, 100 %.
Update iOS 11.1 to 11.1.2, Windows 10 (10.15.7), Android 8.0, Python 3.11, USB 3.0; error code 5001, H264, mp3, PS4, A4.
Since 2012, order within 30 days, size 42, room 12, -5 °C, 20% off, COVID-19, the 1st floor, 16:9, 10 000 people.
Press F5, 1/2 cup, 3-5 days, he/she, 24h, 9 out of 10, 2.4 GHz, 802.11ac, May I help? 100 points, e.g./i.e., WELCOME5\
"""


def found(replies: list[str], text: str, is_faq: bool = False) -> list[str]:
    """The parts of a text that are specific among the replies."""
    return [text[slice(*span)] for span in Specifics(deduplicate(replies), is_faq).spans(text)]


@pytest.mark.parametrize("line", REPLIES.splitlines())
def test_numbers_dates_amounts_links_and_placeholders_are_marked_and_general_numbers_are_not(line):
    text = line.replace("«", "").replace("»", "")
    assert found([text, "hello"], text) == re.findall("«(.*?)»", line)


def test_what_several_customers_got_is_general():
    help_page = "See https://example.com/help, it costs $5, call 1-800-555-0199."
    others = [
        "HTTPS://example.com/help!",
        "for $5.",
        "call 1-800-555-0199",
        "https://example.com/helped",
        "$55",
        "$5.50",
    ]
    assert found([help_page, *others[:3]], help_page) == []
    assert len(found([help_page, *others[3:]], help_page)) == 3  # those are other links and amounts
    assert found(["Your order 4180-D", "your order 4180-d!"], "Your order 4180-D") == []  # given twice
    assert found(["Your order 4180-D is 4180-D", "hi"], "Your order 4180-D is 4180-D") == ["4180-D"] * 2
    assert found(["15 euros", "5 euros"], "5 euros") == ["5 euros"]
    assert found([f"[name], {number}" for number in range(9)], "[name], 1") == ["[name]"]
    assert found(["Write to ann@example.com, [name]"], "Write to ann@example.com, [name]", is_faq=True) == ["[name]"]


def test_a_name_fills_its_placeholder_and_the_rest_is_marked_in_every_part_of_an_index(encoder):
    texts = ["see $7.50, [name]", "the house, {name}", "a big house for $9", "a small house for $9"]
    index = ReplyIndex.build(encoder, [*texts, *make_texts(9)], duplicate_cosine=1)
    for part in (index, index.only(texts)):  # in which only one reply has $9, or both have
        marks = {one.text: [one.text[slice(*span)] for span in one.spans] for one in part.suggest("the dog", 20)}
        assert [marks[text] for text in texts] == [["$7.50", "[name]"], ["{name}"], [], []]
    assert index.only(texts[2:3]).suggest("dog")[0].spans == []
    spans = {one.text: one.spans for one in index.suggest("the dog", 20, name="Ann \\1")}
    assert spans["see $7.50, Ann \\1"] == [(4, 9)] and spans["the house, Ann \\1"] == []


def test_a_reply_with_such_a_part_is_never_sent_without_a_person_and_counts_as_edited(encoder):
    index, messages = ReplyIndex.build(encoder, ["the dog, [name]"], duplicate_cosine=1), make_texts(90)
    rated = [{"message": text, "reply": "the dog", "score": index.suggest(text)[0].score} for text in messages]
    index.calibrate([{**each, "rating": "send"} for each in rated])
    assert index.threshold(0.5).score < np.inf and index.automatic(messages[0], 0.5) is None
    assert index.automatic(messages[0], 0.5, name="Ann").text == "the dog, Ann"
    index.calibrate([{**each, "rating": "send", "reply": "the dog, [name]"} for each in rated])
    assert index.automatic(messages[0], 0.5, name="Ann") is None


def test_an_faq_suggests_each_answer_to_a_question_and_none_that_is_empty(folder, tmp_path, capsys):
    rows = [("the dog", text) for text in ("the dog runs", "runs the dog", None, "", " - ", "N/A", "\u200b", "…")]
    rows += [(text, text[::-1]) for text in make_texts(9)]
    lines = [json.dumps({"question": question, "answer": answer}) for question, answer in rows]
    (tmp_path / "faq.jsonl").write_text("\n".join(lines))
    options = "--messages question --replies answer --by_messages".split()
    assert index_main([str(tmp_path / "faq.jsonl"), *options, "--model", str(folder), "-o", str(tmp_path / "faq")]) == 0
    assert "11 distinct replies of 11; empty replies left out: 6" in capsys.readouterr().out
    index = ReplyIndex.load(tmp_path / "faq")
    assert index.settings.duplicate_cosine == 1
    assert {one.text for one in index.suggest("the dog")[:2]} == {"the dog runs", "runs the dog"}


def test_the_command_names_what_to_change_and_takes_a_name(encoder, tmp_path, capsys):
    ReplyIndex.build(encoder, ["the dog, [name], 4180-D", "no"], ["hello", "yes"]).save(tmp_path / "index")
    assert main([str(tmp_path / "index"), "the dog"]) == 0
    assert "the dog, [name], 4180-D  (change: [name], 4180-D; answered: hello)\n" in capsys.readouterr().out
    assert main([str(tmp_path / "index"), "the dog", "--name", "Ann"]) == 0
    assert "the dog, Ann, 4180-D  (change: 4180-D; answered: hello)\n" in capsys.readouterr().out
