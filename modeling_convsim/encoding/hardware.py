"""Chooses compute kernels and precision by the features of the hardware, never by a timing.

If two kernels are equally fast, a timing selects one of them at random, and their results differ in the last bits.
"""

import functools
import platform
from pathlib import Path

import torch
from torch import Tensor, nn

FEW_ROWS = 16


class OneDnnLinear(nn.Linear):
    """A linear layer computed by oneDNN in inference mode; equal to `nn.Linear` up to rounding."""

    def forward(self, input: Tensor) -> Tensor:
        """As `nn.Linear`: (..., in_features) -> (..., out_features)."""
        # Only in inference mode, as in `Encoder`: a model that is in training computes everything with torch. For a few
        # rows, torch is as fast or faster.
        is_plain = input.dtype == torch.float32 and input.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        if not (torch.is_inference_mode_enabled() and is_plain and input.numel() > FEW_ROWS * self.in_features):
            return super().forward(input)
        return torch.ops.mkldnn._linear_pointwise(input, self.weight, self.bias, "none", [], "")


def use_onednn(model: nn.Module) -> None:
    """Computes a model's linear layers with oneDNN on AMD processors.

    On a CPU, torch computes float32 matrix products with MKL, which can be slower than oneDNN on processors that are
    not made by Intel. On processors of other vendors, torch's default kernels are used.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return
    if not is_amd_processor():
        return
    for module in model.modules():
        if type(module).forward is nn.Linear.forward:  # other subclasses compute something else
            module.__class__ = OneDnnLinear


@functools.cache
def is_amd_processor() -> bool:
    """Whether the processor's vendor is AMD; False if the system does not report it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        return "AuthenticAMD" in cpuinfo.read_text(encoding="utf-8", errors="replace")
    return "AuthenticAMD" in platform.processor()


def has_fast_bfloat16(device: torch.device) -> tuple[bool, str]:
    """Whether a device has instructions for bfloat16 matrix products, and the reason as a text.

    Without such instructions bfloat16 is emulated, many times slower than float32.

    Returns:
        True for a GPU with bfloat16 and for an x86 processor with AVX512-BF16 or AMX-BF16 that oneDNN may use
        (`ONEDNN_MAX_CPU_ISA` can disable them); and the reason, for a log.
    """
    if device.type == "cuda":
        supported = torch.cuda.is_bf16_supported(including_emulation=False)
        return supported, f"this GPU has {'' if supported else 'no '}bfloat16 instructions"
    if device.type != "cpu":
        return False, f"bfloat16 is not used on {device.type} devices unless asked for"
    has_instructions = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    supported = has_instructions and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported, f"this processor has {'' if supported else 'no '}bfloat16 instructions (AVX512-BF16 or AMX-BF16)"


@functools.cache
def has_int8_products() -> bool:
    """Whether torch multiplies int8 matrices with instructions for it (AVX512-VNNI), and exactly.

    Without them it is slow, or adds the products of neighbors in 16 bits, which may overflow; `ONEDNN_MAX_CPU_ISA` can
    disable them.
    """
    if not (torch.cpu._is_vnni_supported() and torch.backends.mkldnn.is_available()):
        return False
    largest = torch.full((64, 64), 127, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest) == 64 * 127**2).all())
