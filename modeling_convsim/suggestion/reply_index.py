"""`ReplyIndex`: replies (or questions) that are searched for the highest scores."""

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from tqdm import tqdm

from modeling_convsim.encoding.batch_tokenizer import checked_texts, refuse_single_string
from modeling_convsim.encoding.encoder import Dtype, Encoder, Side
from modeling_convsim.suggestion.calibration import Calibration, best_of_sample, choose_threshold
from modeling_convsim.suggestion.deduplication import (
    Replies,
    canonical_form,
    deduplicate,
    drop_near_duplicates,
    select_diverse,
)
from modeling_convsim.suggestion.search import build_faiss, exact_search, faiss_search, import_faiss, needs_faiss
from modeling_convsim.suggestion.storage import (
    COMPANIONS,
    IndexSettings,
    IndexSide,
    hash_weights,
    read_index,
    write_index,
    write_settings,
)

BLOCK = 256  # number of queries per search
FEW, MANY = 4, 64  # candidates per suggestion; finding near-duplicates encodes candidates, so few are tried first
DIVERSITY = 0.0  # see `suggestion.deduplication.select_diverse`
DUPLICATE_COSINE = 0.9  # of sentence embeddings; "It is on its way" and "It's on the way" have .88 in best_dan


@dataclass(frozen=True)
class Suggestion:
    """A reply (or question) with its score and its count in the index's texts.

    If the index was built with them, `question` is a message that the reply answered, `answer` that of a question.
    """

    text: str
    score: float
    count: int
    answer: str | None = None
    question: str | None = None


