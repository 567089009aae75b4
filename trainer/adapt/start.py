"""Where adapting starts: the base, with token weights and a share of the lexical channel for the conversations.

A token that is common in a domain, such as the name of the product that a support chat is about, says little there.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.adapt.interpolation import Interpolation
from trainer.data.token_cache import TokenColumn
from trainer.data.token_weights import rarity_of, shares_of_rarity, sif_of, token_shares
from trainer.evaluation.metrics.precision_at_n.precision_at_n import true_ranks
from trainer.evaluation.response_prediction import ResponseQueries, build_queries

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of the lexical channel in the score
QUERIES = 2_000
CANDIDATE_PAIRS = 20_000  # from which the queries are sampled


@dataclass(frozen=True)
class Start:
    """Where training starts.

    Attributes:
        base: the weights of the base.
        base_share: the share of its lexical channel.
        weights: the weights of the start.
        adjusted: whether its token weights were adjusted to the conversations.
    """

    base: Interpolation
    base_share: float
    weights: Interpolation
    adjusted: bool


def prepare_start(
    model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, columns: Iterable[TokenColumn], pairs: Dataset
) -> Start:
    """Adjust the token weights of a base, and choose the share of its lexical channel, where that ranks replies better.

    Both are chosen by the pairs to train on: they are more queries than those of dev, and as new to the base. The mean
    reciprocal rank decides, which varies less with the sample of queries than P@N.

    Args:
        model: the base, which becomes the start.
        tokenizer: its tokenizer.
        columns: the token ids of the pairs.
        pairs: the pairs to train on, with two distinct responses or more.
    """
    some = pairs.select(range(0, len(pairs), -(-len(pairs) // CANDIDATE_PAIRS)))
    queries = build_queries(some["input"][:], some["response"][:], QUERIES, exclude_inputs=True)
    base, share = Interpolation(model), model.config.lexical_share
    rankings = {(False, share): rank for share, rank in _rank_shares(model, tokenizer, queries).items()}
    if adjust_token_weights(model, columns):
        rankings |= {(True, share): rank for share, rank in _rank_shares(model, tokenizer, queries).items()}
    adjusted, chosen = max(rankings, key=lambda start: rankings[start])
    if not adjusted:
        base.apply(model, 0.0)
    model.config.lexical_share = chosen
    return Start(base, share, Interpolation(model), adjusted)


def shares_of(model: ConvSimForMultitask) -> list[float]:
    """The shares that a model's lexical channel can have, its own first; without a channel, only that, 0."""
    own = model.config.lexical_share
    return list(dict.fromkeys([own, *SHARES])) if model.lexical_channel is not None else [own]


def mean_reciprocal_rank(scores: np.ndarray) -> float:
    """The mean of 1 / rank of the true response, of scores (queries, candidates) with it in column 0."""
    return float(np.mean(1 / true_ranks(scores, np.zeros(len(scores), np.int64))))


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


def _rank_shares(
    model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, queries: ResponseQueries
) -> dict[float, float]:
    """Mean reciprocal rank of the true response with each of `shares_of` the model."""
    own, shares, was_training = model.config.lexical_share, shares_of(model), model.training
    if len(shares) > 1:
        model.config.lexical_share = 0.5
    encoder = Encoder(model, tokenizer)  # in evaluation mode
    inputs = encoder.encode(queries.inputs, side="query")
    responses = encoder.encode(queries.responses, side="response")
    model.config.lexical_share = own
    model.train(was_training)
    size = model.config.embedding_size
    dense = _score(queries, inputs[:, :size], responses[:, :size])
    lexical = _score(queries, inputs[:, size:], responses[:, size:])  # zeros without a channel
    return {share: mean_reciprocal_rank((1 - share) * dense + share * lexical) for share in shares}


def _score(queries: ResponseQueries, inputs: np.ndarray, responses: np.ndarray) -> np.ndarray:
    """The dot products of each input with its candidates, (queries, candidates)."""
    return np.stack([responses[row] @ vector for row, vector in zip(queries.candidates, inputs, strict=True)])
