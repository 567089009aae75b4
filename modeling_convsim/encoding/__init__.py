"""Encodes texts with a saved model: `Encoder`, and the command `python -m modeling_convsim.encoding`."""

from typing import TYPE_CHECKING, Any

from modeling_convsim.encoding.options import Dtype, Side

if TYPE_CHECKING:
    from modeling_convsim.encoding.encoder import Encoder

__all__ = ["Dtype", "Encoder", "Side"]


def __getattr__(name: str) -> Any:
    """Imports `Encoder` when it is first used: it needs torch, and `python -m modeling_convsim.encoding --help` not."""
    if name == "Encoder":
        from modeling_convsim.encoding.encoder import Encoder

        return Encoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
