"""Encodes texts with a saved model: `Encoder`, and the command `python -m modeling_convsim.encoding`."""

from modeling_convsim.encoding.encoder import Dtype, Encoder, Side

__all__ = ["Dtype", "Encoder", "Side"]
