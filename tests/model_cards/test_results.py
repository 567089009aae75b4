"""The documents of our results show what was recorded."""

import json
import re

import pytest

from tests.benchmarks import cards
from tests.conftest import ROOT
from trainer.publish.model_card import read_scores

RESULTS = ROOT / "model_cards"


@pytest.mark.parametrize("table", [cards.encoders, cards.own_chats, cards.speed], ids=lambda table: table.__name__)
def test_a_table_of_the_page_is_that_of_the_recorded_results(table):
    assert table() in (RESULTS / "README.md").read_text("utf-8"), "run: python -m tests.benchmarks.cards"


@pytest.mark.parametrize("name", cards.WITH_CARD)
def test_a_card_shows_the_recorded_scores(name):
    text = (RESULTS / name / "README.md").read_text("utf-8")
    results = json.loads((RESULTS / name / "results.json").read_text("utf-8"))
    scores = [score for score in read_scores(results, {}) if score.split != "dev" and not score.subset]
    expected = {f"{score.value:.4f}" for score in scores}
    shown = re.findall(r"^\| [\w ]+ \| [^|]+ \| test\w* \| [^|]+ \| ([\d.]+) \|", text, re.MULTILINE)
    assert set(shown) == expected
    assert text == cards.card(name), "run: python -m tests.benchmarks.cards"
    assert len(text.split("---\n")[1].splitlines()) <= 60  # of metadata
