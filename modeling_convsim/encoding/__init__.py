"""Encodes texts with a saved model: `Encoder`, and the command `python -m modeling_convsim.encoding`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from modeling_convsim.encoding.encoder import Encoder
    from modeling_convsim.encoding.joint import JointEncoder

__all__ = ["Encoder", "JointEncoder"]
MODULES = {"Encoder": "encoder", "JointEncoder": "joint"}  # which the help of a command does not need


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
