"""Fixtures of the model tests."""

import pytest

from modeling_convsim import ConvSimForMultitask
from tests.modeling_convsim.tiny_models import BUILDERS, build


@pytest.fixture(params=list(BUILDERS))
def multitask(request: pytest.FixtureRequest) -> ConvSimForMultitask:
    """Each kind of tiny model in turn."""
    return build(request.param)
