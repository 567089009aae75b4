"""A saved model with an input network, whose three sides differ, and its encoder."""

from pathlib import Path

import pytest

from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import build, save


@pytest.fixture(scope="session")
def folder(tiny_tokenizer, tmp_path_factory) -> Path:
    return save(build("dan_input_network"), tiny_tokenizer, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def encoder(folder) -> Encoder:
    return Encoder.from_pretrained(folder, "cpu")
