"""Functions of PyTorch that are not public, against public ones: what they gain."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from modeling_convsim.encoding.hardware import OneDnnLinear
from modeling_convsim.modeling_base import multiply_rows, weight_gradients
from tests.benchmarks.material import Material

TOKENS = 20  # of a text


def bag_gradient(material: Material, public: bool, batch_size: int = 1024) -> dict[str, float]:
    """Measure the gradient of the token weights of a batch of texts, with random ids."""
    torch.manual_seed(0)
    table = torch.randn(material.words, material.width)
    ids = torch.randint(len(table), (batch_size * TOKENS,))
    offsets = torch.arange(0, len(ids), TOKENS)
    bags = torch.repeat_interleave(torch.arange(batch_size), TOKENS)
    gradient = torch.randn(batch_size, material.width)
    if public:
        return _time(lambda: multiply_rows(gradient, table, ids, bags), material.seconds)
    return _time(lambda: weight_gradients(gradient, table, ids, offsets, bags), material.seconds)


def linear_layer(material: Material, public: bool, tokens: int = 2560, size: int = 512) -> dict[str, float]:
    """Measure a linear layer of the Transformer at the paper's size: 128 texts, `size` to 4 x `size` dimensions."""
    torch.manual_seed(0)
    layer = (nn.Linear if public else OneDnnLinear)(size, 4 * size)
    inputs = torch.randn(tokens, size)
    with torch.inference_mode():
        return _time(lambda: layer(inputs), material.seconds)


def _time(compute: Callable[[], Tensor], seconds: float) -> dict[str, float]:
    """The time of a call in milliseconds, as the mean of those within `seconds`."""
    compute()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        compute()
        count += 1
    return {"ms": 1000 * (time.perf_counter() - start) / count}
