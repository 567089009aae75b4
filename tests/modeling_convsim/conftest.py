"""Fixtures of the model tests."""

import pytest

from modeling_convsim import ENCODERS, ConvSimForMultitask
from tests.modeling_convsim.tiny_models import VARIANTS, build


@pytest.fixture(params=dict.fromkeys([*ENCODERS, *VARIANTS]))
def multitask(request: pytest.FixtureRequest) -> ConvSimForMultitask:
    """Each kind of tiny model in turn."""
    return build(request.param)
