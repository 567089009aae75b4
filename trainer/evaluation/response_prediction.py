"""Response prediction: rank the true response to an input among 99 random ones (Yang et al. 2018, section 4.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from modeling_convsim.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.ranking import CANDIDATES, OTHERS, RANKS, Queries, Ranks, build_queries, rank_in_blocks
from trainer.evaluation.registry import Baseline, CardEntry, EvaluationInputs, Evaluator

if TYPE_CHECKING:
    from datasets import Dataset

MAX_QUERIES = 10_000
RankQueries = Callable[[Sequence[float]], Ranks]  # weights of earlier turns -> the ranks of the queries

logger = logging.getLogger(__name__)


def queries_of(pairs: Dataset, max_queries: int | None = None) -> Queries:
    """The queries of held-out pairs, the same for every system that is compared; of many pairs, a random sample.

    Logs a warning if they have fewer than 100 distinct responses.

    Args:
        pairs: columns `input`, `response` and perhaps `context`.
        max_queries: the largest number of queries; by default 10,000.

    Raises:
        InputError: fewer than two distinct responses, or a query without another one.
    """
    queries = build_queries(pairs, np.arange(len(pairs)), max_queries or MAX_QUERIES)
    said = [len({true, *turns}) for true, turns in zip(queries.true.tolist(), queries.said, strict=True)]
    distinct = len(queries.responses)
    others = distinct - max(said, default=distinct)
    if others < 1:
        raise InputError(
            "response prediction needs at least 2 distinct held-out responses, or 3 if an input is one of them; "
            f"these {len(queries)} pairs have {distinct}: prepare more pairs, or leave response_prediction out of "
            "the tasks"
        )
    if others < OTHERS:
        _warn_of_few_candidates(len(queries), distinct)
    return queries


@cache  # once, not at every evaluation of a run
def _warn_of_few_candidates(queries: int, distinct: int) -> None:
    logger.warning(
        "response prediction: the %d queries have only %d distinct responses; all of them are ranked, so P@N cannot "
        "be compared with 1-of-%d ranking", queries, distinct, CANDIDATES,
    )  # fmt: skip


def rank_by_encoder(encoder: SentenceEncoder, queries: Queries) -> RankQueries:
    """Ranks by the dot product of each input with each response, which are encoded once.

    Raises:
        InputError: the encoder has no vectors for responses.
    """
    from modeling_convsim.encoding.context import encode_in_context  # imports torch

    try:
        responses = encoder.encode(queries.responses, side="response")
    except ValueError as error:
        raise InputError(f"task response_prediction: {error}") from error

    def ranks(weights: Sequence[float]) -> Ranks:
        inputs = encode_in_context(partial(encoder.encode, side="query"), queries.inputs, queries.contexts, weights)
        return rank_in_blocks(queries, lambda rows: inputs[rows] @ responses.T)

    return ranks


def summarize(ranks: Ranks, split: str, intervals: bool = False) -> dict[str, Any]:
    """The part of results.json; P@N is omitted for N above the candidates. `intervals` adds "p_at_N_interval"."""
    values = ranks.precisions()
    result: dict[str, Any] = {name: float(each.mean()) for name, each in values.items()}
    result |= {"candidates": ranks.candidates, "queries": len(ranks.others), "split": split}
    return with_intervals(result, {name: mean_interval(each) for name, each in values.items()} if intervals else {})


def evaluate_with_turns(encoder: SentenceEncoder, inputs: EvaluationInputs, weights: Sequence[float]) -> dict[str, Any]:
    """P@1, P@3 and P@10 (0 to 1) of an encoder, with the numbers of candidates and queries and the name of the split.

    If the encoder has weights of earlier turns and the pairs have any, "context_p_at_N" are the scores with them.
    """
    split, pairs = inputs.last_split()
    queries = queries_of(pairs, inputs.queries)
    ranks = rank_by_encoder(encoder, queries)
    result = summarize(ranks(()), split, inputs.intervals)
    if not weights or not any(queries.contexts):
        return result
    with_turns = summarize(ranks(weights), split, inputs.intervals)
    result |= {f"context_{name}": value for name, value in with_turns.items() if name.startswith("p_at_")}
    return result | {"context_weights": list(weights)}


def evaluate_response_prediction(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    """`evaluate_with_turns` with the `context_weights` of the model."""
    from modeling_convsim.encoding import Encoder

    weights = encoder.model.config.context_weights if isinstance(encoder, Encoder) else ()
    return evaluate_with_turns(encoder, inputs, weights)


def evaluate_baseline(baseline: Baseline, inputs: EvaluationInputs) -> dict[str, Any]:
    """The same for a baseline, which ignores earlier turns."""
    split, pairs = inputs.last_split()
    queries = queries_of(pairs, inputs.queries)
    score = baseline(queries.responses)
    return summarize(rank_in_blocks(queries, lambda rows: score(queries.inputs[rows])), split, inputs.intervals)


EVALUATOR = Evaluator(
    name="response_prediction",
    dataset="pairs",
    data_help="folder or Hub id of conversation pairs",
    evaluate=evaluate_response_prediction,
    evaluate_baseline=evaluate_baseline,
    card=CardEntry(
        task_type="text-ranking",
        task_name="response prediction",
        dataset_id="conversations",
        dataset_name="held-out conversations",
        metrics={f"p_at_{n}": f"P@{n}" for n in RANKS}
        | {f"context_p_at_{n}": f"P@{n} with earlier turns" for n in RANKS},
    ),
)
