"""Which names speakers have, and which of them texts use as words."""

from collections import Counter

import pytest

from data_scripts.clean.names import Names


@pytest.mark.parametrize(
    ("speaker", "text", "replaced"),
    [
        ("Tunde Bello", "Tunde Bello said so", "{name} said so"),
        ("Tunde Bello", "Tunde Drive said so", "Tunde Drive said so"),
        ("Bello, Tunde", "Tunde said so", "{name} said so"),
        ("Herr Okafor", "Okafor said so", "{name} said so"),
        ("tunde.bello@example.org", "Tunde said so", "{name} said so"),
        ("tunde.bello@example.org", "write to tunde.bello@example.org", "write to tunde.bello@example.org"),
        ("tom_9", "Tom_9 said so", "{name} said so"),
        ("Siobhán O'Neill", "I asked Siobhán O'Neill", "I asked {name}"),
        ("María", "thanks maría.", "thanks {name}."),
        ("Nimbus Support", "Nimbus Support said so", "Nimbus Support said so"),
        ("Priya (Support)", "Priya said so", "{name} said so"),
        ("Agent 7", "Agent 7 said so", "Agent 7 said so"),
        ("customer", "a customer said so", "a customer said so"),
        ("A", "A said so", "A said so"),
        ("Tunde", "Tunde_x, #Tunde and {Tunde}", "Tunde_x, #Tunde and {Tunde}"),
    ],
)
def test_the_names_of_a_speaker_are_replaced(speaker, text, replaced):
    assert Names([speaker]).replace(text) == (replaced, replaced.count("{name}"))


def test_a_name_that_texts_use_in_lower_case_is_an_ordinary_word():
    names = Names(["Linden Park", "Ada"])
    assert names.replace("Linden wood, and Ada")[1] == 2
    names.learn([("x", "we have linden wood"), ("x", "I asked Ada")], Counter())
    assert names.replace("Linden wood, and Ada") == ("Linden wood, and {name}", 1)
    assert names.replace("Thanks Linden!") == ("Thanks {name}!", 1)


def test_a_name_that_many_others_mention_is_that_of_a_brand():
    names = Names(["Delta", "Priya"])
    messages = [(f"customer {number}", "my Delta flight is late") for number in range(20)]
    messages += [("Tom", "I called Priya and here Priya is")] * 20
    names.learn(messages, Counter())
    assert names.replace("the Delta flight, says Priya") == ("the Delta flight, says {name}", 1)


def test_an_account_that_writes_of_itself_is_that_of_a_brand():
    names = Names(["Nimbus", "Priya", "Zephyr Support", "Zephyr"])
    names.learn([("Nimbus", "we of Nimbus are here")] * 3 + [("Priya", "I am Priya")] * 3, Counter())
    text = "the Nimbus app, the Zephyr app, says "
    assert names.replace(f"{text}Priya") == (f"{text}{{name}}", 1)


def test_a_name_of_letters_must_be_there_more_often_than_in_sentences():
    names = Names(["Windows", "Chidi"])  # as if learned from "Hello Windows,"
    names.learn([("agent", "restart Windows now"), ("agent", "I told Chidi")], Counter(windows=1, chidi=2))
    assert names.replace("Windows crashed, said Chidi") == ("Windows crashed, said {name}", 1)
