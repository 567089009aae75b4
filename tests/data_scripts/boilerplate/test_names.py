"""Which names speakers have."""

from collections import Counter

import pytest

from data_scripts.boilerplate.letters import strip_letter
from data_scripts.boilerplate.names import Names


@pytest.mark.parametrize(
    ("speaker", "name"),
    [("Tunde Bello", "tunde bello"), ("Bello, Tunde", "Tunde Bello"), ("Herr Okafor", "Okafor"), ("María", "maría"),
     ("tunde.bello@example.org", "Tunde Bello"), ("tom_9", "Tom_9"), ("Priya (Support)", "Priya"), ("Will", "Will"),
     ("Ana Maria Lopez Garcia", "ana maria lopez garcia")],
)  # fmt: skip
def test_the_names_of_a_speaker_are_known(speaker, name):
    assert Names([speaker]).is_named(name)


def test_other_words_are_no_names():
    speakers = ["Tunde Bello", "Nimbus Support", "Agent 7", "customer", "A", "Will", "tunde.bello@example.org", "Ben B"]
    words = [
        "Bello",
        "Tunde Drive",
        "Nimbus",
        "Agent",
        "customer",
        "A",
        "will",
        "example",
        "Ben B",
        "Tunde Bello Drive",
    ]
    assert [word for word in words if Names(speakers).is_named(word)] == []


def test_the_last_name_of_one_speaker_may_be_the_first_name_of_another():
    names = Names(["Ann Lee", "Wong, Lee", "ben_9"])
    texts = {"@Ann Lee try it": "try it", "ask @ann Lee": "ask [name]", "ask @Ann lee": "ask [name] lee",
             "@Lee Wong: try it": "try it",
             "@ben_9 Lee is here": "Lee is here", "@Ann Wong is here": "is here"}  # fmt: skip
    assert {text: strip_letter(text, names, Counter()) for text in texts} == texts
