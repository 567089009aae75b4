"""The base model in the repository: whole, small, and of the current code."""

import numpy as np
from sentence_transformers import SentenceTransformer

from modeling_convsim.encoding import Encoder
from tests.conftest import ROOT

BASE = ROOT / "model_cards" / "base"


def test_the_folder_is_small():
    assert sum(path.stat().st_size for path in BASE.rglob("*") if path.is_file()) <= 25_000_000


def test_its_code_is_that_of_the_package():
    copies = list(BASE.glob("modeling_*.py"))
    assert len(copies) >= 3
    for copy in copies:
        assert copy.read_text() == (ROOT / "modeling_convsim" / copy.name).read_text(), f"{copy.name}: save it again"


def test_its_readers_agree_and_it_finds_the_reply():
    questions, replies = ["Until when is the shop open on Friday?"], ["We close at four o'clock.", "Take a tablet."]
    encoder, model = Encoder.from_pretrained(BASE, "cpu"), SentenceTransformer(str(BASE), device="cpu")
    scores = encoder.encode(questions) @ encoder.encode(replies, side="response").T
    assert scores[0, 0] > scores[0, 1]
    np.testing.assert_allclose(
        model.similarity(model.encode(questions), model.encode_document(replies)), scores, atol=1e-5
    )
