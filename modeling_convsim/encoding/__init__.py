"""Encodes texts with a saved model: `Encoder`, and the command `python -m modeling_convsim.encoding`."""

from modeling_convsim.encoding.encoder import Encoder
from modeling_convsim.encoding.options import Dtype, Side

__all__ = ["Dtype", "Encoder", "Side"]
