"""Which messages are those of a program, and what the messages that follow them answer."""

import ibis
import pyarrow as pa
import pytest

from data_scripts.chats.automatic import leave_out_automatic
from data_scripts.chats.turns import make_turns
from data_scripts.schemas import MESSAGE_SCHEMA

RECEIPT = 'Thank you for contacting Nimbus about "{subject}". Your request is #{number}.'
CANNED = "You can reset your password under Settings > Security, which takes a minute."


def kept(*threads: list[tuple[str, str]], links: bool = False) -> list[tuple[str, str]]:
    """The speakers and texts of the messages that are kept of some threads."""
    rows = [
        dict.fromkeys(MESSAGE_SCHEMA.names)
        | {"thread": f"t{number}", "speaker": speaker, "text": text, "source": "log", "characters": len(text)}
        | {"id": f"{number}/{at}", "parent": (f"{number}/{at - 1}" if at else "") if links else None}
        for number, thread in enumerate(threads)
        for at, (speaker, text) in enumerate(thread)
    ]
    table = pa.Table.from_pylist([row | {"row": at} for at, row in enumerate(rows)], MESSAGE_SCHEMA)
    messages = leave_out_automatic(ibis.duckdb.connect().create_table("messages", table))
    if links:
        turns = make_turns(messages).to_pyarrow().to_pylist()
        texts = {turn["turn"]: turn["text"] for turn in turns}
        return sorted((texts[turn["answers"]], turn["text"]) for turn in turns if turn["answers"] is not None)
    return [(row["speaker"], row["text"]) for row in messages.order_by("row").to_pyarrow().to_pylist()]


def threads(number: int, *messages: tuple[str, str]) -> list[list[tuple[str, str]]]:
    return [
        [(speaker.format(at=at), text.format(number=500 + at, subject=f"issue {at}")) for speaker, text in messages]
        for at in range(number)
    ]


CUSTOMER, ANSWER = ("Ann {at}", "my files of {number} are lost"), ("Priya", "I restored {subject} from the backup.")


@pytest.mark.parametrize(
    ("author", "answerer"), [("Nimbus", "Priya"), ("agent", "agent"), ("helpbot", "Tom"), ("Priya", "Priya")]
)
def test_receipts_are_left_out_whoever_answers_after_them(author, answerer):
    log = threads(6, CUSTOMER, (author, RECEIPT), (answerer, ANSWER[1]))
    assert kept(*log) == [message for thread in log for message in (thread[0], thread[2])]


def test_receipts_of_tickets_that_nobody_answered_are_left_out_too():
    log = threads(5, CUSTOMER, ("Nimbus", RECEIPT), ANSWER) + threads(9, CUSTOMER, ("Nimbus", RECEIPT))
    assert not any(speaker == "Nimbus" for speaker, _ in kept(*log))


def test_a_reply_link_to_a_receipt_leads_to_what_it_answered():
    log = threads(5, CUSTOMER, ("Nimbus", RECEIPT), ANSWER)
    assert kept(*log, links=True) == sorted((thread[0][1], thread[2][1]) for thread in log)


THANKS = ("Ann {at}", "thanks, that helped")
OTHERS = threads(9, ("Ann {at}", "is it down?"), ("Priya", "No, {subject} is up again."))


@pytest.mark.parametrize(
    "log",
    [
        threads(9, CUSTOMER, ("Priya", CANNED)),  # it ends its thread
        threads(9, CUSTOMER, ("Priya", CANNED), THANKS, ("Priya", "You are welcome.")),
        threads(9, CUSTOMER, ("Priya", CANNED), ("Priya", "Anything else?")) + 2 * OTHERS,  # an answer among others
        threads(9, CUSTOMER, ("Priya", CANNED), ("Tom", "Or call us.")) + 2 * OTHERS,
        threads(4, CUSTOMER, ("Nimbus", RECEIPT), ANSWER),  # too few
        threads(9, CUSTOMER, ("Nimbus", "Got it, #{number}."), ANSWER),  # too short
        [[(f"Ann {at}", "help"), ("Tom", "x" * 40 + "abcdefghij"[at]), ("Priya", "done")] for at in range(9)],
        [[(None, CANNED), (None, CANNED), (None, CANNED)]] * 9,
    ],
)
def test_canned_replies_and_rare_or_different_texts_stay(log):
    assert kept(*log) == [message for thread in log for message in thread]
