"""A base to adapt, and chats."""

import itertools
from pathlib import Path

import pytest
from datasets import Dataset

from tests.modeling_convsim.tiny_models import build, save

QUALITIES, THINGS, VERBS = (
    "old new big small good bad".split(),
    "cat dog bird house car".split(),
    "like love hate see".split(),
)
CHATS = [
    [f"do you {verb} the {quality} {thing} today", f"yes i {verb} that {quality} {thing}"]
    for quality, thing, verb in itertools.product(QUALITIES, THINGS, VERBS)
]


@pytest.fixture(scope="session")
def base(tmp_path_factory, tiny_tokenizer) -> str:
    """The folder of a multitask model with random weights."""
    model = build("dan_lexical")
    model.config.lexical_share = 0.0
    return str(save(model, tiny_tokenizer, tmp_path_factory.mktemp("base")))


@pytest.fixture
def adapted_pairs(tmp_path) -> Path:
    """A dataset of the pairs of the chats."""
    rows = [{"input": one, "response": two, "thread": one, "source": "s"} for one, two in CHATS]
    (tmp_path / "data").mkdir()
    Dataset.from_list(rows).to_parquet(tmp_path / "data" / "train-00000-of-00001.parquet")
    return tmp_path / "data"