class ReplyIndex:
    """Replies and their vectors, searched for those that score highest for a text.

    An index of side "response" suggests replies: the score is the model's, u' . v'. One of side "input" finds questions
    (FAQ): the score is the cosine of sentence embeddings.
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
    ) -> None:
        """Takes the parts that `build` and `load` create.

        Args:
            encoder: The model that encoded the replies.
            replies: Distinct replies.
            vectors: (replies, dimensions), of any float type.
            side: As in `build`.
            duplicate_cosine: As in `build`.
            calibration: The result of `calibrate`, if any.
            faiss_index: The output of `build_faiss`, if there are many vectors and it exists.
        """
        self.encoder, self.replies, self.side = encoder, replies, side
        self.duplicate_cosine, self.calibration = duplicate_cosine, calibration
        self.vectors, self._faiss = vectors, faiss_index
        if not needs_faiss(len(vectors)):
            self.vectors = vectors.astype(np.float32)  # several times as fast as float16, for twice the memory
        elif faiss_index is None:
            self._faiss = build_faiss(vectors)

    def __len__(self) -> int:
        return len(self.replies.texts)

    @classmethod
    def build(
        cls,
        encoder: Encoder,
        texts: Iterable[str],
        side: IndexSide = "response",
        answers: Iterable[str] | None = None,
        duplicate_cosine: float = DUPLICATE_COSINE,
        show_progress: bool = False,
        processes: int = 1,
        questions: Iterable[str] | None = None,
    ) -> "ReplyIndex":
        """Deduplicates texts and encodes them.

        Args:
            encoder: The model. A saved index stores its name, as the user gave it, and its `truncate_dim`.
            texts: Replies (side "response") or questions (side "input"), including repeated ones.
            side: See the class.
            answers: What to show with each question, one for each text (side "input").
            duplicate_cosine: Of replies whose sentence embeddings have this cosine or more, only the best is suggested;
                above 0; 1 turns this off.
            show_progress: Show each step and the remaining time.
            processes: As in `Encoder.stream`.
            questions: The message that each reply answered, one for each text (side "response"). Of a repeated reply,
                the first one is shown.

        Raises:
            ValueError: There are no texts, one is not a string of Unicode text, an option is out of range or belongs to
                the other side, a vector is not finite, or a dependency is not installed.
            TypeError: `texts`, `answers` or `questions` is a single string.
        """
        if side not in get_args(IndexSide):
            raise ValueError(f"side is {side!r}, expected 'response' or 'input'")
        if not 0 < duplicate_cosine <= 1:
            raise ValueError(f"duplicate_cosine is {duplicate_cosine}, expected a number above 0, at most 1")
        refuse_single_string(texts, "build(encoder, [text])")
        refuse_single_string(answers, "build(encoder, [text], answers=[answer])")
        refuse_single_string(questions, "build(encoder, [text], questions=[question])")
        if (answers is not None and side != "input") or (questions is not None and side != "response"):
            raise ValueError(f"side is {side!r}: answers belong to the side 'input', questions to the side 'response'")
        texts = tqdm(checked_texts(texts), "reading", delay=1, unit="text", unit_scale=True, disable=not show_progress)
        replies = deduplicate(texts, questions if answers is None else answers)
        if not replies.texts:
            raise ValueError("there are no texts to build an index of")
        if is_large := needs_faiss(len(replies.texts)):
            import_faiss()  # before the vectors, which can take minutes
        vectors = _encode_halves(encoder, replies.texts, side, show_progress, processes)
        faiss_index = build_faiss(vectors, show_progress) if is_large else None
        return cls(encoder, replies, vectors, side, duplicate_cosine, faiss_index=faiss_index)

    def suggest(
        self, text: str, k: int = 3, threshold: float | None = None, diversity: float = DIVERSITY
    ) -> list[Suggestion]:
        """Suggests up to k replies to a text, best first; none if none reaches the threshold.

        Args:
            text: The text to answer (or the question to find).
            k: Number of suggestions, 1 or more. There are fewer if too many of the best 64 k are near-duplicates.
            threshold: The lowest score; by default that of `calibrate`, or -inf (no threshold) before it.
            diversity: 0 suggests the replies with the highest scores; above 0, up to 1, those after the first are less
                similar to each other.
        """
        return self.suggest_many([text], k, threshold, diversity=diversity)[0]

    def suggest_many(
        self,
        texts: Sequence[str],
        k: int = 3,
        threshold: float | None = None,
        show_progress: bool = False,
        diversity: float = DIVERSITY,
    ) -> list[list[Suggestion]]:
        """Suggests replies to several texts, faster than `suggest` one by one.

        Raises:
            ValueError: As in `search` and `Encoder.encode`, or `k` or `diversity` is out of range.
            TypeError: `texts` is a single string.
        """
        refuse_single_string(texts, "suggest_many([text])")
        if k < 1:
            raise ValueError(f"k is {k}, expected 1 or more")
        if not 0 <= diversity <= 1:
            raise ValueError(f"diversity is {diversity}, expected a number from 0 to 1")
        if threshold is None:
            threshold = self.calibration.threshold if self.calibration else -math.inf
        suggestions: list[list[Suggestion]] = []
        with tqdm(total=len(texts), delay=1, unit="text", disable=not show_progress) as progress:
            for start in range(0, len(texts), BLOCK):
                block = list(texts[start : start + BLOCK])
                queries = self.encoder.encode(block, side=self._query_side)
                suggestions += self._suggest_for(queries, k, threshold, diversity)
                progress.update(len(block))
        return suggestions

    def _suggest_for(self, queries: np.ndarray, k: int, threshold: float, diversity: float) -> list[list[Suggestion]]:
        """Suggestions for query vectors (queries, dimensions), from few candidates or, if needed, from many."""
        suggestions, is_final = self._suggest_among(FEW * k, queries, k, threshold, diversity)
        if not is_final.all():
            retried = np.flatnonzero(~is_final)
            more, _ = self._suggest_among(MANY * k, queries[retried], k, threshold, diversity)
            for query, better in zip(retried, more, strict=True):
                suggestions[query] = better
        return suggestions

    def _suggest_among(
        self, count: int, queries: np.ndarray, k: int, threshold: float, diversity: float
    ) -> tuple[list[list[Suggestion]], np.ndarray]:
        """Suggestions among each query's `count` best replies, and (queries,) whether more replies cannot add any."""
        scores, rows = self.search(queries, count)  # (queries, count), best first
        reaches = scores >= threshold
        candidates = [best[reached] for best, reached in zip(rows, reaches, strict=True)]
        suggestions = [
            [self._suggestion(candidates[query][position], scores[query, position]) for position in positions]
            for query, positions in enumerate(self._select(candidates, scores, k, diversity))
        ]
        is_complete = np.array([len(suggested) == k for suggested in suggestions])
        return suggestions, is_complete | ~reaches.all(axis=1) | (count >= len(self))

    def _suggestion(self, row: int, score: float) -> Suggestion:
        texts, counts, companions = self.replies
        companion = {COMPANIONS[self.side]: companions[row]} if companions else {}
        return Suggestion(texts[row], float(score), int(counts[row]), **companion)

    def _select(self, candidates: list[np.ndarray], scores: np.ndarray, k: int, diversity: float) -> list[list[int]]:
        """For each array of rows, best first, the positions of up to k that are not near-duplicates, and differ."""
        if self.duplicate_cosine >= 1 and diversity == 0:
            return [list(range(min(k, len(rows)))) for rows in candidates]
        needed = np.unique(np.concatenate(candidates))
        if self.side == "input":
            embeddings = self.vectors[needed].astype(np.float32)
        else:
            embeddings = self.encoder.encode([self.replies.texts[row] for row in needed])
        selected = []
        for rows, best in zip(candidates, scores, strict=True):
            vectors = embeddings[np.searchsorted(needed, rows)]  # (candidates, dimensions)
            distinct = np.arange(len(rows))
            if self.duplicate_cosine < 1:
                distinct = np.array(drop_near_duplicates(vectors, self.duplicate_cosine), dtype=np.int64)
            diverse = select_diverse(best[distinct], vectors[distinct], k, diversity)
            selected.append(distinct[diverse].tolist())
        return selected

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the k highest scores of query vectors (queries, dimensions).

        With 100,000 replies or more, faiss may miss a few of the best replies (`suggest_recall` in tests/benchmarks).

        Returns:
            Scores and rows, both (queries, k), or fewer columns if there are fewer replies; best first.

        Raises:
            ValueError: A query, or a vector of the index that was scored, is not finite.
        """
        k = min(k, len(self))
        _require_finite_queries(queries)
        if self._faiss is None:
            scores, rows = exact_search(self.vectors, queries, k)
        else:
            scores, rows = faiss_search(self._faiss, self.vectors, queries, k)
        if not np.isfinite(scores).all():
            raise ValueError("the index holds vectors that are damaged (not finite): rebuild it")
        return scores, rows

    def only(self, allowed: Iterable[str]) -> "ReplyIndex":
        """Restricts the index to the replies of a list (in any variant).

        Raises:
            ValueError: The list is empty, or contains a reply that is not in the index.
        """
        row_of = {canonical_form(text): row for row, text in enumerate(self.replies.texts)}
        named = {text: row_of.get(canonical_form(text)) for text in allowed if canonical_form(text)}
        if not named:
            raise ValueError("the list of allowed replies is empty")
        if unknown := [text for text, row in named.items() if row is None]:
            first = ", ".join(map(repr, unknown[:5])) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            remedy = "remove them from the list of allowed replies, or build the index with them"
            raise ValueError(f"not in the index: {first}; {remedy}")
        rows = np.unique([row for row in named.values() if row is not None])
        texts, counts, companions = self.replies
        replies = Replies(
            [texts[row] for row in rows], counts[rows], [companions[row] for row in rows] if companions else None
        )
        return ReplyIndex(self.encoder, replies, self.vectors[rows], self.side, self.duplicate_cosine, self.calibration)

    def calibrate(
        self,
        inputs: Sequence[str],
        expected: Sequence[str],
        precision: float = 0.8,
        candidates: int | None = 100,
        show_progress: bool = False,
    ) -> Calibration:
        """Sets the threshold for a required precision, from pairs that neither the index nor the model has seen.

        Precision is that of P@1: among inputs whose best candidate reaches the threshold, the share for which that
        candidate is the expected text, in any variant (`canonical_form`), or a near-duplicate of it.

        Args:
            inputs: The texts to answer.
            expected: The right reply to each (or, in an index of questions, a question with the same meaning).
            precision: The required precision, above 0 and below 1, which suggestions have with 90% confidence.
            candidates: Number of candidates: the expected reply and others sampled from the index with seed 0, but not
                the input itself. None uses the whole index, which must then contain the expected reply, and in which
                other right replies compete with it more often.
            show_progress: Show the remaining time.

        Raises:
            ValueError: No threshold is certain to have that precision (the message says about how many pairs would be
                needed), or an option is out of range.
        """
        scores, are_right = self.score_pairs(inputs, expected, candidates, show_progress)
        self.calibration = choose_threshold(scores, are_right, precision, candidates)
        return self.calibration

    def score_pairs(
        self,
        inputs: Sequence[str],
        expected: Sequence[str],
        candidates: int | None = 100,
        show_progress: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The score of each held-out pair's best candidate, and whether that candidate is right, both (pairs,).

        The arguments are those of `calibrate`; `tabulate_thresholds` shows what each threshold would give.

        Raises:
            ValueError: The numbers of texts differ, or an option is out of range.
        """
        if len(inputs) != len(expected):
            raise ValueError(f"{len(inputs)} inputs and {len(expected)} expected texts, expected the same number")
        if candidates is not None and candidates < 2:
            raise ValueError(f"candidates is {candidates}, expected 2 or more")
        if candidates is None:
            suggestions = [best for (best,) in self.suggest_many(inputs, 1, -math.inf, show_progress)]
            best, scores = [one.text for one in suggestions], np.array([one.score for one in suggestions])
        else:
            queries = self.encoder.encode(inputs, self._query_side, show_progress=show_progress)
            vectors = self.encoder.encode(expected, self.side, show_progress=show_progress)
            _require_finite_queries(queries)
            row_of = {text: row for row, text in enumerate(self.replies.texts)}
            own = np.array([row_of.get(text, -1) for text in inputs])  # a message is no candidate for its reply
            rows, scores = best_of_sample(queries, vectors, self.vectors, own, candidates)
            best = [text if row < 0 else self.replies.texts[row] for text, row in zip(expected, rows, strict=True)]
        return scores, self._are_same(best, expected)

    def _are_same(self, texts: Sequence[str], others: Sequence[str]) -> np.ndarray:
        """(texts,): whether each text is a variant or a near-duplicate of the other one."""
        are_same = np.array([canonical_form(a) == canonical_form(b) for a, b in zip(texts, others, strict=True)], bool)
        if self.duplicate_cosine < 1:
            cosines = (self.encoder.encode(texts) * self.encoder.encode(others)).sum(axis=1)
            are_same |= cosines >= self.duplicate_cosine
        return are_same

    @property
    def _query_side(self) -> Side:
        return "query" if self.side == "response" else "input"

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the index to a folder, replacing an existing index.

        Raises:
            ValueError: The folder holds something else, or a dependency is not installed.
        """
        write_index(Path(folder), self._settings(), self.replies, self.vectors, self._faiss)

    def save_settings(self, folder: str | os.PathLike) -> None:
        """Writes only index.json, which is all that `calibrate` changes."""
        write_settings(Path(folder), self._settings())

    def _settings(self) -> IndexSettings:
        return IndexSettings(
            model=self.encoder.model.name_or_path,
            weights_sha256=hash_weights(self.encoder.model),
            truncate_dim=self.encoder.truncate_dim,
            side=self.side,
            replies=len(self),
            duplicate_cosine=self.duplicate_cosine,
            calibration=self.calibration,
        )

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike,
        encoder: Encoder | None = None,
        device: str | torch.device | None = None,
        dtype: Dtype = "float32",
        trust_remote_code: bool = False,
        **hub_options: Any,
    ) -> "ReplyIndex":
        """Opens a saved index and its model; the vectors of a large index stay on disk.

        Texts are encoded with the `truncate_dim` that the index was built with.

        Args:
            folder: The index's folder.
            encoder: The model, instead of the one that the index names. The other options are those of
                `Encoder.from_pretrained` for the model that the index names.
            device: "cpu", "cuda", "cuda:1" …; by default a GPU if there is one.
            dtype: Precision of the model.
            trust_remote_code: Run the code of a model whose encoder is not registered here.
            **hub_options: `token`, `cache_dir` and `local_files_only`.

        Raises:
            ValueError: A file is missing or broken, the model's weights differ from those that built the index, or
                `encoder` has another `truncate_dim`.
        """
        folder = Path(folder)
        settings, replies, vectors, faiss_index = read_index(folder)
        if encoder is None:
            try:
                encoder = Encoder.from_pretrained(
                    settings.model, device, dtype, settings.truncate_dim, trust_remote_code, **hub_options
                )
            except ValueError as error:
                moved = f"{folder} was built with it; if it has been moved, give its new folder"
                raise ValueError(f"{error} ({moved})") from error
        encoder = _prepare_encoder(folder, settings, encoder, vectors.shape[1])
        return cls(
            encoder, replies, vectors, settings.side, settings.duplicate_cosine, settings.calibration, faiss_index
        )


def _encode_halves(
    encoder: Encoder, texts: list[str], side: IndexSide, show_progress: bool, processes: int
) -> np.ndarray:
    """Encodes texts in float16: (texts, dimensions). Raises ValueError if float16 cannot hold a vector."""
    vectors = np.empty((len(texts), encoder.vector_size(side)), np.float16)
    row = 0
    for part in encoder.stream(texts, side, show_progress=show_progress, processes=processes):
        with np.errstate(over="ignore"):  # such a value becomes infinite, which is refused below
            halves = vectors[row : row + len(part)] = part.astype(np.float16)
        if len(damaged := np.flatnonzero(~np.isfinite(halves).all(axis=1))):
            problem = "the model gives a vector that is not finite, or too large for float16"
            raise ValueError(f"{texts[row + int(damaged[0])]!r}: {problem}")
        row += len(part)
    return vectors


def _require_finite_queries(vectors: np.ndarray) -> None:
    """Raises ValueError unless the vectors of queries (queries, dimensions) are finite."""
    if not np.isfinite(vectors).all():
        raise ValueError("the model gives vectors that are not finite: its weights are damaged, or training diverged")


def _prepare_encoder(folder: Path, settings: IndexSettings, encoder: Encoder, dimensions: int) -> Encoder:
    """Requires the weights that an index was built with, and sets the `truncate_dim` of an encoder without one."""
    if hash_weights(encoder.model) != settings.weights_sha256:
        raise ValueError(
            f"{folder} was built with other weights than those of {encoder.model.name_or_path or 'this model'}: "
            f"open it with the model that it was built with (then {settings.model}), or rebuild it"
        )
    if encoder.truncate_dim is None and settings.truncate_dim is not None:
        encoder = Encoder(encoder.model, encoder.tokenizer, settings.truncate_dim)
    if (size := encoder.vector_size(settings.side)) != dimensions:
        raise ValueError(
            f"{folder} holds vectors of {dimensions} dimensions, but the encoder's have {size}: use "
            "an encoder without truncate_dim, or rebuild the index"
        )
    return encoder
