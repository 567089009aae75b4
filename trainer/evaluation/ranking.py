"""How well a system ranks the true response to a message among 99 others: exactly, over all samples of others.

With few messages, a comparison would depend on the random sample of other responses. So P@N and the mean reciprocal
rank are expected values over all samples, computed from the number of responses that score at least as high
(hypergeometric distribution). The message itself, often the response of the previous pair, and its earlier turns are
not candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import bootstrap_interval, with_intervals

if TYPE_CHECKING:
    from datasets import Dataset

CANDIDATES = 100
OTHERS = CANDIDATES - 1
RANKS = (1, 3, 10)
QUERIES = 2_000
RANKED_AT_ONCE = 500  # queries: bounds the memory
FEWEST_REPLIES = 3  # distinct ones: the true one, the message and another one
MRR = "mean_reciprocal_rank"
TIE = 1e-6  # scores of equal vectors differ by less, as a share of the score if that is above 1


@dataclass(frozen=True)
class Queries:
    """Messages whose replies are ranked, the same for every system.

    Attributes:
        inputs: the message of each query.
        responses: the distinct replies of all queries.
        true: (queries,) the position of each query's reply.
        said: (queries,) the positions of the message and of earlier turns that are among the replies.
        threads: (queries,) the number of the conversation.
        contexts: (queries,) the earlier turns of each message, the newest first.
    """

    inputs: list[str]
    responses: list[str]
    true: np.ndarray
    said: list[list[int]]
    threads: np.ndarray
    contexts: list[list[str]]

    def __len__(self) -> int:
        return len(self.inputs)

    def is_other(self, rows: slice = slice(None)) -> np.ndarray:
        """Whether each reply can be another candidate of some queries, since it is not in `said`: (rows, replies)."""
        true = self.true[rows]
        result = np.ones((len(true), len(self.responses)), dtype=bool)
        result[np.arange(len(true)), true] = False
        for row, positions in zip(result, self.said[rows], strict=True):
            row[positions] = False
        return result


def contexts_of(pairs: Dataset) -> list[list[str]]:
    """The earlier turns of each pair's input, the newest first; none in data without the column."""
    if "context" not in pairs.column_names:
        return [[] for _ in range(len(pairs))]
    return [turns or [] for turns in pairs["context"][:]]  # None in data that were joined with some that have it


def build_queries(pairs: Dataset, threads: np.ndarray, most: int = QUERIES) -> Queries:
    """The queries of held-out pairs, or of a random sample of `most` of them with seed 0.

    Args:
        pairs: columns `input`, `response` and perhaps `context`, with `FEWEST_REPLIES` distinct responses or more.
        threads: (pairs,) the number of each pair's conversation.
        most: the largest number of queries.
    """
    if len(pairs) > most:
        # RandomState instead of default_rng: its stream is frozen, so every version of NumPy gives the same queries.
        rows = np.sort(np.random.RandomState(0).permutation(len(pairs))[:most])
        pairs, threads = pairs.select(rows), threads[rows]
    inputs, replies, contexts = pairs["input"][:], pairs["response"][:], contexts_of(pairs)
    position = {text: index for index, text in enumerate(dict.fromkeys(replies))}
    true = np.array([position[text] for text in replies], dtype=np.int64)
    said = [
        [position[turn] for turn in (text, *context) if turn in position]
        for text, context in zip(inputs, contexts, strict=True)
    ]
    return Queries(inputs, list(position), true, said, threads, contexts)


