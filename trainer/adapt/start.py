"""The model that adapting starts from, and its interpolation with the trained model.

The start is the base with token weights adjusted to the conversations: a token that is common in a domain, such as the
name of a product in its support chats, is not informative there. The trained weights are interpolated with it (Wortsman
et al., 2022).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer
from modeling_convsim.encoding.context import encode_in_context
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.data.token_cache import TokenColumn
from trainer.data.token_weights import rarity_of, shares_of_rarity, sif_of, token_shares
from trainer.evaluation.ranking import Queries, Ranks, build_queries, rank

FACTORS = (0.25, 0.5, 0.75, 1.0)
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of the lexical channel in the score


class Interpolation:
    """The weights base + factor (trained - base): 0 gives the base, 1 the trained weights.

    The weights of a frozen encoder do not change.
    """

    def __init__(self, base: ConvSimForMultitask) -> None:
        self._base = _copy(base)

    def apply(self, model: ConvSimForMultitask, factor: float) -> None:
        """Replace the trained weights of a model by interpolated ones."""
        self._load(model, _copy(model), factor)

    def evaluate(self, model: ConvSimForMultitask, evaluate: Callable[[float], None]) -> None:
        """Call `evaluate` with each of `FACTORS` on the interpolated model; then restore the trained weights."""
        trained = _copy(model)
        for factor in FACTORS:
            self._load(model, trained, factor)
            evaluate(factor)
        self._load(model, trained, 1.0)

    @torch.no_grad()
    def _load(self, model: ConvSimForMultitask, trained: Mapping[str, Tensor], factor: float) -> None:
        weights = model.state_dict()
        for name, value in self._base.items():
            torch.lerp(value.to(weights[name]), trained[name], factor, out=weights[name])


def _copy(model: ConvSimForMultitask) -> dict[str, Tensor]:
    """The trained weights, and the weights of the lexical channel, which training does not change."""
    frozen = {name for name, value in model.named_parameters() if not value.requires_grad}
    return {name: value.detach().clone() for name, value in model.state_dict().items() if name not in frozen}


def prepare_start(
    model: ConvSimForMultitask, tokenizer: BatchTokenizer, columns: Iterable[TokenColumn], pairs: Dataset
) -> tuple[Interpolation, bool]:
    """Adjust the token weights of a base and the share of its lexical channel if this ranks replies better.

    Both are selected on the training pairs: there are more of them than dev pairs, and the base does not know them. The
    criterion is the mean reciprocal rank, which varies less with the sample of queries than P@N.

    Args:
        model: the base, which becomes the start.
        tokenizer: its tokenizer.
        columns: the token ids of the pairs.
        pairs: the pairs to train on, with three distinct responses or more.

    Returns:
        The weights of the start, and whether its token weights were adjusted to the conversations.
    """
    queries, shares = build_queries(pairs, np.arange(len(pairs))), shares_of(model)
    base = Interpolation(model)
    rankings = {(False, share): ranks for share, ranks in rank_shares(model, tokenizer, queries, shares).items()}
    if adjust_token_weights(model, columns):
        rankings |= {(True, share): ranks for share, ranks in rank_shares(model, tokenizer, queries, shares).items()}
    adjusted, share = max(rankings, key=lambda start: rankings[start].reciprocal_rank().mean())
    if not adjusted:
        base.apply(model, 0.0)
    model.config.lexical_share = share
    return Interpolation(model), adjusted


def shares_of(model: ConvSimForMultitask) -> list[float]:
    """The candidate shares of a model's lexical channel, its own first; only 0 without a channel."""
    own = model.config.lexical_share
    return list(dict.fromkeys([own, *SHARES])) if model.lexical_channel is not None else [own]


def rank_shares(
    model: ConvSimForMultitask,
    tokenizer: BatchTokenizer,
    queries: Queries,
    shares: Sequence[float],
    weights: Sequence[float] = (),
) -> dict[float, Ranks]:
    """The ranks by a model with each share of its lexical channel, and with weights of earlier turns."""
    own, was_training = model.config.lexical_share, model.training
    if model.lexical_channel is not None:
        model.config.lexical_share = 0.5  # any share that gives both parts
    encoder = Encoder(model, tokenizer)
    inputs = encode_in_context(partial(encoder.encode, side="query"), queries.inputs, queries.contexts, weights)
    responses = encoder.encode(queries.responses, side="response")
    model.config.lexical_share = own
    model.train(was_training)
    size = model.config.embedding_size
    dense = inputs[:, :size] @ responses[:, :size].T
    lexical = inputs[:, size:] @ responses[:, size:].T  # zeros without a channel
    return {share: rank(queries, (1 - share) * dense + share * lexical) for share in shares}


@torch.no_grad()
def adjust_token_weights(model: ConvSimForMultitask, columns: Iterable[TokenColumn]) -> bool:
    """Adjust a model's token weights to the token frequencies in some texts; returns whether this was possible.

    The new frequency of a token is the mean of its frequencies in the model's training texts, derived from the weights
    of its lexical channel, and in these texts. The lexical channel gets the `rarity_of` the new frequencies. The
    encoder's token weights, if any, are multiplied by the square root of the factor by which SIF weights (Arora et al.,
    2017) would change: they are learned, and only partly depend on frequencies.

    Args:
        model: a model; one without a lexical channel is not changed.
        columns: the token ids of the texts.
    """
    if model.lexical_channel is None:
        return False
    rarity = model.lexical_channel.weights
    old = shares_of_rarity(rarity.double().cpu().numpy())
    new = (old + token_shares(columns, len(old))) / 2
    rarity.copy_(torch.from_numpy(np.where(old > 0, rarity_of(new), 0)))
    if (token_weights := getattr(model.encoder, "token_weights", None)) is not None:
        factors = np.sqrt(sif_of(new) / sif_of(old))
        token_weights.weight.mul_(torch.from_numpy(factors).to(token_weights.weight).unsqueeze(1))
    return True
