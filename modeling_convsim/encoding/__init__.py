"""Encodes texts with a saved model: `Encoder`, and the command `python -m modeling_convsim.encoding`."""

from modeling_convsim.encoding.encoder import Dtype, Encoder, Side
from modeling_convsim.encoding.joint import JointEncoder

__all__ = ["Dtype", "Encoder", "JointEncoder", "Side"]
