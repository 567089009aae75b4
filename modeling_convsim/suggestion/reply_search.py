"""Searches the replies (or questions) of an index for the highest scores: `ReplySearch`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from modeling_convsim.encoding.batch_tokenizer import refuse_single_string
from modeling_convsim.encoding.encoder import Encoder, Side
from modeling_convsim.suggestion.calibration import Calibration
from modeling_convsim.suggestion.consensus import PEERS, agreement
from modeling_convsim.suggestion.deduplication import (
    Replies,
    canonical_form,
    drop_near_duplicates,
    select_diverse,
)
from modeling_convsim.suggestion.search import build_faiss, exact_search, faiss_search, needs_faiss
from modeling_convsim.suggestion.storage import COMPANIONS, IndexSide

BLOCK = 256  # number of queries per search
FEW, MANY = 4, 64  # candidates per suggestion; finding near-duplicates encodes candidates, so few are tried first
DIVERSITY = 0.0  # see `suggestion.deduplication.select_diverse`
DUPLICATE_COSINE = 0.9  # of sentence embeddings; "It is on its way" and "It's on the way" have .88 in best_dan


@dataclass(frozen=True)
class Suggestion:
    """A reply (or question) with its score and its count in the index's texts.

    If the index was built with them, `question` is the message that the reply answered, of several the one most like
    the text that is answered now; `answer` is that of a question.
    """

    text: str
    score: float
    count: int
    answer: str | None = None
    question: str | None = None


class ReplySearch:
    """Replies and their vectors, searched for those that score highest for a text.

    An index of side "response" suggests replies. The score of a reply is the model's, u' . v', and, if the index holds
    the messages that replies answered, u' . v' + w u . u_m: the cosine of the text and such a message, with the weight
    `message_weight`; of several messages, the best one counts. With a `consensus_weight`, this multiple of the reply's
    agreement with the other good ones is added (`consensus.agreement`). One of side "input" finds questions (FAQ): the
    score is the cosine of sentence embeddings.

    A text is never answered by itself or by an earlier turn of its conversation, and one without a token that the model
    knows gets no suggestion.
    """

    def __init__(
        self,
        encoder: Encoder,
        replies: Replies,
        vectors: np.ndarray,
        side: IndexSide = "response",
        duplicate_cosine: float = DUPLICATE_COSINE,
        calibration: Calibration | None = None,
        faiss_index: Any = None,
        message_weight: float = 0.0,
        no_threshold: str | None = None,
        question_threshold: float | None = None,
        consensus_weight: float = 0.0,
    ) -> None:
        """Takes the parts that `ReplyIndex.build` and `ReplyIndex.load` create.

        Args:
            encoder: The model that encoded the replies.
            replies: The rows.
            vectors: (rows, dimensions), of any float type: those of the replies, and after them, with a
                `message_weight`, those of the messages.
            side: As in `build`.
            duplicate_cosine: As in `build`.
            calibration: The result of `calibrate`, if any.
            faiss_index: The output of `build_faiss`, if there are many vectors and it exists.
            message_weight: As in `build`.
            no_threshold: Why `calibrate` has found no threshold.
            question_threshold: The threshold of an index of questions before `calibrate`.
            consensus_weight: See the class.
        """
        self.encoder, self.side = encoder, side
        self.duplicate_cosine, self.message_weight = duplicate_cosine, message_weight
        self.consensus_weight = consensus_weight
        self.calibration, self.no_threshold, self.question_threshold = calibration, no_threshold, question_threshold
        self._has_messages = vectors.shape[1] > encoder.vector_size(side)
        self.examples: list[str] = []  # held-out messages to try, saved with the index
        self._set_rows(replies, vectors, faiss_index)

    def _set_rows(self, replies: Replies, vectors: np.ndarray, faiss_index: Any = None) -> None:
        self.replies, self._numbers, self.vectors, self._faiss = replies, replies.numbers(), vectors, faiss_index
        if not needs_faiss(len(vectors)):
            self.vectors = vectors.astype(np.float32)  # several times as fast as float16, for twice the memory
        elif faiss_index is None:
            self._faiss = build_faiss(vectors)

    def __len__(self) -> int:
        """The number of distinct replies."""
        return int(self._numbers[-1]) + 1

    @property
    def total(self) -> int:
        """The number of texts that the index was built from, without blank ones."""
        _, first = np.unique(self._numbers, return_index=True)
        return int(self.replies.counts[first].sum())

    @property
    def threshold(self) -> float:
        """The lowest score of a suggestion by default: infinite if `calibrate` has found no threshold."""
        if self.calibration:
            return self.calibration.threshold
        if self.no_threshold:
            return math.inf
        return -math.inf if self.question_threshold is None else self.question_threshold

    def suggest(
        self,
        text: str,
        k: int = 3,
        threshold: float | None = None,
        diversity: float = DIVERSITY,
        context: Sequence[str] = (),
    ) -> list[Suggestion]:
        """Suggests up to k replies to a text, best first; none if none reaches the threshold.

        Args:
            text: The text to answer (or the question to find).
            k: Number of suggestions, 1 or more. There are fewer if too many of the best 64 k are near-duplicates.
            threshold: The lowest score, -inf for none; by default that of the index (`ReplyIndex.threshold`).
            diversity: 0 suggests the replies with the highest scores; above 0, up to 1, those after the first are less
                similar to each other.
            context: The earlier turns of the conversation, the newest first, for a model with `context_weights`.
        """
        return self.suggest_many([text], k, threshold, diversity=diversity, contexts=[context] if context else None)[0]

    def suggest_many(
        self,
        texts: Sequence[str],
        k: int = 3,
        threshold: float | None = None,
        show_progress: bool = False,
        diversity: float = DIVERSITY,
        contexts: Sequence[Sequence[str]] | None = None,
    ) -> list[list[Suggestion]]:
        """Suggests replies to several texts, faster than `suggest` one by one.

        Raises:
            ValueError: As in `search` and `Encoder.encode`, or `k` or `diversity` is out of range.
            TypeError: `texts` or a context is a single string.
        """
        refuse_single_string(texts, "suggest_many([text])")
        if contexts is not None and len(contexts) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(contexts)} contexts, expected the same number")
        if k < 1:
            raise ValueError(f"k is {k}, expected 1 or more")
        if not 0 <= diversity <= 1:
            raise ValueError(f"diversity is {diversity}, expected a number from 0 to 1")
        threshold = self.threshold if threshold is None else threshold
        suggestions: list[list[Suggestion]] = []
        with tqdm(total=len(texts), delay=1, unit="text", disable=not show_progress) as progress:
            for start in range(0, len(texts), BLOCK):
                block = list(texts[start : start + BLOCK])
                of_block = None if contexts is None else contexts[start : start + BLOCK]
                suggestions += self._suggest_for(block, of_block, k, threshold, diversity)
                progress.update(len(block))
        return suggestions

    def encode_messages(self, texts: list[str], contexts: Sequence[Sequence[str]] | None = None) -> np.ndarray:
        """The vectors of texts to answer, (texts, dimensions), whose dot products with `vectors` are the scores.

        A context counts for the score of a reply, not for that of the message that it answered, which has none.
        """
        queries = self.encoder.encode(texts, side=self._query_side, contexts=contexts)
        if not self._has_messages:
            return queries
        messages = self.encoder.encode(texts) if self.encoder.has_query_vectors or contexts else queries
        return np.hstack([queries, self.message_weight * messages])

    def _suggest_for(
        self, texts: list[str], contexts: Sequence[Sequence[str]] | None, k: int, threshold: float, diversity: float
    ) -> list[list[Suggestion]]:
        """Suggestions for some texts, from few rows or, if needed, from many."""
        queries, few = self.encode_messages(texts, contexts), FEW * k
        said = [[text, *context] for text, context in zip(texts, contexts or [()] * len(texts), strict=True)]
        if self.consensus_weight:
            few = max(few, PEERS + 1)  # one may be the text itself
        suggestions, is_final = self._suggest_among(few, said, queries, k, threshold, diversity)
        if not is_final.all():
            retried = np.flatnonzero(~is_final)
            again = [said[query] for query in retried]
            more, _ = self._suggest_among(MANY * k, again, queries[retried], k, threshold, diversity)
            for query, better in zip(retried, more, strict=True):
                suggestions[query] = better
        return suggestions

    def _suggest_among(
        self, count: int, said: list[list[str]], queries: np.ndarray, k: int, threshold: float, diversity: float
    ) -> tuple[list[list[Suggestion]], np.ndarray]:
        """Suggestions among each query's `count` best rows, and (queries,) whether more rows cannot add any.

        `said` has the text and the earlier turns of each query.
        """
        scores, rows = self.search(queries, count)  # (queries, count), best first
        is_said = self._find_said(said, rows)
        if self.consensus_weight:
            scores = scores + self.consensus_weight * agreement(scores, ~is_said, self._embed_rows(rows))
            order = np.argsort(-scores, axis=1, kind="stable")
            scores, rows, is_said = (np.take_along_axis(each, order, axis=1) for each in (scores, rows, is_said))
        reaches = (scores >= threshold) & self.encoder.knows([text for text, *_ in said])[:, None]
        candidates, best = [], []
        for found, each, allowed in zip(rows, scores, reaches & ~is_said, strict=True):
            positions = np.flatnonzero(allowed)
            _, first = np.unique(self._numbers[found[positions]], return_index=True)  # the best row of each reply
            positions = positions[np.sort(first)]
            candidates.append(found[positions])
            best.append(each[positions])
        suggestions = [
            [self._suggestion(candidates[query][position], best[query][position]) for position in positions]
            for query, positions in enumerate(self._select(candidates, best, k, diversity))
        ]
        is_complete = np.array([len(suggested) == k for suggested in suggestions])
        return suggestions, is_complete | ~reaches.all(axis=1) | (count >= len(self.vectors))

    def _find_said(self, said: list[list[str]], rows: np.ndarray) -> np.ndarray:
        """(queries, rows): whether a row's reply is the text that it would answer, or an earlier turn."""
        if self.side == "input":
            return np.zeros(rows.shape, dtype=bool)
        forms = [set(map(canonical_form, each)) for each in said]
        return np.array(
            [
                [canonical_form(self.replies.texts[row]) in turns for row in found]
                for turns, found in zip(forms, rows, strict=True)
            ]
        )

    def _embed_rows(self, rows: np.ndarray) -> np.ndarray:
        """The sentence embeddings of the texts of rows, of any shape: (*rows, dimensions)."""
        distinct, positions = np.unique(rows, return_inverse=True)
        if self.side == "input":
            embeddings = self.vectors[distinct].astype(np.float32)
        else:
            embeddings = self.encoder.encode([self.replies.texts[row] for row in distinct])
        return embeddings[positions.reshape(rows.shape)]

    def _suggestion(self, row: int, score: float) -> Suggestion:
        texts, counts, companions, _ = self.replies
        companion = {COMPANIONS[self.side]: companions[row]} if companions else {}
        return Suggestion(texts[row], float(score), int(counts[row]), **companion)

    def _select(
        self, candidates: list[np.ndarray], scores: list[np.ndarray], k: int, diversity: float
    ) -> list[list[int]]:
        """For each array of rows, best first, the positions of up to k that are not near-duplicates, and differ."""
        if self.duplicate_cosine >= 1 and diversity == 0:
            return [list(range(min(k, len(rows)))) for rows in candidates]
        embeddings = self._embed_rows(np.concatenate(candidates))
        ends, selected = np.cumsum([len(rows) for rows in candidates]), []
        for vectors, best in zip(np.split(embeddings, ends[:-1]), scores, strict=True):  # (candidates, dimensions)
            distinct = np.arange(len(vectors))
            if self.duplicate_cosine < 1:
                distinct = np.array(drop_near_duplicates(vectors, self.duplicate_cosine), dtype=np.int64)
            diverse = select_diverse(best[distinct], vectors[distinct], k, diversity)
            selected.append(distinct[diverse].tolist())
        return selected

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the k highest scores of query vectors (queries, dimensions).

        With 100,000 replies or more, faiss may miss a few of the best replies (`suggest_recall` in tests/benchmarks).

        Returns:
            Scores and rows, both (queries, k), or fewer columns if there are fewer rows; best first.

        Raises:
            ValueError: A query, or a vector of the index that was scored, is not finite.
        """
        k = min(k, len(self.vectors))
        _require_finite_queries(queries)
        if self._faiss is None:
            scores, rows = exact_search(self.vectors, queries, k)
        else:
            scores, rows = faiss_search(self._faiss, self.vectors, queries, k)
        if not np.isfinite(scores).all():
            raise ValueError("the index holds vectors that are damaged (not finite): rebuild it")
        return scores, rows

    @property
    def _query_side(self) -> Side:
        return "query" if self.side == "response" else "input"


def _require_finite_queries(vectors: np.ndarray) -> None:
    """Raises ValueError unless the vectors of queries (queries, dimensions) are finite."""
    if not np.isfinite(vectors).all():
        raise ValueError("the model gives vectors that are not finite: its weights are damaged, or training diverged")
