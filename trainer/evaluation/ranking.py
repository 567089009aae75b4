"""How well a system ranks the replies of held-out messages of own chats, exactly and by conversation.

Each message ranks its true reply among 99 others. A chat has few messages, so that a single draw of others would decide
a comparison: P@N and the mean reciprocal rank are the expected values over all draws, which follow from the number of
replies that score at least as high (hypergeometric distribution). No candidate is the message itself, which is often
the reply of the pair before it, or an earlier turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from datasets import Dataset
from scipy.stats import hypergeom

from modeling_convsim.encoding.context import encode_in_context
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import bootstrap_interval, with_intervals
from trainer.evaluation.response_prediction import CANDIDATES, RANKS, contexts_of

QUERIES = 2_000
OTHERS = CANDIDATES - 1
FEWEST_REPLIES = 3  # distinct ones: the true one, the message and another one
MRR = "mean_reciprocal_rank"
TIE = 1e-6  # scores of equal vectors differ by less


@dataclass(frozen=True)
class Queries:
    """Messages whose replies are ranked, the same for every system.

    Attributes:
        inputs: the message of each query.
        responses: the distinct replies of all queries.
        true: (queries,) the position of each query's reply.
        is_other: (queries, responses) whether a reply can be a candidate beside the true one: it is neither the message
            nor an earlier turn.
        threads: (queries,) the number of the conversation.
        contexts: (queries,) the earlier turns of each message, the newest first.
    """

    inputs: list[str]
    responses: list[str]
    true: np.ndarray
    is_other: np.ndarray
    threads: np.ndarray
    contexts: list[list[str]]

    def __len__(self) -> int:
        return len(self.inputs)


def build_queries(pairs: Dataset, threads: np.ndarray, most: int = QUERIES) -> Queries:
    """The queries of held-out pairs, or of a random sample of `most` of them with seed 0.

    Args:
        pairs: columns `input`, `response` and perhaps `context`, with `FEWEST_REPLIES` distinct responses or more.
        threads: (pairs,) the number of each pair's conversation.
        most: the largest number of queries.
    """
    if len(pairs) > most:
        rows = np.sort(np.random.default_rng(0).permutation(len(pairs))[:most])
        pairs, threads = pairs.select(rows), threads[rows]
    inputs, replies = pairs["input"][:], pairs["response"][:]
    position = {text: index for index, text in enumerate(dict.fromkeys(replies))}
    true = np.array([position[text] for text in replies], dtype=np.int64)
    is_other = np.ones((len(inputs), len(position)), dtype=bool)
    is_other[np.arange(len(inputs)), true] = False
    contexts = contexts_of(pairs)
    for row, said in enumerate(zip(inputs, contexts, strict=True)):
        is_other[row, [position[text] for text in (said[0], *said[1]) if text in position]] = False
    return Queries(inputs, list(position), true, is_other, threads, contexts)


@dataclass(frozen=True)
class Ranks:
    """The outcome of each query.

    Attributes:
        beaten_by: (queries,) the number of other replies that score at least as high as the true one.
        others: (queries,) the number of other replies.
    """

    beaten_by: np.ndarray
    others: np.ndarray

    def precision(self, n: int = 1) -> np.ndarray:
        """(queries,): the share of the draws in which the true reply is among the best n."""
        return hypergeom.cdf(n - 1, self.others, self.beaten_by, np.minimum(self.others, OTHERS))

    def reciprocal_rank(self) -> np.ndarray:
        """(queries,): the mean of 1 / rank over the draws.

        With X of the drawn replies scoring higher, E[1 / (1 + X)] = (M + 1) / ((n + 1) (b + 1)) (1 - p), where p is the
        probability that none of b + 1 marked ones is among n + 1 of M + 1.
        """
        drawn, marked, total = np.minimum(self.others, OTHERS) + 1, self.beaten_by + 1, self.others + 1
        return total / (drawn * marked) * (1 - hypergeom.pmf(0, total, marked, drawn))

    @classmethod
    def join(cls, parts: Sequence["Ranks"]) -> "Ranks":
        """The outcomes of the queries of several parts."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("beaten_by", "others")))


def rank(queries: Queries, scores: np.ndarray) -> Ranks:
    """The ranks of scores (queries, responses); ties, and scores that are not numbers, count against the system."""
    true = scores[np.arange(len(scores)), queries.true][:, None]
    beaten = ~(scores < true - TIE) & queries.is_other
    return Ranks(beaten.sum(axis=1), queries.is_other.sum(axis=1))


def score(encoder: SentenceEncoder, queries: Queries, weights: Sequence[float] = ()) -> np.ndarray:
    """Scores (queries, responses): the dot products of each message, with its earlier turns, with each reply.

    Args:
        encoder: the encoder.
        queries: the messages and replies.
        weights: of the earlier turns.
    """
    vectors = encode_in_context(partial(encoder.encode, side="query"), queries.inputs, queries.contexts, weights)
    return vectors @ encoder.encode(queries.responses, side="response").T


def summarize(ranks: Ranks, split: str, threads: np.ndarray) -> dict[str, Any]:
    """The part of results.json, with 95% intervals over conversations; P@N is omitted for N above the candidates."""
    candidates = int(min(ranks.others.max(), OTHERS)) + 1
    values = {f"p_at_{n}": ranks.precision(n) for n in RANKS if n <= candidates} | {MRR: ranks.reciprocal_rank()}
    result: dict[str, Any] = {name: float(each.mean()) for name, each in values.items()}
    result |= {"candidates": candidates, "queries": len(threads), "split": split}
    return with_intervals(result, {name: thread_interval(each, threads) for name, each in values.items()})


def thread_interval(values: np.ndarray, threads: np.ndarray) -> list[float]:
    """The 95% bootstrap interval of the mean of values (queries,), over resampled conversations."""
    sums, counts = thread_sums(values, threads)
    return bootstrap_interval(lambda rows: sums[rows[0]].sum(axis=-1) / counts[rows[0]].sum(axis=-1), [len(sums)])


def standard_error(values: np.ndarray, threads: np.ndarray) -> float:
    """The standard error of the mean of values (queries,), whose conversations are independent."""
    sums, _ = thread_sums(values - values.mean(), threads)
    return float(np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(values))


def thread_sums(values: np.ndarray, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum and the number of the values of each conversation; of each query where there is only one conversation."""
    _, numbers = np.unique(threads, return_inverse=True)
    if numbers.max() == 0:
        numbers = np.arange(len(threads))
    return np.bincount(numbers, weights=values), np.bincount(numbers)
