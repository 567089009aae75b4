"""`ReplyIndex`: replies that are searched for those that score highest for a message."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from modeling_convsim.encoding.batch_tokenizer import checked_texts, refuse_single_string
from modeling_convsim.encoding.encoder import Encoder
from modeling_convsim.encoding.loading import Side
from modeling_convsim.suggestion.deduplication import (
    PEERS,
    Replies,
    agreement,
    canonical_form,
    deduplicate,
    drop_near_duplicates,
    is_answer,
    number_texts,
    select_diverse,
)
from modeling_convsim.suggestion.probability import Threshold, find_threshold
from modeling_convsim.suggestion.ratings import (
    RATINGS,
    REVIEW,
    HeldOut,
    Rating,
    find_index,
    fit_ratings,
    last_ratings,
    read_ratings,
    read_review,
)
from modeling_convsim.suggestion.search import build_faiss, exact_search, faiss_search, import_faiss, needs_faiss
from modeling_convsim.suggestion.specifics import NAME, Span, Specifics
from modeling_convsim.suggestion.storage import (
    DUPLICATE_COSINE,
    IndexFile,
    IndexSettings,
    name_model,
    read_index,
    write_index,
)

MESSAGE_WEIGHT = 0.5  # where nothing has chosen it: see `ReplyIndex`
BLOCK = 256  # number of queries per search
FEW, MANY = 4, 64  # candidates per suggestion; finding near-duplicates encodes candidates, so few are tried first
MOST_KNOWN = 20_000  # replies whose sentence embeddings are kept for the next suggestions


@dataclass(frozen=True)
class Suggestion:
    """A reply that may be sent.

    Attributes:
        text: The reply.
        probability: How probable it is, 0 to 1, that it can be sent as it is or after a small edit (`Curve`); None if
            nothing has measured it.
        score: See `ReplyIndex`.
        message: The message that the reply answered, if the index was built with these; of several the one most like
            the message that is answered now.
        count: How often the reply occurs.
        spans: The start and end in `text` of each part to change before it is sent: a placeholder such as "[name]", or
            what only one customer got, such as the number of an order (`Specifics`).
    """

    text: str
    probability: float | None
    score: float
    message: str | None
    count: int
    spans: list[Span] = field(default_factory=list, hash=False)


class ReplyIndex:
    """Replies and their vectors, which are searched for those that score highest for a message.

    The score of a reply is the model's, u' . v', and, if the index holds the messages that replies answered, u' . v' +
    w u . u_m: the cosine of the two messages, with the weight `message_weight`; of several messages, the best one
    counts. With `by_messages`, the score is this cosine alone: in an FAQ, the messages are questions and the replies
    their answers. With a `consensus_weight`, this multiple of the reply's agreement with the other good ones is added
    (`agreement`).

    A message is never answered by itself or by an earlier turn of its conversation. One without a token that the model
    knows gets the most frequent replies.

    Attributes:
        encoder: The model that encoded the replies.
        replies: The rows.
        vectors: (rows, dimensions): those of the replies, and after them those of the messages, of which either may be
            missing.
        settings: The weights, and the probabilities of scores; change them with `dataclasses.replace`.
        ratings: What the index was calibrated with.
        specifics: Finds the parts of its replies that cannot be sent to others.
        review: Held-out messages with suggestions, which `convsim review` asks about.
    """

    def __init__(
        self,
        encoder: Encoder,
        replies: Replies,
        vectors: np.ndarray,
        settings: IndexSettings | None = None,
        faiss_index: Any = None,
    ) -> None:
        """Takes the parts that `build` and `load` create; `faiss_index` is the output of `build_faiss`, if any."""
        self.encoder, self.replies, self.settings = encoder, replies, settings or IndexSettings()
        self.vectors, self._faiss = vectors, faiss_index
        _, self._numbers = number_texts(replies.texts)
        self.ratings: list[Rating] = []
        self._thresholds: dict[float, Threshold] = {}  # of `ratings`, by precision
        self.review: list[HeldOut] = []
        self.specifics = Specifics(replies, self.settings.by_messages)
        self._has_messages = self.settings.by_messages or vectors.shape[1] > encoder.vector_size("response")
        self._embeddings: dict[int, np.ndarray] = {}  # of replies, by their numbers
        if not needs_faiss(len(vectors)):
            self.vectors = vectors.astype(np.float32)  # several times as fast as float16, for twice the memory
        elif faiss_index is None:
            self._faiss = build_faiss(vectors)

    @classmethod
    def build(
        cls,
        encoder: Encoder,
        replies: Iterable[str],
        messages: Iterable[str] | None = None,
        *,
        by_messages: bool = False,
        message_weight: float = MESSAGE_WEIGHT,
        duplicate_cosine: float = DUPLICATE_COSINE,
        show_progress: bool = False,
    ) -> "ReplyIndex":
        """Deduplicates replies and encodes them, without blank ones, whose number is `replies.blank`.

        Args:
            encoder: The model.
            replies: Replies, including repeated ones.
            messages: The message that each reply answered.
            by_messages: Score by the messages alone, as an FAQ does.
            message_weight: That of the messages in the score, 0 or more; at 0, the messages are only shown, of a
                repeated reply the first one.
            duplicate_cosine: Of replies whose sentence embeddings have this cosine or more, only the best is suggested;
                above 0; 1 turns this off, as `by_messages` does.
            show_progress: Show each step and the remaining time.

        Raises:
            ValueError: There are no replies, a text is not a string of Unicode text, an option is out of range, a
                vector is not finite, or a dependency is not installed.
            TypeError: `replies` or `messages` is a single string.
        """
        from tqdm import tqdm

        refuse_single_string(replies, "build(encoder, [reply])")
        refuse_single_string(messages, "build(encoder, [reply], messages=[message])")
        if by_messages and messages is None:
            raise ValueError("by_messages needs messages: expected messages=[message]")
        weight = 0.0 if messages is None or by_messages else message_weight
        # The answers of an FAQ differ on purpose, and a question may have several.
        settings = IndexSettings(1.0 if by_messages else duplicate_cosine, by_messages, weight)
        texts: Iterable[str] = tqdm(
            checked_texts(replies), "reading", delay=1, unit="text", unit_scale=True, disable=not show_progress
        )
        if by_messages:
            texts = (text if is_answer(text) else "" for text in texts)
        rows = deduplicate(texts, messages, keep_all=by_messages or weight > 0)
        if not rows.texts:
            raise ValueError("there are no replies to index")
        if is_large := needs_faiss(len(rows.texts)):
            import_faiss()  # before the vectors, which can take minutes
        sides: list[tuple[Side, list[str]]] = [] if by_messages else [("response", rows.texts)]
        if rows.messages and (by_messages or weight):
            sides.append(("input", rows.messages))
        vectors = np.hstack([_encode_texts(encoder, each, side, show_progress) for side, each in sides])
        return cls(encoder, rows, vectors, settings, build_faiss(vectors, show_progress) if is_large else None)

    def __len__(self) -> int:
        """The number of distinct replies."""
        return int(self._numbers[-1]) + 1

    @property
    def total(self) -> int:
        """The number of replies that the index was built from, without blank ones."""
        _, first = np.unique(self._numbers, return_index=True)
        return int(self.replies.counts[first].sum())

    @property
    def is_estimated(self) -> bool:
        """Whether probabilities come from the automatic estimate instead of ratings."""
        return self.settings.curve is not None and self.settings.curve.estimated

    def only(self, allowed: Iterable[str]) -> "ReplyIndex":
        """Restricts the index to the replies of a list (in any variant).

        Raises:
            ValueError: The list is empty, or contains a reply that is not in the index.
        """
        number_of = {canonical_form(text): number for number, text in enumerate(dict.fromkeys(self.replies.texts))}
        named = {text: number_of.get(canonical_form(text)) for text in allowed if canonical_form(text)}
        if not named:
            raise ValueError("the list of allowed replies is empty")
        if unknown := [text for text, number in named.items() if number is None]:
            first = ", ".join(map(repr, unknown[:5])) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            remedy = "remove them from the list of allowed replies, or build the index with them"
            raise ValueError(f"not in the index: {first}; {remedy}")
        rows = np.flatnonzero(np.isin(self._numbers, [number for number in named.values() if number is not None]))
        return self.select(rows)

    def select(self, rows: np.ndarray) -> "ReplyIndex":
        """An index of some of the rows, with the same ratings."""
        index = ReplyIndex(self.encoder, self.replies.select(rows), self.vectors[rows], self.settings)
        index.ratings, index.specifics = self.ratings, self.specifics
        return index

    def suggest(
        self,
        message: str,
        k: int = 3,
        context: Sequence[str] = (),
        min_probability: float = 0.0,
        name: str | None = None,
    ) -> list[Suggestion]:
        """Suggests k replies that differ, best first; fewer if the index has no more.

        Args:
            message: The message to answer.
            k: Number of suggestions, 1 or more.
            context: The earlier turns of the conversation, the newest first, for a model with `context_weights`.
            min_probability: Leave out suggestions whose probability is lower, or not known; 0 keeps all.
            name: The name of who wrote the message, which replaces "[name]" in replies.
        """
        [suggestions] = self.suggest_many([message], k, [context] if context else None, min_probability)
        return [self._with_name(one, name) for one in suggestions] if name else suggestions

    def suggest_many(
        self,
        messages: Sequence[str],
        k: int = 3,
        contexts: Sequence[Sequence[str]] | None = None,
        min_probability: float = 0.0,
        show_progress: bool = False,
    ) -> list[list[Suggestion]]:
        """Suggests replies to several messages, faster than `suggest` one by one.

        Raises:
            ValueError: As in `search` and `Encoder.encode`, or `k` or `min_probability` is out of range.
            TypeError: `messages` or a context is a single string.
        """
        refuse_single_string(messages, "suggest_many([message])")
        if contexts is not None and len(contexts) != len(messages):
            raise ValueError(f"{len(messages)} messages and {len(contexts)} contexts, expected the same number")
        if k < 1:
            raise ValueError(f"k is {k}, expected 1 or more")
        if not 0 <= min_probability <= 1:
            raise ValueError(f"min_probability is {min_probability}, expected a number from 0 to 1")
        starts: Iterable[int] = range(0, len(messages), BLOCK)
        if show_progress:
            from tqdm import tqdm  # to import it takes longer than to suggest

            starts = tqdm(starts, delay=1, unit_scale=BLOCK, unit="text")
        suggestions: list[list[Suggestion]] = []
        for start in starts:
            of_block = None if contexts is None else contexts[start : start + BLOCK]
            suggestions += self._suggest_for(list(messages[start : start + BLOCK]), of_block, k)
        if min_probability:
            suggestions = [[one for one in each if (one.probability or 0) >= min_probability] for each in suggestions]
        return suggestions

    def calibrate(self, ratings: str | os.PathLike | Iterable[Mapping[str, Any]]) -> bool:
        """Fits the probabilities to ratings, if there are 30 or more, of replies that can be sent and of others.

        A reply that was rated "edit" can be sent. Ratings without a score do not count. `automatic` uses them too.

        Args:
            ratings: A file of JSON lines, or such lines as dictionaries: see `Rating`.

        Returns:
            Whether they are enough; if not, the probabilities stay as they were.

        Raises:
            ValueError: A rating is not valid; nothing changes.
        """
        if isinstance(ratings, (str, os.PathLike)):
            self.ratings = read_ratings(ratings)
        else:
            self.ratings = last_ratings(msgspec.convert(list(ratings), list[Rating]))
        self._thresholds.clear()
        curve = fit_ratings(self.ratings)
        if curve:
            self.settings = replace(self.settings, curve=curve)
        return curve is not None

    def automatic(
        self, message: str, precision: float = 0.95, context: Sequence[str] = (), name: str | None = None
    ) -> Suggestion | None:
        """The best suggestion, if ratings show that those with such a score can be sent without a person.

        Args:
            message: The message to answer.
            precision: The share of such suggestions that must be right, shown with 90% confidence: see `threshold`.
            context: As in `suggest`.
            name: As in `suggest`.

        Returns:
            The suggestion; None if its score is too low, a part of it is to be changed (`Suggestion.spans`), or ratings
            do not show the precision at any score.
        """
        lowest = self.threshold(precision).score
        best = self.suggest(message, 1, context, name=name)
        return best[0] if best and best[0].score >= lowest and not best[0].spans else None

    def threshold(self, precision: float = 0.95) -> Threshold:
        """The score from which on `automatic` gives suggestions, and what the ratings show (`find_threshold`).

        Of each message, the suggestion with the highest score counts; it is right if it was rated "send", and no part
        of it is to be changed.
        """
        if not 0 < precision < 1:
            raise ValueError(f"precision is {precision}, expected a number above 0 and below 1")
        if precision in self._thresholds:
            return self._thresholds[precision]
        best: dict[tuple[str, ...], tuple[float, bool]] = {}
        for each in self.ratings:
            question = (each.message, *each.context)
            if each.score is not None and (question not in best or best[question][0] < each.score):
                best[question] = each.score, each.rating == "send" and not self.specifics.spans(each.reply)
        scores, is_right = np.array(list(best.values()), np.float64).reshape(-1, 2).T
        return self._thresholds.setdefault(precision, find_threshold(scores, is_right.astype(bool), precision))

    def encode_messages(self, messages: list[str], contexts: Sequence[Sequence[str]] | None = None) -> np.ndarray:
        """The vectors of messages to answer, (messages, dimensions), whose dot products with `vectors` are the scores.

        A context counts for the score of a reply, not for that of the message that it answered, which has none.
        """
        if self.settings.by_messages:
            return self.encoder.encode(messages)
        queries = self.encoder.encode(messages, side="query", contexts=contexts)
        if not self._has_messages:
            return queries
        embeddings = self.encoder.encode(messages) if self.encoder.has_query_vectors or contexts else queries
        return np.hstack([queries, self.settings.message_weight * embeddings])

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the k highest scores of query vectors (queries, dimensions).

        With 100,000 replies or more, faiss may miss a few of the best replies (`suggest_recall` in tests/benchmarks).

        Returns:
            Scores and rows, both (queries, k), or fewer columns if there are fewer rows; best first.

        Raises:
            ValueError: A query, or a vector of the index that was scored, is not finite.
        """
        k = min(k, len(self.vectors))
        if not np.isfinite(queries).all():
            raise ValueError(
                "the model gives vectors that are not finite: its weights are damaged, or training diverged"
            )
        if self._faiss is None:
            scores, rows = exact_search(self.vectors, queries, k)
        else:
            scores, rows = faiss_search(self._faiss, self.vectors, queries, k)
        if not np.isfinite(scores).all():
            raise ValueError("the index contains damaged vectors (not finite): rebuild it")
        return scores, rows

    def _suggest_for(
        self, messages: list[str], contexts: Sequence[Sequence[str]] | None, k: int
    ) -> list[list[Suggestion]]:
        """Suggestions for some messages, from few rows or, while they hold too few that differ, from more."""
        queries, few = self.encode_messages(messages, contexts), FEW * k
        said = [[text, *context] for text, context in zip(messages, contexts or [()] * len(messages), strict=True)]
        if self.settings.consensus_weight:
            few = max(few, PEERS + 1)  # one may be the message itself
        is_known = self.encoder.knows(messages)
        suggestions = self._suggest_among(few, said, queries, is_known, k)
        most = min(len(self.vectors), MOST_KNOWN)
        for count in [*(count for count in (MANY * k, 16 * MANY * k) if count < most), most]:
            for query, found in enumerate(suggestions):
                if len(found) < k:
                    row = slice(query, query + 1)
                    [suggestions[query]] = self._suggest_among(
                        count, said[row], queries[row], is_known[row], k, fill=count == most
                    )
        return suggestions

    def _suggest_among(
        self, count: int, said: list[list[str]], queries: np.ndarray, is_known: np.ndarray, k: int, fill: bool = False
    ) -> list[list[Suggestion]]:
        """Suggestions among the best rows of each query, or the most frequent ones where it has no known token.

        `said` has the message and the earlier turns of each query. With `fill`, near-duplicates fill the places that
        are left.
        """
        scores, rows = self.search(queries, count)  # (queries, count), best first
        if not is_known.all():
            _, first = np.unique(self._numbers, return_index=True)  # a row of each reply
            frequent = first[np.argsort(-self.replies.counts[first], kind="stable")]
            scores[~is_known], rows[~is_known] = 0, np.resize(frequent, rows.shape[1])
        forms = [set(map(canonical_form, turns)) for turns in said]
        is_said = np.array(
            [
                [canonical_form(self.replies.texts[row]) in turns for row in found]
                for turns, found in zip(forms, rows, strict=True)
            ]
        )  # (queries, count): whether a row's reply is the message that it would answer, or an earlier turn
        if weight := self.settings.consensus_weight:
            agreements = agreement(scores, ~is_said, self._embed_replies(self._numbers[rows]))
            scores = scores + weight * is_known[:, None] * agreements  # the most frequent ones stay in their order
            order = np.argsort(-scores, axis=1, kind="stable")
            scores, rows, is_said = (np.take_along_axis(each, order, axis=1) for each in (scores, rows, is_said))
        candidates, best = [], []
        for found, each, allowed in zip(rows, scores, ~is_said, strict=True):
            positions = np.flatnonzero(allowed)
            _, first = np.unique(self._numbers[found[positions]], return_index=True)  # the best row of each reply
            positions = positions[np.sort(first)]
            candidates.append(found[positions])
            best.append(each[positions])
        return [
            self._suggestions(candidates[query][positions], best[query][positions])
            for query, positions in enumerate(self._select(candidates, best, k, fill))
        ]

    def _embed_replies(self, numbers: np.ndarray) -> np.ndarray:
        """The sentence embeddings of replies by their numbers, of any shape: (*numbers, dimensions)."""
        distinct, positions = np.unique(numbers, return_inverse=True)
        if len(self._embeddings) > MOST_KNOWN:
            self._embeddings.clear()
        if new := [number for number in distinct.tolist() if number not in self._embeddings]:
            texts = [self.replies.texts[row] for row in np.searchsorted(self._numbers, new)]
            self._embeddings.update(zip(new, self.encoder.encode(texts), strict=True))
        if not len(distinct):
            return np.empty((*numbers.shape, self.encoder.embedding_size), np.float32)
        return np.stack([self._embeddings[number] for number in distinct.tolist()])[positions.reshape(numbers.shape)]

    def _suggestions(self, rows: np.ndarray, scores: np.ndarray) -> list[Suggestion]:
        (texts, counts, messages, _), curve = self.replies, self.settings.curve
        return [
            Suggestion(
                texts[row],
                curve.probability(score) if curve else None,
                score,
                messages[row] if messages else None,
                int(counts[row]),
                list(self.specifics.spans(texts[row])),
            )
            for row, score in zip(rows, scores.tolist(), strict=True)
        ]

    def _with_name(self, suggestion: Suggestion, name: str) -> Suggestion:
        text = NAME.sub(lambda _: name, suggestion.text)
        return replace(suggestion, text=text, spans=list(self.specifics.spans(text)))

    def _select(self, candidates: list[np.ndarray], scores: list[np.ndarray], k: int, fill: bool) -> list[list[int]]:
        """For each array of rows, best first, the positions of up to k that are not near-duplicates, and differ."""
        duplicate_cosine, diversity = self.settings.duplicate_cosine, self.settings.diversity
        if duplicate_cosine >= 1 and diversity == 0:
            return [list(range(min(k, len(rows)))) for rows in candidates]
        embeddings = self._embed_replies(self._numbers[np.concatenate(candidates)])
        ends, selected = np.cumsum([len(rows) for rows in candidates]), []
        for vectors, best in zip(np.split(embeddings, ends[:-1]), scores, strict=True):  # (candidates, dimensions)
            distinct = np.arange(len(vectors))
            if duplicate_cosine < 1:
                distinct = np.array(drop_near_duplicates(vectors, duplicate_cosine, max(MANY, k)), dtype=np.int64)
            diverse = distinct[select_diverse(best[distinct], vectors[distinct], k, diversity)].tolist()
            others = [position for position in range(len(vectors)) if position not in diverse] if fill else []
            selected.append([*diverse, *others][:k])
        return selected

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the index to a folder, replacing an existing index, whose ratings stay.

        Raises:
            ValueError: The folder holds something else, or a dependency is not installed.
        """
        folder = Path(folder)
        file = IndexFile(name_model(folder, self.encoder.name), self.encoder.digest(), len(self), self.settings)
        write_index(folder, file, self.replies, self.vectors, self._faiss, self.review)

    @classmethod
    def load(cls, folder: str | os.PathLike, encoder: Encoder | None = None, **options: Any) -> "ReplyIndex":
        """Opens a saved index and its model; the vectors of a large index stay on disk.

        Args:
            folder: The index's folder, or that of the run that holds it. Ratings there calibrate the index.
            encoder: The model, instead of the one that the index names.
            **options: Those of `Encoder.from_pretrained` for the model that the index names, such as `device`.

        Raises:
            ValueError: A file is missing or broken, or the model's weights differ from those that built the index.
        """
        folder = find_index(Path(folder))
        file, replies, vectors, faiss_index = read_index(folder)
        if encoder is None:
            model = folder / file.model  # or a name on the Hub
            try:
                encoder = Encoder.from_pretrained(str(model.resolve()) if model.is_dir() else file.model, **options)
            except ValueError as error:
                moved = f"{folder} was built with this model; if it has moved, pass its new folder"
                raise ValueError(f"{error} ({moved})") from error
        if encoder.digest() != file.weights_sha256:
            raise ValueError(
                f"{folder} was built with other weights than those of {encoder.name or 'this model'}: open it with its "
                f"original model ({file.model}), or rebuild it"
            )
        index = cls(encoder, replies, vectors, file.settings, faiss_index)
        if (folder / REVIEW).is_file():
            index.review = read_review(folder / REVIEW)
        if (folder / RATINGS).is_file():
            index.calibrate(folder / RATINGS)
        return index


def _encode_texts(encoder: Encoder, texts: list[str], side: Side, show_progress: bool) -> np.ndarray:
    """Encodes texts in float16, (texts, dimensions), each once.

    Raises:
        ValueError: float16 cannot hold a vector.
    """
    distinct, rows = number_texts(texts)
    encoded = np.empty((len(distinct), encoder.vector_size(side)), np.float16)
    row = 0
    for part in encoder.stream(distinct, side, show_progress=show_progress):
        with np.errstate(over="ignore"):  # such a value becomes infinite, which is refused below
            halves = encoded[row : row + len(part)] = part.astype(np.float16)
        if len(damaged := np.flatnonzero(~np.isfinite(halves).all(axis=1))):
            problem = "the model gives a vector that is not finite, or too large for float16"
            raise ValueError(f"{distinct[row + int(damaged[0])]!r}: {problem}")
        row += len(part)
    return encoded[rows]
