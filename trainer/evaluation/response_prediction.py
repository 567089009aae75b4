"""Response prediction: rank the true response to an input among 99 random ones (Yang et al. 2018, section 4.1)."""

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from data_scripts.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.registry import Baseline, CardEntry, EvaluationInputs, Evaluator

CANDIDATES = 100
MAX_QUERIES = 10_000
SCORED_AT_ONCE = 8  # so that the gathered vectors of their candidates stay in the cache of the CPU
RANKS = (1, 3, 10)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResponseQueries:
    """A fixed list of queries, the same for every system that is compared.

    Attributes:
        inputs: the text of each query.
        responses: the distinct texts of the queries' responses.
        candidates: (queries, 100) positions in `responses`, fewer columns if there are fewer responses. Column 0 is the
            true response; the texts of a row are distinct.
    """

    inputs: list[str]
    responses: list[str]
    candidates: np.ndarray


def build_queries(
    inputs: Sequence[str],
    responses: Sequence[str],
    max_queries: int = MAX_QUERIES,
    seed: int = 0,
) -> ResponseQueries:
    """Build queries from held-out pairs: a pure function of the texts and the seed.

    From more than `max_queries` pairs, a random sample of this size is used. The other candidates of a query are 99
    distinct responses of other queries, sampled at random; none equals the true response, or the input, which may be
    the response of the pair before it in a thread. If the queries have fewer than 100 distinct responses that
    are no input, each query ranks all of them, and a warning says so.

    Args:
        inputs: the input of each pair.
        responses: the response of each pair.
        max_queries: the largest number of queries.
        seed: seed of the samples.

    Raises:
        InputError: fewer than two distinct responses.
    """
    # RandomState instead of default_rng: its stream is frozen, so every version of NumPy gives the same list.
    random = np.random.RandomState(seed)
    selected = range(len(inputs))
    if len(inputs) > max_queries:
        selected = np.sort(random.permutation(len(inputs))[:max_queries]).tolist()
    true_responses = [responses[index] for index in selected]
    position = {text: index for index, text in enumerate(dict.fromkeys(true_responses))}
    selected_inputs = [inputs[index] for index in selected]
    size = min(CANDIDATES, len(position) - any(text in position for text in selected_inputs))
    if size < 2:
        raise InputError(
            "response prediction needs at least 2 distinct held-out responses to rank, and 3 where an input is one of "
            f"them; these {len(true_responses)} pairs have {len(position)}: prepare more pairs, or leave "
            "response_prediction out of the tasks"
        )
    if size < CANDIDATES:
        _warn_of_few_candidates(len(true_responses), size)
    candidates = np.empty((len(true_responses), size), dtype=np.int64)
    for row, (text, response) in enumerate(zip(selected_inputs, true_responses, strict=True)):
        true = position[response]
        # One more than needed if possible, in case the input is among them.
        others = random.choice(len(position) - 1, min(size, len(position) - 1), replace=False)
        others += others >= true  # positions from this one on move up by one, to skip it
        candidates[row] = true, *others[others != position.get(text)][: size - 1]
    return ResponseQueries(selected_inputs, list(position), candidates)


@functools.cache  # once, not at every evaluation of a run
def _warn_of_few_candidates(queries: int, candidates: int) -> None:
    logger.warning(
        "response prediction: the %d queries have only %d distinct responses and rank all of these; P@N cannot be "
        "compared with that of 1-of-%d ranking", queries, candidates, CANDIDATES,
    )  # fmt: skip


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
        # einsum instead of a BLAS product: it sums every pair in the same order, so equal vectors tie exactly.
        scores[rows] = np.einsum("qd,qcd->qc", inputs[rows], responses[queries.candidates[rows]])
    return scores


def response_hits(encoder: SentenceEncoder, queries: ResponseQueries) -> np.ndarray:
    """Whether the true response of each query ranks first (queries,); ties count against the model."""
    from trainer.evaluation.metrics.precision_at_n.precision_at_n import true_ranks

    scores = score_candidates(encoder, queries)
    return true_ranks(scores, np.zeros(len(scores), dtype=np.int64)) == 1


def summarize(scores: np.ndarray, split: str, intervals: bool = False) -> dict:
    """The part of results.json for `scores` (queries, candidates) with the true response in column 0.

    P@N is omitted for an N above the number of candidates. `intervals` adds "p_at_N_interval" for each N.
    """
    from trainer.evaluation.metrics.precision_at_n.precision_at_n import precision_at_n, true_ranks

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
    """P@1, P@3 and P@10 (0 to 1) of `encoder`, with the numbers of candidates and queries and the name of the split."""
    return summarize(score_candidates(encoder, queries), split, intervals)


def _build(pairs: Any, inputs: EvaluationInputs) -> ResponseQueries:
    return build_queries(pairs["input"][:], pairs["response"][:], inputs.queries or MAX_QUERIES)


def _evaluate(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    split, pairs = inputs.last_split()
    return evaluate_response_prediction(encoder, _build(pairs, inputs), split, inputs.intervals)


def _evaluate_baseline(baseline: Baseline, inputs: EvaluationInputs) -> dict[str, Any]:
    split, pairs = inputs.last_split()
    queries = _build(pairs, inputs)
    scores = baseline(queries.inputs, queries.responses, queries.candidates)
    return summarize(scores, split, inputs.intervals)


EVALUATOR = Evaluator(
    name="response_prediction",
    dataset="pairs",
    data_help="folder or Hub id of conversation pairs",
    evaluate=_evaluate,
    evaluate_baseline=_evaluate_baseline,
    card=CardEntry(
        task_type="text-ranking",
        task_name="response prediction",
        dataset_id="conversations",
        dataset_name="held-out conversations",
        metrics={f"p_at_{n}": f"P@{n}" for n in RANKS},
    ),
)
