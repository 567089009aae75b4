"""A saved model with an input network, whose three sides differ, and its encoder."""

from pathlib import Path

import pytest

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.suggestion.texts import make_texts
from tests.modeling_convsim.tiny_models import build, save


@pytest.fixture(scope="session")
def folder(tiny_tokenizer, tmp_path_factory) -> Path:
    return save(build("dan_input_network"), tiny_tokenizer, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def encoder(folder) -> Encoder:
    return Encoder.from_pretrained(folder, "cpu")


@pytest.fixture(scope="module")
def many(encoder):
    """An index of many replies, without near-duplicate removal."""
    return ReplyIndex.build(encoder, make_texts(500), duplicate_cosine=1)
