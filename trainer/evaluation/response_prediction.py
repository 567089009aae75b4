"""Response prediction: rank the true response to an input among 99 random ones (Yang et al. 2018, section 4.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from data_scripts.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.registry import Baseline, CardEntry, EvaluationInputs, Evaluator

if TYPE_CHECKING:
    from datasets import Dataset

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
        contexts: the earlier turns of each query, the newest first.
    """

    inputs: list[str]
    responses: list[str]
    candidates: np.ndarray
    contexts: list[list[str]]


def build_queries(
    inputs: Sequence[str],
    responses: Sequence[str],
    max_queries: int = MAX_QUERIES,
    seed: int = 0,
    contexts: Sequence[list[str]] | None = None,
) -> ResponseQueries:
    """Build queries from held-out pairs: a pure function of the texts and the seed.

    From more than `max_queries` pairs, a random sample of this size is used. The other candidates of a query are 99
    distinct responses of other queries, sampled at random; none equals the true response, the input, which may be the
    response of the pair before it in a thread, or an earlier turn. If the queries have fewer than 100 distinct
    responses that are no turn before them, each query ranks all of them, and a warning says so.

    Args:
        inputs: the input of each pair.
        responses: the response of each pair.
        max_queries: the largest number of queries.
        seed: seed of the samples.
        contexts: the earlier turns of each pair, the newest first; by default none.

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
    selected_contexts = [contexts[index] if contexts is not None else [] for index in selected]
    before = [  # the responses that are turns before each query
        {position[turn] for turn in (text, *context) if turn in position} - {position[true]}
        for text, context, true in zip(selected_inputs, selected_contexts, true_responses, strict=True)
    ]
    most = max(map(len, before), default=0)
    size = min(CANDIDATES, len(position) - most)
    if size < 2:
        raise InputError(
            "response prediction needs at least 2 distinct held-out responses to rank, and 3 where an input is one of "
            f"them; these {len(true_responses)} pairs have {len(position)}: prepare more pairs, or leave "
            "response_prediction out of the tasks"
        )
    if size < CANDIDATES:
        _warn_of_few_candidates(len(true_responses), size)
    candidates = np.empty((len(true_responses), size), dtype=np.int64)
    drawn = min(size - 1 + max(most, 1), len(position) - 1)  # more than needed, in case turns before are among them
    for row, (response, turns) in enumerate(zip(true_responses, before, strict=True)):
        true = position[response]
        others = random.choice(len(position) - 1, drawn, replace=False)
        others += others >= true  # positions from this one on move up by one, to skip it
        if turns:
            others = others[~np.isin(others, list(turns))]
        candidates[row] = true, *others[: size - 1]
    return ResponseQueries(selected_inputs, list(position), candidates, selected_contexts)


def queries_of(pairs: Dataset, max_queries: int = MAX_QUERIES) -> ResponseQueries:
    """`build_queries` of a dataset of pairs."""
    return build_queries(pairs["input"][:], pairs["response"][:], max_queries, contexts=contexts_of(pairs))


def contexts_of(pairs: Dataset) -> list[list[str]]:
    """The earlier turns of each pair's input, the newest first; none in data without the column."""
    if "context" not in pairs.column_names:
        return [[] for _ in range(len(pairs))]
    return [turns or [] for turns in pairs["context"][:]]  # None in data that were joined with some that have it


@cache  # once, not at every evaluation of a run
def _warn_of_few_candidates(queries: int, candidates: int) -> None:
    logger.warning(
        "response prediction: the %d queries have only %d distinct responses and rank all of these; P@N cannot be "
        "compared with that of 1-of-%d ranking", queries, candidates, CANDIDATES,
    )  # fmt: skip


Scorer = Callable[[Sequence[float]], np.ndarray]  # weights of earlier turns -> scores (queries, candidates)


def score_candidates(encoder: SentenceEncoder, queries: ResponseQueries, weights: Sequence[float] = ()) -> np.ndarray:
    """Scores (queries, candidates), float32: the dot product of each input with each of its candidates.

    Args:
        encoder: the model.
        queries: the queries.
        weights: of the earlier turns, which are ignored by default.

    Raises:
        InputError: the encoder has no vectors for responses.
    """
    return _scorer(encoder, queries)(weights)


def _scorer(encoder: SentenceEncoder, queries: ResponseQueries) -> Scorer:
    """`score_candidates` for several weights, for which the responses are encoded once."""
    from modeling_convsim.encoding.context import encode_in_context  # imports torch

    try:
        responses = encoder.encode(queries.responses, side="response")
    except ValueError as error:
        raise InputError(f"task response_prediction: {error}") from error

    def score(weights: Sequence[float]) -> np.ndarray:
        inputs = encode_in_context(partial(encoder.encode, side="query"), queries.inputs, queries.contexts, weights)
        scores = np.empty(queries.candidates.shape, dtype=np.float32)
        for start in range(0, len(scores), SCORED_AT_ONCE):
            rows = slice(start, start + SCORED_AT_ONCE)
            # einsum instead of a BLAS product: it sums every pair in the same order, so equal vectors tie exactly.
            scores[rows] = np.einsum("qd,qcd->qc", inputs[rows], responses[queries.candidates[rows]])
        return scores

    return score


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
    encoder: SentenceEncoder,
    queries: ResponseQueries,
    split: str,
    intervals: bool = False,
    weights: Sequence[float] | None = None,
) -> dict:
    """P@1, P@3 and P@10 (0 to 1) of `encoder`, with the numbers of candidates and queries and the name of the split.

    With weights of earlier turns, by default the `context_weights` of the model, and if there are such turns,
    "context_p_at_N" are the same with them.
    """
    from modeling_convsim.encoding import Encoder

    if weights is None:
        weights = encoder.model.config.context_weights if isinstance(encoder, Encoder) else ()
    return _evaluate_scorer(_scorer(encoder, queries), queries, split, intervals, weights)


def _evaluate_scorer(
    score: Scorer, queries: ResponseQueries, split: str, intervals: bool, weights: Sequence[float]
) -> dict[str, Any]:
    result = summarize(score(()), split, intervals)
    if not weights or not any(queries.contexts):
        return result
    with_turns = summarize(score(weights), split, intervals)
    result |= {f"context_{name}": value for name, value in with_turns.items() if name.startswith("p_at_")}
    return result | {"context_weights": list(weights)}


def _evaluate(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    split, pairs = inputs.last_split()
    queries = queries_of(pairs, inputs.queries or MAX_QUERIES)
    return evaluate_response_prediction(encoder, queries, split, inputs.intervals, inputs.context)


def _evaluate_baseline(baseline: Baseline, inputs: EvaluationInputs) -> dict[str, Any]:
    from modeling_convsim.encoding.context import select_turns

    split, pairs = inputs.last_split()
    queries = queries_of(pairs, inputs.queries or MAX_QUERIES)

    alone = baseline(queries.inputs, queries.responses, queries.candidates)

    def score(weights: Sequence[float]) -> np.ndarray:
        total = alone
        turns = select_turns(queries.inputs, queries.contexts, len(weights))
        for position, weight in enumerate(weights):
            texts = ["".join(each[position : position + 1]) for each in turns]
            total = total + np.float32(weight) * baseline(texts, queries.responses, queries.candidates)
        return total

    return _evaluate_scorer(score, queries, split, inputs.intervals, inputs.context or ())


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
        metrics={f"p_at_{n}": f"P@{n}" for n in RANKS}
        | {f"context_p_at_{n}": f"P@{n} with earlier turns" for n in RANKS},
    ),
)
