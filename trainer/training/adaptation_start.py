"""Where adapting starts: the base, with token weights and a share of the lexical channel for the conversations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.data.token_cache import TokenColumn
from trainer.evaluation.metrics.precision_at_n.precision_at_n import true_ranks
from trainer.evaluation.response_prediction import ResponseQueries, build_queries
from trainer.training.interpolation import Interpolation
from trainer.training.lexical_share import SHARES
from trainer.training.token_frequencies import adjust_token_weights

QUERIES = 2_000
CANDIDATE_PAIRS = 20_000  # from which the queries are sampled


@dataclass(frozen=True)
class Start:
    """Where training starts.

    Attributes:
        base: the base.
        base_share: the share of its lexical channel.
        base_ranking: its P@N, on dev or over all folds of cross-validation.
        interpolation: the start.
        adjusted: whether its token weights were adjusted to the conversations.
    """

    base: Interpolation
    base_share: float
    base_ranking: Mapping[str, float]
    interpolation: Interpolation
    adjusted: bool


def prepare_start(
    model: ConvSimForMultitask,
    tokenizer: PreTrainedTokenizerFast,
    columns: Iterable[TokenColumn],
    pairs: Dataset,
    base_ranking: Mapping[str, float],
) -> Start:
    """Adjust the token weights of a base, and choose the share of its lexical channel, where that ranks replies better.

    Both are chosen by the pairs to train on: they are more queries than those of dev, and as new to the base. The mean
    reciprocal rank decides, which varies less with the sample of queries than P@N.

    Args:
        model: the base, which becomes the start.
        tokenizer: its tokenizer.
        columns: the token ids of the pairs.
        pairs: the pairs to train on, with two distinct responses or more.
        base_ranking: as in `Start`.
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
    return Start(base, share, base_ranking, Interpolation(model), adjusted)


def _rank_shares(
    model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, queries: ResponseQueries
) -> dict[float, float]:
    """Mean reciprocal rank of the true response with the model's own share, which comes first, and with others."""
    own, was_training = model.config.lexical_share, model.training
    shares = list(dict.fromkeys([own, *SHARES])) if model.lexical_channel is not None else [own]
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


def mean_reciprocal_rank(scores: np.ndarray) -> float:
    """The mean of 1 / rank of the true response, of scores (queries, candidates) with it in column 0."""
    return float(np.mean(1 / true_ranks(scores, np.zeros(len(scores), np.int64))))
