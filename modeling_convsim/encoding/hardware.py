"""Chooses the precision by the features of the hardware, never by a timing.

If two kernels are equally fast, a timing selects one of them at random, and their results differ in the last bits.
"""

import torch


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
