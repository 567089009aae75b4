"""The base model in the repository: whole, of the current code, and better than its words at figure 1 of the paper."""

import numpy as np
from sentence_transformers import SentenceTransformer

from modeling_convsim.encoding import Encoder
from tests.conftest import ROOT
from trainer.evaluation.checksums import check_folder

BASE = ROOT / "model_cards" / "base"


def test_no_file_is_damaged_and_the_folder_is_small():
    check_folder(BASE)
    assert sum(path.stat().st_size for path in BASE.rglob("*") if path.is_file()) <= 25_000_000


def test_its_code_is_that_of_the_package():
    copies = list(BASE.glob("modeling_*.py"))
    assert len(copies) >= 3
    for copy in copies:
        assert copy.read_text() == (ROOT / "modeling_convsim" / copy.name).read_text(), f"{copy.name}: save it again"


def test_it_orders_figure_1_and_its_readers_agree():
    sentences = ["How old are you?", "What is your age?", "How are you?"]
    vectors = Encoder.from_pretrained(BASE, "cpu").encode(sentences)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    np.testing.assert_allclose(SentenceTransformer(str(BASE), device="cpu").encode(sentences), vectors, atol=1e-5)
