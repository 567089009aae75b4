"""Fixtures of the model tests."""

import pytest

from modeling_convsim import ENCODERS, ConvSimForMultitask, ConvSimPreTrainedModel
from tests.modeling_convsim.tiny_models import KINDS, PARTS, VARIANTS, build, build_part


@pytest.fixture(params=dict.fromkeys([*ENCODERS, *VARIANTS]))
def multitask(request: pytest.FixtureRequest) -> ConvSimForMultitask:
    """Each kind of tiny model in turn."""
    return build(request.param)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=PARTS)
def part(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(kind: str, part: str) -> ConvSimPreTrainedModel:
    """One of the classes of each kind of tiny model in turn."""
    return build_part(kind, part)
