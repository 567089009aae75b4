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
from modeling_convsim.suggestion.calibration import (
    RIGHT_COSINE,
    Calibration,
    choose_question_threshold,
    choose_threshold,
    text_cosines,
)
from modeling_convsim.suggestion.consensus import PEERS, agreement
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
    check_weights,
    hash_weights,
    read_index,
    write_index,
    write_settings,
)

BLOCK = 256  # number of queries per search
FEW, MANY = 4, 64  # candidates per suggestion; finding near-duplicates encodes candidates, so few are tried first
DIVERSITY = 0.0  # see `suggestion.deduplication.select_diverse`
DUPLICATE_COSINE = 0.9  # of sentence embeddings; "It is on its way" and "It's on the way" have .88 in best_dan
MESSAGE_WEIGHT = 0.5  # where nothing has chosen it: see `ReplyIndex`


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


class ReplyIndex:
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
        """Takes the parts that `build` and `load` create.

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
        self.encoder, self.replies, self.side = encoder, replies, side
        self.duplicate_cosine, self.message_weight = duplicate_cosine, message_weight
        self.consensus_weight = consensus_weight
        self.calibration, self.no_threshold, self.question_threshold = calibration, no_threshold, question_threshold
        self._numbers = replies.numbers()
        self._has_messages = vectors.shape[1] > encoder.vector_size(side)
        self.vectors, self._faiss = vectors, faiss_index
        self.examples: list[str] = []  # held-out messages to try, saved with the index
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
        message_weight: float = MESSAGE_WEIGHT,
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
            questions: The message that each reply answered, one for each text (side "response").
            message_weight: That of the messages in the score, 0 or more; at 0, the messages are only shown, of a
                repeated reply the first one.

        Raises:
            ValueError: There are no texts, one is not a string of Unicode text, an option is out of range or belongs to
                the other side, a vector is not finite, or a dependency is not installed.
            TypeError: `texts`, `answers` or `questions` is a single string.
        """
        if side not in get_args(IndexSide):
            raise ValueError(f"side is {side!r}, expected 'response' or 'input'")
        check_weights(duplicate_cosine, message_weight)
        refuse_single_string(texts, "build(encoder, [text])")
        refuse_single_string(answers, "build(encoder, [text], answers=[answer])")
        refuse_single_string(questions, "build(encoder, [text], questions=[question])")
        if (answers is not None and side != "input") or (questions is not None and side != "response"):
            raise ValueError(f"side is {side!r}: answers belong to the side 'input', questions to the side 'response'")
        texts = tqdm(checked_texts(texts), "reading", delay=1, unit="text", unit_scale=True, disable=not show_progress)
        weight = 0.0 if questions is None else message_weight
        replies = deduplicate(texts, questions if answers is None else answers, keep_all=weight > 0)
        if not replies.texts:
            raise ValueError("there are no texts to build an index of")
        if is_large := needs_faiss(len(replies.texts)):
            import_faiss()  # before the vectors, which can take minutes
        vectors = _encode_halves(encoder, replies.texts, side, show_progress, processes)
        if weight and replies.companions:
            messages = _encode_halves(encoder, replies.companions, "input", show_progress, processes)
            vectors = np.hstack([vectors, messages])
        lowest = choose_question_threshold(vectors, replies.companions, duplicate_cosine) if side == "input" else None
        faiss_index = build_faiss(vectors, show_progress) if is_large else None
        return cls(
            encoder, replies, vectors, side, duplicate_cosine, None, faiss_index, weight, question_threshold=lowest
        )

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
        texts, counts, companions = self.replies
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

    def only(self, allowed: Iterable[str]) -> "ReplyIndex":
        """Restricts the index to the replies of a list (in any variant).

        Raises:
            ValueError: The list is empty, or contains a reply that is not in the index.
        """
        texts, counts, companions = self.replies
        number_of = {canonical_form(text): number for number, text in enumerate(dict.fromkeys(texts))}
        named = {text: number_of.get(canonical_form(text)) for text in allowed if canonical_form(text)}
        if not named:
            raise ValueError("the list of allowed replies is empty")
        if unknown := [text for text, number in named.items() if number is None]:
            first = ", ".join(map(repr, unknown[:5])) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            remedy = "remove them from the list of allowed replies, or build the index with them"
            raise ValueError(f"not in the index: {first}; {remedy}")
        rows = np.flatnonzero(np.isin(self._numbers, [number for number in named.values() if number is not None]))
        replies = Replies(
            [texts[row] for row in rows], counts[rows], [companions[row] for row in rows] if companions else None
        )
        return ReplyIndex(
            self.encoder, replies, self.vectors[rows], self.side, self.duplicate_cosine, self.calibration, None,
            self.message_weight, self.no_threshold, self.question_threshold, self.consensus_weight,
        )  # fmt: skip

    def calibrate(
        self,
        inputs: Sequence[str],
        expected: Sequence[str],
        precision: float = 0.8,
        judge: Encoder | None = None,
        show_progress: bool = False,
        contexts: Sequence[Sequence[str]] | None = None,
    ) -> Calibration:
        """Sets the threshold for a required precision, from pairs that neither the index nor the model has seen.

        Precision is the share of the suggestions made that are right: see `score_pairs`. If no threshold is certain to
        have it, the index suggests nothing by default from then on.

        Args:
            inputs: The texts to answer.
            expected: The real reply to each (or, in an index of questions, a question with the same meaning).
            precision: The required precision, above 0 and below 1, which suggestions have with 90% confidence.
            judge: As in `score_pairs`.
            show_progress: Show the remaining time.
            contexts: As in `suggest_many`.

        Raises:
            ValueError: No threshold is certain to have that precision (the message says about how many pairs would be
                needed), or an option is out of range.
        """
        return self.set_threshold(*self.score_pairs(inputs, expected, judge, show_progress, contexts), precision)

    def set_threshold(self, scores: np.ndarray, are_right: np.ndarray, precision: float) -> Calibration:
        """`calibrate` with the output of `score_pairs`."""
        self.calibration = self.no_threshold = None
        try:
            self.calibration = choose_threshold(scores, are_right, precision)
        except ValueError as error:
            self.no_threshold = str(error)
            raise
        return self.calibration

    def score_pairs(
        self,
        inputs: Sequence[str],
        expected: Sequence[str],
        judge: Encoder | None = None,
        show_progress: bool = False,
        contexts: Sequence[Sequence[str]] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The score of the best suggestion for each held-out pair, and whether it is right, both (pairs,).

        It is right if it answers to the same effect as the expected text: if their `text_cosines` are .6 or more (in an
        index of questions, `duplicate_cosine`).

        Args:
            inputs: As in `calibrate`.
            expected: As in `calibrate`.
            judge: The encoder that compares suggestions with the expected texts; by default that of the index.
            show_progress: As in `calibrate`.
            contexts: As in `suggest_many`.

        Raises:
            ValueError: The numbers of texts differ.
        """
        if len(inputs) != len(expected):
            raise ValueError(f"{len(inputs)} inputs and {len(expected)} expected texts, expected the same number")
        texts, scores = self.best_suggestions(inputs, show_progress, contexts)
        limit = RIGHT_COSINE if self.side == "response" else self.duplicate_cosine
        return scores, text_cosines(judge or self.encoder, texts, expected) >= limit

    def best_suggestions(
        self, texts: Sequence[str], show_progress: bool = False, contexts: Sequence[Sequence[str]] | None = None
    ) -> tuple[list[str], np.ndarray]:
        """The best suggestion for each text, whatever its score, and its score; "" and the lowest score for none."""
        suggestions = self.suggest_many(texts, 1, -math.inf, show_progress, contexts=contexts)
        lowest = min((best.score for one in suggestions for best in one), default=0.0) - 1
        best = [one[0] if one else Suggestion("", lowest, 0) for one in suggestions]
        return [one.text for one in best], np.array([one.score for one in best])

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
            message_weight=self.message_weight,
            consensus_weight=self.consensus_weight,
            calibration=self.calibration,
            no_threshold=self.no_threshold,
            question_threshold=self.question_threshold,
            examples=self.examples,
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
        index = cls(
            encoder, replies, vectors, settings.side, settings.duplicate_cosine, settings.calibration, faiss_index,
            settings.message_weight, settings.no_threshold, settings.question_threshold, settings.consensus_weight,
        )  # fmt: skip
        index.examples = settings.examples
        return index


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
    size = encoder.vector_size(settings.side) + (encoder.vector_size("input") if settings.message_weight else 0)
    if size != dimensions:
        raise ValueError(
            f"{folder} holds vectors of {dimensions} dimensions, but the encoder's have {size}: use "
            "an encoder without truncate_dim, or rebuild the index"
        )
    return encoder
