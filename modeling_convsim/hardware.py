"""What this machine computes fastest, found by timing it."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class OneDnnLinear(nn.Linear):
    """A linear layer that oneDNN computes where no gradient is needed: the same numbers, but for rounding.

    On a CPU torch gives float32 products to MKL, which on some processors takes twice as long and more.
    """

    def forward(self, input: Tensor) -> Tensor:
        """As `nn.Linear`."""
        if torch.is_grad_enabled() or input.dtype != torch.float32 or input.device.type != "cpu":
            return super().forward(input)
        return torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, "none", [], "")


def use_onednn(model: nn.Module) -> None:
    """Gives a model's linear layers to oneDNN where that is found to be a fifth faster than torch's own way."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return
    rows, usual, onednn = torch.ones(512, 512), nn.Linear(512, 512), OneDnnLinear(512, 512)
    with torch.inference_mode():
        if _seconds(lambda: usual(rows)) < 1.2 * _seconds(lambda: onednn(rows)):
            return
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.__class__ = OneDnnLinear


def bfloat16_pays(device: torch.device) -> tuple[bool, str]:
    """Whether bfloat16 is worth its lower precision on a device, and why: matrix products there are timed.

    Returns:
        True where products of bfloat16 matrices take at most two thirds of the time of float32, and the reason.
    """
    size = 4096 if device.type == "cuda" else 512
    with torch.inference_mode():
        float32, bfloat16 = (
            torch.ones(size, size, device=device, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)
        )
        # Reading a number of the product waits for a GPU.
        ratio = _seconds(lambda: (float32 @ float32)[0, 0].item()) / _seconds(
            lambda: (bfloat16 @ bfloat16)[0, 0].item()
        )
    return ratio >= 1.5, f"bfloat16 matrix products are {ratio:.1f} times as fast as float32 ones on this {device.type}"


def _seconds(call: Callable[[], Any]) -> float:
    """The shortest of a few calls."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)
