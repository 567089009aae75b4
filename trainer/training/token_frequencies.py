"""Adjusts a model's token weights to the frequencies of tokens in other texts than it was trained on.

A token that is common in a domain, such as the name of the product that a support chat is about, says little there.
"""

from collections.abc import Iterable

import numpy as np
import torch

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.data.token_cache import TokenColumn
from trainer.data.token_weights import rarity_of, shares_of_rarity, sif_of, token_shares


@torch.no_grad()
def adjust_token_weights(model: ConvSimForMultitask, columns: Iterable[TokenColumn]) -> bool:
    """Adjust the weights of a model's tokens to the frequencies in some texts; returns whether it could.

    The new frequency of a token is the mean of that in the texts of the model, which the weights of its lexical channel
    state, and that in these texts. The lexical channel gets the `rarity_weights` of the new frequencies. The encoder's
    token weights, if it has them, are multiplied by the square root of the factor by which SIF weights (Arora et al.,
    2017) would change: they are learned, and partly rare where the texts of the model made them so.

    Args:
        model: a model; one without a lexical channel is not changed.
        columns: the token ids of the texts.
    """
    if model.lexical_channel is None:
        return False
    rarity = model.lexical_channel.weights
    old = shares_of_rarity(rarity.double().cpu().numpy())
    new = (old + token_shares(columns, len(old))) / 2
    rarity.copy_(torch.from_numpy(rarity_of(new)))
    if (token_weights := getattr(model.encoder, "token_weights", None)) is not None:
        factors = np.sqrt(sif_of(new) / sif_of(old))
        token_weights.weight.mul_(torch.from_numpy(factors).to(token_weights.weight).unsqueeze(1))
    return True
