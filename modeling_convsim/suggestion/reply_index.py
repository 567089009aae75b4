"""`ReplyIndex`: replies (or questions) that are searched for the highest scores."""

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from tqdm import tqdm

from modeling_convsim.encoding.batch_tokenizer import checked_texts, refuse_single_string
from modeling_convsim.encoding.encoder import Dtype, Encoder
from modeling_convsim.encoding.joint import JointEncoder
from modeling_convsim.suggestion.calibration import (
    RIGHT_COSINE,
    Calibration,
    Judge,
    choose_question_threshold,
    choose_threshold,
    text_cosines,
)
from modeling_convsim.suggestion.deduplication import (
    Replies,
    add_variants,
    canonical_form,
    deduplicate,
    group_variants,
    merge_variants,
    ungroup,
)
from modeling_convsim.suggestion.reply_search import DUPLICATE_COSINE, ReplySearch, Suggestion
from modeling_convsim.suggestion.row_vectors import encode_rows
from modeling_convsim.suggestion.search import build_faiss, import_faiss, needs_faiss
from modeling_convsim.suggestion.storage import (
    IndexSettings,
    IndexSide,
    SecondModel,
    check_weights,
    hash_weights,
    read_index,
    write_index,
    write_settings,
)

MESSAGE_WEIGHT = 0.5  # where nothing has chosen it: see `ReplySearch`


class ReplyIndex(ReplySearch):
    """Replies and their vectors, which are built, searched (`ReplySearch`), calibrated, saved and loaded."""

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
            side: See `ReplySearch`.
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
        vectors = encode_rows(encoder, replies, side, weight > 0, show_progress, processes)
        lowest = choose_question_threshold(vectors, replies.companions, duplicate_cosine) if side == "input" else None
        faiss_index = build_faiss(vectors, show_progress) if is_large else None
        return cls(
            encoder, replies, vectors, side, duplicate_cosine, None, faiss_index, weight, question_threshold=lowest
        )

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Adds pairs as if the index had been built with them after its texts; only new texts are encoded.

        Threshold and examples stay: the threshold was calibrated on the earlier contents, so calibrate again after many
        changes. `save` writes the changed index.

        Args:
            pairs: A message and a reply to it, or a question and its answer (side "input"). An index that was built
                without messages or answers ignores them.

        Raises:
            ValueError: A text is not a string of Unicode text, a vector is not finite, or a dependency is not
                installed; the index stays as it was.
            TypeError: `pairs` is a single pair.
        """
        texts, companions = [], []
        for pair in pairs:
            refuse_single_string(pair, "add([(message, reply)])")
            message, reply = checked_texts(pair)
            texts.append(reply if self.side == "response" else message)
            companions.append(message if self.side == "response" else reply)
        known, has_companions = ungroup(self.replies), self.replies.companions is not None
        added = group_variants(texts, companions if has_companions else None, self._has_messages)
        for form, variants in added.items():
            known[form] = add_variants(known.get(form, []), variants, self._has_messages)
        self._replace(merge_variants(known.values(), has_companions, self._has_messages))

    def remove(self, replies: Iterable[str]) -> None:
        """Removes replies (or questions), each in all its variants, as if the index had been built without them.

        Threshold and examples stay, as in `add`.

        Raises:
            ValueError: A reply is not in the index, or none would be left; the index stays as it was.
            TypeError: `replies` is a single string.
        """
        refuse_single_string(replies, "remove([reply])")
        known = ungroup(self.replies)
        removed = {canonical_form(text): text for text in replies}
        if unknown := [text for form, text in removed.items() if form not in known]:
            raise ValueError(f"{_describe_unknown(unknown)}; nothing was removed")
        left = [variants for form, variants in known.items() if form not in removed]
        if not left:
            raise ValueError("these are all replies of the index, and an index needs one: nothing was removed")
        self._replace(merge_variants(left, self.replies.companions is not None, self._has_messages))

    def _replace(self, replies: Replies) -> None:
        """Replaces the rows; those that were there before keep their vectors."""
        if needs_faiss(len(replies.texts)):
            import_faiss()
        row_of = {key: row for row, key in enumerate(self.replies.row_keys())}
        rows = np.array([row_of.get(key, -1) for key in replies.row_keys()])
        new = np.flatnonzero(rows < 0)
        vectors = self.vectors[rows].astype(np.float16)
        if len(new):
            vectors[new] = encode_rows(self.encoder, replies.select(new), self.side, self._has_messages)
        if self.side == "input":
            lowest = choose_question_threshold(vectors, replies.companions, self.duplicate_cosine)
            self.question_threshold = lowest
        self._set_rows(replies, vectors)

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
            remedy = "remove them from the list of allowed replies, or build the index with them"
            raise ValueError(f"{_describe_unknown(unknown)}; {remedy}")
        rows = np.flatnonzero(np.isin(self._numbers, [number for number in named.values() if number is not None]))
        return ReplyIndex(
            self.encoder, self.replies.select(rows), self.vectors[rows], self.side, self.duplicate_cosine,
            self.calibration, None, self.message_weight, self.no_threshold, self.question_threshold,
            self.consensus_weight,
        )  # fmt: skip

    def calibrate(
        self,
        inputs: Sequence[str],
        expected: Sequence[str],
        precision: float = 0.8,
        judge: Judge | None = None,
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
        judge: Judge | None = None,
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
        second = None
        if isinstance(self.encoder, JointEncoder):
            model = self.encoder.second.model
            second = SecondModel(model.name_or_path, hash_weights(model), self.encoder.share)
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
            second=second,
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
            options = (device, dtype, settings.truncate_dim, trust_remote_code)
            try:
                encoder = Encoder.from_pretrained(settings.model, *options, **hub_options)
                if settings.second:
                    second = Encoder.from_pretrained(settings.second.model, *options, **hub_options)
                    encoder = JointEncoder(encoder, second, settings.second.share)
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


def _describe_unknown(texts: list[str]) -> str:
    first = ", ".join(map(repr, texts[:5])) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")
    return f"not in the index: {first}"


def _prepare_encoder(folder: Path, settings: IndexSettings, encoder: Encoder, dimensions: int) -> Encoder:
    """Requires the weights that an index was built with, and sets the `truncate_dim` of an encoder without one."""
    second = encoder.second if isinstance(encoder, JointEncoder) else None
    if (second is None) != (settings.second is None):
        raise ValueError(f"{folder} was built with {'one model' if second else 'two models'}: leave `encoder` out")
    _check_weights(folder, settings, encoder)
    if second and settings.second:
        _check_weights(folder, settings.second, second)
    if encoder.truncate_dim is None and settings.truncate_dim is not None:
        encoder = Encoder(encoder.model, encoder.tokenizer, settings.truncate_dim)
    size = encoder.vector_size(settings.side) + (encoder.vector_size("input") if settings.message_weight else 0)
    if size != dimensions:
        raise ValueError(
            f"{folder} holds vectors of {dimensions} dimensions, but the encoder's have {size}: use "
            "an encoder without truncate_dim, or rebuild the index"
        )
    return encoder


def _check_weights(folder: Path, built: IndexSettings | SecondModel, encoder: Encoder) -> None:
    if hash_weights(encoder.model) != built.weights_sha256:
        raise ValueError(
            f"{folder} was built with other weights than those of {encoder.model.name_or_path or 'this model'}: "
            f"open it with the model that it was built with (then {built.model}), or rebuild it"
        )
