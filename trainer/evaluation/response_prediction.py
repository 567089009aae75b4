"""Response prediction: the true response to an input among 99 random ones (Yang et al. 2018, section 4.1)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data_scripts.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.metrics.precision_at_n.precision_at_n import precision_at_n, true_ranks

CANDIDATES = 100
MAX_QUERIES = 10_000
SCORED_AT_ONCE = 256
RANKS = (1, 3, 10)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResponseQueries:
    """A fixed list of queries, the same for every system.

    Attributes:
        inputs: the text of each query.
        responses: the distinct texts of the queries' responses.
        candidates: (queries, 100) positions in `responses`, fewer columns where there are fewer responses; column 0 is
            the true one, no text occurs twice in a row.
    """

    inputs: list[str]
    responses: list[str]
    candidates: np.ndarray


def build_queries(
    inputs: Sequence[str], responses: Sequence[str], max_queries: int = MAX_QUERIES, seed: int = 0
) -> ResponseQueries:
    """Queries from held-out pairs, a pure function of the texts and the seed.

    Of more than `max_queries` pairs so many are drawn. The other candidates of a query are 99 distinct responses of
    other queries, drawn at random; none equals the true response. Where the queries have fewer than 100 distinct
    responses, each ranks all of them, and a warning says so.

    Raises:
        InputError: fewer than two distinct responses.
    """
    # RandomState and not default_rng: its stream is frozen, so the list stays the same with any version of NumPy.
    random = np.random.RandomState(seed)
    chosen = range(len(inputs))
    if len(inputs) > max_queries:
        chosen = np.sort(random.permutation(len(inputs))[:max_queries]).tolist()
    true_responses = [responses[index] for index in chosen]
    position = {text: index for index, text in enumerate(dict.fromkeys(true_responses))}
    if len(position) < 2:
        raise InputError(
            f"response prediction needs at least 2 distinct held-out responses to rank, these {len(true_responses)} "
            f"pairs have {len(position)}: prepare more pairs, or leave response_prediction out of the tasks"
        )
    size = min(CANDIDATES, len(position))
    if size < CANDIDATES:
        logger.warning(
            "response prediction: the %d queries have only %d distinct responses and rank all of these; "
            "P@N is not that of 1-of-%d ranking and does not compare with it", len(true_responses), size, CANDIDATES,
        )  # fmt: skip
    candidates = np.empty((len(true_responses), size), dtype=np.int64)
    for row, text in enumerate(true_responses):
        true = position[text]
        others = random.choice(len(position) - 1, size - 1, replace=False)
        candidates[row] = true, *(others + (others >= true))  # the numbers from `true` on move up by one: never it
    return ResponseQueries([inputs[index] for index in chosen], list(position), candidates)


def score_candidates(encoder: SentenceEncoder, queries: ResponseQueries) -> np.ndarray:
    """Scores (queries, candidates), float32: the dot product of each input with each of its candidates.

    Raises:
        InputError: the encoder has no vectors for responses.
    """
    try:
        responses = encoder.encode(queries.responses, side="response")
    except ValueError as error:
        raise InputError(f"task response_prediction: {error}") from error
    inputs = encoder.encode(queries.inputs, side="query")
    scores = np.empty(queries.candidates.shape, dtype=np.float32)
    for start in range(0, len(scores), SCORED_AT_ONCE):
        rows = slice(start, start + SCORED_AT_ONCE)
        # einsum and not a BLAS product: it sums every pair in one order, so equal vectors tie exactly.
        scores[rows] = np.einsum("qd,qcd->qc", inputs[rows], responses[queries.candidates[rows]])
    return scores


def summarise(scores: np.ndarray, split: str, intervals: bool = False) -> dict:
    """The entry of results.json for `scores` (queries, candidates) with the true response in column 0.

    P@N is left out for an N above the number of candidates. With `intervals` also "p_at_N_interval" for each N.
    """
    queries, candidates = scores.shape
    true, ns = np.zeros(queries, dtype=np.int64), [n for n in RANKS if n <= candidates]
    result = {**precision_at_n(scores, true, ns), "candidates": candidates, "queries": queries, "split": split}
    if not intervals:
        return result
    ranks = true_ranks(scores, true)
    return with_intervals(result, {f"p_at_{n}": mean_interval(ranks <= n) for n in ns})


def evaluate_response_prediction(
    encoder: SentenceEncoder, queries: ResponseQueries, split: str, intervals: bool = False
) -> dict:
    """P@1, P@3 and P@10 (0 to 1) of `encoder`, with the number of candidates and queries and the split's name."""
    return summarise(score_candidates(encoder, queries), split, intervals)
