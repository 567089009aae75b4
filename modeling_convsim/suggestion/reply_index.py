"""An index of replies (or questions): built, saved, opened, and asked for those that score highest for a text.

A saved index is a folder: index.json (settings), replies.parquet (text, count and, for questions, answer), vectors.npy
(float16) and, of 100,000 replies or more, int8.npy (the same, rounded).
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from modeling_convsim.encoding.encoder import Dtype, Encoder, Side
from modeling_convsim.suggestion.replies import Calibration, Replies, choose_threshold, fold, normalize
from modeling_convsim.suggestion.search import Int8Vectors, exact_search, import_extra, quantize

IndexSide = Literal["response", "input"]
EXACT_BELOW = 100_000  # replies; from there on vectors of int8 are searched
DUPLICATE_COSINE = 0.9  # of sentence embeddings: "It is on its way" and "It's on the way" are at .88 in best_dan
BLOCK = 256  # queries that are searched for at a time


@dataclass(frozen=True)
class Suggestion:
    """A reply (or question) with its score, how often it was given, and a question's answer."""

    text: str
    score: float
    count: int
    answer: str | None = None


def weights_digest(model: nn.Module) -> str:
    """A digest of a model's weights, the same whichever type it computes in: they are rounded to bfloat16 for it."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().data)
    return digest.hexdigest()


class ReplyIndex:
    """Replies whose vectors are searched for those that score highest for a text.

    An index of side "response" suggests replies: the score is the model's, u' . v'. One of side "input" finds
    questions (FAQ): the score is the cosine of sentence embeddings.
    """

    def __init__(
        self,
        encoder: Encoder,
        replies: Replies,
        vectors: np.ndarray,
        side: IndexSide = "response",
        duplicate_cosine: float = DUPLICATE_COSINE,
        calibration: Calibration | None = None,
        rounded: np.ndarray | None = None,
    ) -> None:
        """Takes what `build` and `load` make: vectors (replies, size), and the same as int8 if there are many."""
        self.encoder, self.replies, self.side = encoder, replies, side
        self.duplicate_cosine, self.calibration = duplicate_cosine, calibration
        self.vectors, self._int8 = vectors, None
        if len(vectors) < EXACT_BELOW:
            self.vectors = vectors.astype(np.float32)  # several times as fast, but twice the memory
        else:
            self._int8 = Int8Vectors(quantize(vectors) if rounded is None else rounded)

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
    ) -> "ReplyIndex":
        """Folds texts and encodes them.

        Args:
            encoder: The model; its name, as it was given, and its `truncate_dim` are what a saved index opens.
            texts: Replies (side "response") or questions (side "input"), as often as they come.
            side: As above.
            answers: What to show with each question, as many as texts.
            duplicate_cosine: Of two replies whose sentence embeddings have this cosine or more, only the better one is
                suggested; 1 turns that off. Above 0.
            show_progress: Shows what is done, and the time left.
            processes: As in `Encoder.stream`.

        Raises:
            ValueError: There is no text, an option is out of range, or something is not installed.
        """
        if side not in get_args(IndexSide):
            raise ValueError(f"side is {side!r}, expected 'response' or 'input'")
        if not 0 < duplicate_cosine <= 1:
            raise ValueError(f"duplicate_cosine is {duplicate_cosine}, expected a number above 0, up to 1")
        replies = fold(
            tqdm(texts, "reading", delay=1, unit="text", unit_scale=True, disable=not show_progress), answers
        )
        if not replies.texts:
            raise ValueError("there is no text to build an index of")
        if len(replies.texts) >= EXACT_BELOW:
            import_extra("numkong", "searching 100,000 replies or more")
        vectors = np.empty((len(replies.texts), encoder.embedding_size), np.float16)
        row = 0
        for part in encoder.stream(replies.texts, side, show_progress=show_progress, processes=processes):
            vectors[row : row + len(part)] = part
            row += len(part)
        rounded = quantize(vectors, show_progress) if len(vectors) >= EXACT_BELOW else None
        return cls(encoder, replies, vectors, side, duplicate_cosine, rounded=rounded)

    def suggest(self, text: str, k: int = 3, threshold: float | None = None) -> list[Suggestion]:
        """Up to k replies to a text, best first: none if none reaches the threshold.

        Args:
            text: What is to be answered (or asked).
            k: How many, 1 or more; fewer come back if of the best 64 k too many are near-duplicates of each other.
            threshold: The lowest score; by default that of `calibrate`, and -inf, none, before it.
        """
        return self.suggest_many([text], k, threshold)[0]

    def suggest_many(
        self, texts: Sequence[str], k: int = 3, threshold: float | None = None, show_progress: bool = False
    ) -> list[list[Suggestion]]:
        """`suggest` for each of several texts, in less time."""
        if k < 1:
            raise ValueError(f"k is {k}, expected 1 or more")
        if threshold is None:
            threshold = self.calibration.threshold if self.calibration else -math.inf
        suggestions: list[list[Suggestion]] = []
        with tqdm(total=len(texts), delay=1, unit="text", disable=not show_progress) as progress:
            for start in range(0, len(texts), BLOCK):
                block = list(texts[start : start + BLOCK])
                queries = self.encoder.encode(block, side=self._query_side)
                suggestions += self._suggest_block(queries, k, threshold)
                progress.update(len(block))
        return suggestions

    def _suggest_block(self, queries: np.ndarray, k: int, threshold: float) -> list[list[Suggestion]]:
        suggestions: list[list[Suggestion]] = [[] for _ in queries]
        waiting = np.arange(len(queries))
        for count in (4 * k, 64 * k):  # the texts of few candidates need be encoded, as a rule
            scores, rows = self.search(queries[waiting], count)
            good = scores >= threshold
            candidates = [rows[index, good[index]] for index in range(len(waiting))]
            kept = [places[:k] for places in self._distinct(candidates)]
            for index, query in enumerate(waiting):
                suggestions[query] = [
                    self._suggestion(candidates[index][place], scores[index, place]) for place in kept[index]
                ]
            short = np.array([len(places) < k for places in kept]) & good.all(axis=1)
            waiting = waiting[short]
            if not len(waiting) or count >= len(self):
                break
        return suggestions

    def _suggestion(self, row: int, score: float) -> Suggestion:
        texts, counts, answers = self.replies
        return Suggestion(texts[row], float(score), int(counts[row]), answers[row] if answers else None)

    def _distinct(self, candidates: list[np.ndarray]) -> list[list[int]]:
        """Of each array of rows, best first, the places of those that are no near-duplicate of one before."""
        if self.duplicate_cosine >= 1:
            return [list(range(len(rows))) for rows in candidates]
        needed = np.unique(np.concatenate(candidates))
        if self.side == "input":
            embeddings = self.vectors[needed].astype(np.float32)
        else:
            embeddings = self.encoder.encode([self.replies.texts[row] for row in needed])
        distinct = []
        for rows in candidates:
            vectors = embeddings[np.searchsorted(needed, rows)]
            near = vectors @ vectors.T >= self.duplicate_cosine
            kept: list[int] = []
            for place in range(len(rows)):
                if not near[place, kept].any():
                    kept.append(place)
            distinct.append(kept)
        return distinct

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k highest scores of query vectors (queries, size), and their rows, both (queries, k or all), best first.

        All are looked at; of 100,000 or more as int8, which may leave out one that scores as much as the last of them.
        """
        k = min(k, len(self))
        if self._int8 is None:
            return exact_search(self.vectors, queries, k)
        return self._int8.search(self.vectors, queries, k)

    def only(self, allowed: Iterable[str]) -> "ReplyIndex":
        """The index of those of its replies alone that a list names (in any form), searched exactly.

        Raises:
            ValueError: The list is empty, or names a reply that is not in the index.
        """
        row_of = {normalize(text): row for row, text in enumerate(self.replies.texts)}
        named = {text: row_of.get(normalize(text)) for text in allowed if normalize(text)}
        unknown = [text for text, row in named.items() if row is None]
        if unknown or not named:
            first = ", ".join(map(repr, unknown[:5])) + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
            raise ValueError(f"not in the index: {first}" if unknown else "the list of allowed replies is empty")
        rows = np.unique([row for row in named.values() if row is not None])
        texts, counts, answers = self.replies
        replies = Replies(
            [texts[row] for row in rows], counts[rows], [answers[row] for row in rows] if answers else None
        )
        return ReplyIndex(self.encoder, replies, self.vectors[rows], self.side, self.duplicate_cosine, self.calibration)

    def calibrate(
        self,
        inputs: Sequence[str],
        expected: Sequence[str],
        precision: float = 0.9,
        candidates: int | None = 100,
        show_progress: bool = False,
    ) -> Calibration:
        """Sets the threshold for a precision wanted, from pairs that neither the index nor the model has seen.

        The precision is that of P@1: of the inputs whose best candidate reaches the threshold, the share for which it
        is the pair's own text, in any form that `normalize` folds, or a near-duplicate of it.

        Args:
            inputs: What is to be answered.
            expected: For each, the right reply (or, in an index of questions, a question that asks the same).
            precision: Wanted, above 0 up to 1.
            candidates: The right one and others, drawn from the index with seed 0; None is the index alone, in which
                the right one must be found, and where a reply that fits as well is more often in its way.
            show_progress: Shows the time left.

        Raises:
            ValueError: No threshold has that precision, the message says which there is; or an option is out of range.
        """
        if len(inputs) != len(expected):
            raise ValueError(f"{len(inputs)} inputs and {len(expected)} expected texts, expected as many of both")
        if candidates is not None and candidates < 2:
            raise ValueError(f"candidates is {candidates}, expected 2 or more")
        if candidates is None:
            found = [found[0] for found in self.suggest_many(inputs, 1, -math.inf, show_progress)]
            best, scores = [one.text for one in found], np.array([one.score for one in found])
        else:
            best, scores = self._best_of_drawn(inputs, expected, candidates, show_progress)
        right = np.array([normalize(a) == normalize(b) for a, b in zip(best, expected, strict=True)], bool)
        if self.duplicate_cosine < 1:
            cosines = (self.encoder.encode(best) * self.encoder.encode(expected)).sum(axis=1)
            right |= cosines >= self.duplicate_cosine
        self.calibration = choose_threshold(scores, right, precision, candidates)
        return self.calibration

    def _best_of_drawn(
        self, inputs: Sequence[str], expected: Sequence[str], candidates: int, show_progress: bool
    ) -> tuple[list[str], np.ndarray]:
        """For each input the best of its expected text and others of the index, and its score."""
        queries = self.encoder.encode(inputs, self._query_side, show_progress=show_progress)
        true = self.encoder.encode(expected, self.side, show_progress=show_progress)
        draws = np.random.default_rng(0).integers(len(self), size=(len(inputs), candidates - 1))
        best, scores = list(expected), (queries * true).sum(axis=1)
        for index, rows in enumerate(draws):
            others = self.vectors[rows].astype(np.float32) @ queries[index]
            if others.max() > scores[index]:
                best[index], scores[index] = self.replies.texts[rows[others.argmax()]], others.max()
        return best, scores

    @property
    def _query_side(self) -> Side:
        return "query" if self.side == "response" else "input"

    def save(self, folder: str | os.PathLike) -> None:
        """Writes the index into a folder, in place of an index that is there.

        Raises:
            ValueError: The folder holds something else, or pyarrow is not installed.
        """
        check_output(folder := Path(folder))
        parquet, pyarrow = (import_extra(name, "saving an index") for name in ("pyarrow.parquet", "pyarrow"))
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            texts, counts, answers = self.replies
            columns = {"text": pyarrow.array(texts, pyarrow.string()), "count": counts}
            parquet.write_table(
                pyarrow.table(columns | ({"answer": answers} if answers else {})), partial / "replies.parquet"
            )
            np.save(partial / "vectors.npy", self.vectors.astype(np.float16, copy=False))
            if self._int8 is not None:
                np.save(partial / "int8.npy", quantize(self.vectors))
            self.save_settings(partial)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def save_settings(self, folder: str | os.PathLike) -> None:
        """Writes index.json alone, which is all that `calibrate` changes."""
        settings = {
            "model": self.encoder.model.name_or_path,
            "weights_sha256": weights_digest(self.encoder.model),
            "truncate_dim": self.encoder.truncate_dim,
            "side": self.side,
            "replies": len(self),
            "duplicate_cosine": self.duplicate_cosine,
            "calibration": self.calibration and asdict(self.calibration),
        }
        temporary = Path(folder, ".index.json.partial")
        temporary.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        temporary.replace(Path(folder, "index.json"))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike,
        encoder: Encoder | None = None,
        device: str | torch.device | None = None,
        dtype: Dtype = "float32",
    ) -> "ReplyIndex":
        """Opens a saved index, and the model that it names unless one is given; a large one's vectors stay on disk.

        Texts are encoded with the `truncate_dim` that the index was built with, by an encoder given without one, too.

        Raises:
            ValueError: A part is missing or broken, the model's weights are not those that the index was built with, or
                the encoder given has another `truncate_dim`.
        """
        folder = Path(folder)
        if not (folder / "index.json").is_file():
            raise ValueError(f"{folder} holds no index.json: expected the folder of an index, as `build` writes it")
        parquet = import_extra("pyarrow.parquet", "opening an index")
        try:
            settings = json.loads((folder / "index.json").read_text(encoding="utf-8"))
            name, digest = settings["model"], settings["weights_sha256"]
            columns = parquet.read_table(folder / "replies.parquet").to_pydict()
            replies = Replies(columns["text"], np.array(columns["count"], np.int64), columns.get("answer"))
            vectors = np.load(folder / "vectors.npy", mmap_mode="r")
            rounded = np.load(folder / "int8.npy", mmap_mode="r") if len(vectors) >= EXACT_BELOW else None
            if not len(replies.texts) == len(vectors) == settings["replies"]:
                raise ValueError(
                    f"{len(replies.texts)} replies, {len(vectors)} vectors, and {settings['replies']} meant"
                )
            if rounded is not None and rounded.shape != vectors.shape:
                raise ValueError(f"int8.npy is {rounded.shape}, and {vectors.shape} meant")
            truncate_dim = settings.get("truncate_dim")  # older indices have none
            if truncate_dim is not None and truncate_dim != vectors.shape[1]:
                raise ValueError(f"vectors of {vectors.shape[1]} numbers, and {truncate_dim} meant")
            side, duplicate_cosine = settings["side"], settings["duplicate_cosine"]
            calibration = Calibration(**settings["calibration"]) if settings["calibration"] else None
        # What a broken file raises depends on the library that reads it.
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise ValueError(f"cannot open the index {folder} ({said}): build it anew") from error
        if encoder is None:
            try:
                encoder = Encoder.from_pretrained(name, device, dtype, truncate_dim)
            except ValueError as error:
                raise ValueError(f"{error} ({folder} was built with it; if it is elsewhere now, name it)") from error
        if weights_digest(encoder.model) != digest:
            raise ValueError(
                f"{folder} was built with other weights than those of {encoder.model.name_or_path or 'this model'}: "
                f"open it with the model it was built with ({name} then), or build it anew"
            )
        if encoder.truncate_dim is None and truncate_dim is not None:
            encoder = Encoder(encoder.model, encoder.tokenizer, truncate_dim)
        if encoder.embedding_size != vectors.shape[1]:
            raise ValueError(
                f"{folder} holds vectors of {vectors.shape[1]} numbers, but the encoder's have "
                f"{encoder.embedding_size}: give one without truncate_dim, or build the index anew"
            )
        return cls(encoder, replies, vectors, side, duplicate_cosine, calibration, rounded)


def check_output(folder: Path) -> None:
    """Raises ValueError if writing an index there would take the place of something else."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir()) and not (folder / "index.json").is_file()):
        raise ValueError(f"{folder} is there, and is no index: name another folder")