@dataclass(frozen=True)
class Ranks:
    """The outcome of each query.

    Attributes:
        beaten_by: (queries,) the number of other replies that score at least as high as the true one.
        others: (queries,) the number of other replies.
    """

    beaten_by: np.ndarray
    others: np.ndarray

    @property
    def candidates(self) -> int:
        """The number of candidates of a query, with the true reply."""
        return int(min(self.others.max(), OTHERS)) + 1

    def precision(self, n: int = 1) -> np.ndarray:
        """(queries,): the share of the samples in which the true reply is among the best n."""
        from scipy.stats import hypergeom  # takes a second to import, and `--help` imports this module

        return hypergeom.cdf(n - 1, self.others, self.beaten_by, np.minimum(self.others, OTHERS))

    def precisions(self) -> dict[str, np.ndarray]:
        """The precision of each query as "p_at_N", without an N above the number of candidates."""
        return {f"p_at_{n}": self.precision(n) for n in RANKS if n <= self.candidates}

    def reciprocal_rank(self) -> np.ndarray:
        """(queries,): the mean of 1 / rank over the samples.

        If X of the sampled replies score higher, E[1 / (1 + X)] = (M + 1) / ((n + 1) (b + 1)) (1 - p), where p is the
        probability that none of b + 1 marked ones is among n + 1 of M + 1.
        """
        from scipy.stats import hypergeom

        drawn, marked, total = np.minimum(self.others, OTHERS) + 1, self.beaten_by + 1, self.others + 1
        return total / (drawn * marked) * (1 - hypergeom.pmf(0, total, marked, drawn))

    @classmethod
    def join(cls, parts: Sequence[Ranks]) -> Ranks:
        """The outcomes of the queries of several parts."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("beaten_by", "others")))


def rank(queries: Queries, scores: np.ndarray, start: int = 0) -> Ranks:
    """The ranks of scores (rows, responses); ties, and scores that are not numbers, count against the system.

    Args:
        queries: the messages and replies.
        scores: the scores of all queries, or of consecutive ones.
        start: the position of the first of these queries.
    """
    rows = slice(start, start + len(scores))
    true, is_other = scores[np.arange(len(scores)), queries.true[rows]][:, None], queries.is_other(rows)
    beaten = ~(scores < true - TIE * np.maximum(1, np.abs(true))) & is_other
    return Ranks(beaten.sum(axis=1), is_other.sum(axis=1))


def rank_in_blocks(queries: Queries, score: Callable[[slice], np.ndarray]) -> Ranks:
    """The same for many queries: `score` returns the scores (rows, responses) of a slice of them."""
    blocks = range(0, len(queries), RANKED_AT_ONCE)
    return Ranks.join([rank(queries, score(slice(start, start + RANKED_AT_ONCE)), start) for start in blocks])


def score(encoder: SentenceEncoder, queries: Queries, weights: Sequence[float] = ()) -> np.ndarray:
    """Scores (queries, responses): the dot products of each message, with its earlier turns, with each reply.

    Args:
        encoder: the encoder.
        queries: the messages and replies.
        weights: weights of the earlier turns.
    """
    from modeling_convsim.encoding.context import encode_in_context  # imports torch

    vectors = encode_in_context(partial(encoder.encode, side="query"), queries.inputs, queries.contexts, weights)
    return vectors @ encoder.encode(queries.responses, side="response").T


def summarize(ranks: Ranks, split: str, threads: np.ndarray) -> dict[str, Any]:
    """The part of results.json, with 95% intervals over conversations; P@N is omitted for N above the candidates."""
    values = ranks.precisions() | {MRR: ranks.reciprocal_rank()}
    result: dict[str, Any] = {name: float(each.mean()) for name, each in values.items()}
    result |= {"candidates": ranks.candidates, "queries": len(threads), "split": split}
    return with_intervals(result, {name: thread_interval(each, threads) for name, each in values.items()})


def thread_interval(values: np.ndarray, threads: np.ndarray) -> list[float]:
    """The 95% bootstrap interval of the mean of values (queries,), over resampled conversations."""
    sums, counts = thread_sums(values, threads)
    return bootstrap_interval(lambda rows: sums[rows].sum(axis=-1) / counts[rows].sum(axis=-1), len(sums))


def standard_error(values: np.ndarray, threads: np.ndarray) -> float:
    """The standard error of the mean of values (queries,), whose conversations are independent."""
    sums, _ = thread_sums(values - values.mean(), threads)
    return float(np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(values))


def thread_sums(values: np.ndarray, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum and the number of the values of each conversation; of each query if there is only one conversation."""
    _, numbers = np.unique(threads, return_inverse=True)
    if numbers.max() == 0:
        numbers = np.arange(len(threads))
    return np.bincount(numbers, weights=values), np.bincount(numbers)
