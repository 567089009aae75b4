"""`Encoder`: a saved model and its tokenizer, which encode texts as vectors."""

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Union, cast, get_args

import numpy as np

from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer, check_text, refuse_single_string, token_limit
from modeling_convsim.encoding.context import encode_in_context
from modeling_convsim.encoding.joint import SECOND, JointEncoder, read_share
from modeling_convsim.encoding.loading import Dtype, Side, find_folder, parse_model_id, read_model_type
from modeling_convsim.encoding.threads import MIN_TEXTS_PER_THREAD, encode_in_threads, follow, split_windows
from modeling_convsim.files.extras import import_extra
from modeling_convsim.modeling_averaging import LABELS, AveragingModel

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from modeling_convsim.encoding.torch_model import TorchModel
    from modeling_convsim.modeling_base import ConvSimEncoder
    from modeling_convsim.modeling_heads import ConvSimForMultitask


class Encoder:
    """A saved model and its tokenizer, which encode texts as vectors.

    Encoders that average words, DAN and CBOW, compute in NumPy: they need no PyTorch, and use the CPU alone. The others
    compute in PyTorch.

    Attributes:
        model: An `AveragingModel` or a `TorchModel`.
        tokenizer: The tokenizer, as a `BatchTokenizer`.
        name: The model's folder, or its name on the Hub, as the user gave it; empty if it was not opened.
        shows_progress: Whether `encode` shows its progress by default.
    """

    shows_progress = False
    model: Union[AveragingModel, "TorchModel"]

    def __init__(
        self,
        model: Union[AveragingModel, "TorchModel", "ConvSimEncoder", "ConvSimForMultitask"],
        tokenizer: Union[BatchTokenizer, "PreTrainedTokenizerFast"],
        name: str = "",
    ) -> None:
        """Combines a model and its tokenizer.

        Args:
            model: Any of our models. Of a DAN or CBOW in PyTorch, the present weights are copied; another one is set to
                evaluation mode.
            tokenizer: The tokenizer that the model was trained with.
            name: See the attribute.

        Raises:
            ValueError: The tokenizer has ids without an embedding.
        """
        if not hasattr(model, "vectors"):
            from modeling_convsim.encoding.torch_model import in_use

            model = in_use(cast("ConvSimEncoder | ConvSimForMultitask", model))
        if not isinstance(tokenizer, BatchTokenizer):
            tokenizer = BatchTokenizer.from_transformers(tokenizer, token_limit(tokenizer.model_max_length))
        self.model, self.tokenizer, self.name = cast("AveragingModel | TorchModel", model), tokenizer, name
        largest = max(tokenizer.vocabulary.values())
        if largest >= self.model.config.vocab_size:
            raise ValueError(
                f"the tokenizer's ids go up to {largest}, but the model has embeddings for "
                f"{self.model.config.vocab_size} tokens: use the tokenizer that the model was trained with"
            )

    @classmethod
    def from_pretrained(
        cls,
        folder_or_id: str | os.PathLike,
        device: str | None = None,
        dtype: Dtype = "float32",
        trust_remote_code: bool = False,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | os.PathLike | None = None,
        local_files_only: bool = False,
    ) -> "Encoder":
        """Opens a saved folder, or a repository of the Hub; one that holds two models is a `JointEncoder`.

        Args:
            folder_or_id: Folder of the model and its tokenizer; or, on the Hub, OWNER/NAME or OWNER/NAME@REVISION.
            device: "cpu", "cuda", "cuda:1" …, of a model that computes in PyTorch; by default a GPU if there is one.
            dtype: Its precision: "float32", "bfloat16" (whose vectors have a cosine above 0.999 with those of float32),
                or "auto", which is bfloat16 if the device has instructions for it (`has_fast_bfloat16`). Vectors are
                always returned as float32. Averages of words are computed in float32.
            trust_remote_code: Run the code of a folder or repository whose encoder is not registered here.
            revision: On the Hub: a branch, a tag or a commit; by default the branch main.
            token: On the Hub: a token, or False for none; by default the one that `hf auth login` saved.
            cache_dir: Folder for downloads; by default that of `huggingface_hub`.
            local_files_only: Use the downloads that exist, without a connection.

        Raises:
            ValueError: The model cannot be downloaded, is not a ConvSim model, a part of it is missing or broken, it
                needs code that is not trusted, its tokenizer does not match, or an option is out of range.
        """
        name = os.fspath(folder_or_id)
        if dtype not in get_args(Dtype):
            raise ValueError(f"dtype is {dtype!r}, expected 'float32', 'bfloat16' or 'auto'")
        folder = find_folder(name, revision, token, cache_dir, local_files_only)
        if revision and not Path(name).is_dir():
            name = f"{parse_model_id(name)[0]}@{revision}"
        kind = read_model_type(folder, name)
        try:
            if kind in LABELS:
                encoder = cls(AveragingModel.from_folder(folder), BatchTokenizer.from_folder(folder), name)
            else:
                torch_model = import_extra("modeling_convsim.encoding.torch_model", "adapt", f"a {kind} model")
                model, tokenizer = torch_model.load_model(str(folder), trust_remote_code)
                encoder = cls(torch_model.place(model, device, dtype), tokenizer, name)
            if (share := read_share(folder)) is None:
                return encoder
            second = cls.from_pretrained(folder / SECOND, device, dtype, trust_remote_code)
            return cast(Encoder, JointEncoder(encoder, second, share))
        # The type of the exception depends on the library that reads a broken file; tokenizers raises bare Exceptions.
        except Exception as error:
            raise ValueError(f"cannot open the model {name}: {' '.join(str(error).split())}") from error

    @property
    def description(self) -> str:
        """The kind of model and its number of parameters, for people."""
        return self.model.description

    def digest(self) -> str:
        """SHA-256 of the model's weights, rounded to bfloat16 so that it does not depend on the model's precision.

        The share of a lexical channel, which is in the config, is one of them.
        """
        return self.model.digest()

    @property
    def embedding_size(self) -> int:
        """Dimensions of a sentence embedding."""
        return self.model.config.embedding_size

    def vector_size(self, side: Side) -> int:
        """Dimensions of a vector of a side: `embedding_size`, and those of a lexical channel with a share in scores."""
        config = self.model.config
        return self.embedding_size + (config.lexical_size if side != "input" and config.lexical_share > 0 else 0)

    @property
    def has_query_vectors(self) -> bool:
        """Whether the vectors of the side "query" are others than those of the side "input"."""
        return self._needs_query_head or self.model.prompt("query") != self.model.prompt("input")

    @property
    def uses_context(self) -> bool:
        """Whether earlier turns of a conversation count in the vector of a text."""
        return bool(self.model.config.context_weights)

    @property
    def _needs_query_head(self) -> bool:
        return bool(self.model.config.input_network) or self.model.config.lexical_share > 0

    def knows(self, texts: list[str]) -> np.ndarray:
        """(texts,): whether each text has a token that the tokenizer knows: no blank text, or one of another script."""
        special = self.tokenizer.special_ids
        return np.array([not special.issuperset(ids) for ids in self._tokenize(texts)], dtype=bool)

    def encode(
        self,
        texts: Iterable[str],
        side: Side = "input",
        batch_size: int | None = None,
        show_progress: bool | None = None,
        contexts: Sequence[Sequence[str]] | None = None,
    ) -> np.ndarray:
        """Encodes texts.

        Args:
            texts: Any number of texts. A sequence encoder reads the first `model_max_length` tokens of each, as its
                tokenizer says; what averages words reads all of them.
            side: "input" for L2-normalized sentence embeddings; "response" for the vectors v' of responses, which are
                L2-normalized too if the model has `normalize_response`; "query" for the vectors whose dot product with
                those is the score of a response: the same as "input" unless the model has an `input_network`, a
                `lexical_share`, or a prompt for queries.
            batch_size: Texts per batch, by default that of the model. It affects rounding only.
            show_progress: Show texts per second and the remaining time; by default, what `shows_progress` says.
            contexts: (texts,), the earlier turns of the conversation of each text, the newest first, which count by the
                `context_weights` of the model's config. Not for responses.

        Returns:
            Vectors (texts, embedding_size), float32, in the order of the texts.

        Raises:
            ValueError: An option is out of range, the model lacks the network that `side` needs, or a text is not a
                string of Unicode text; the message gives its position.
            TypeError: `texts` or a context is a single string.
        """
        side, batch_size = self._check_options(texts, side, batch_size)
        show_progress = self.shows_progress if show_progress is None else show_progress
        texts = list(texts)
        if contexts is not None:
            if side == "response":
                raise ValueError("contexts cannot be combined with side='response': expected 'input' or 'query'")
            encode = partial(self.encode, side=side, batch_size=batch_size, show_progress=show_progress)
            return encode_in_context(encode, texts, contexts, self.model.config.context_weights)
        if 0 < len(texts) <= MIN_TEXTS_PER_THREAD:
            return self._encode_window(texts, side, batch_size)
        vectors, rows = np.empty((len(texts), self.vector_size(side)), dtype=np.float32), 0
        for part in self.stream(texts, side, batch_size, show_progress):
            vectors[rows : rows + len(part)] = part
            rows += len(part)
        return vectors

    def stream(
        self, texts: Iterable[str], side: Side = "input", batch_size: int | None = None, show_progress: bool = False
    ) -> Iterator[np.ndarray]:
        """Yields the rows of `encode` in order, a few thousand or fewer at a time: for more texts than fit in memory.

        Texts are read slightly ahead of the vectors. Averages of words are computed by several threads, each of its own
        texts (see `AveragingModel.threads`); on a GPU, texts are tokenized while it encodes the texts before them.

        Args:
            texts: As in `encode`, which also describes the other options and the exceptions.
        """
        side, batch_size = self._check_options(texts, side, batch_size)
        threads = self.model.threads
        windows = split_windows(texts, batch_size * self.model.sorted_batches, threads)
        encode = partial(self._encode_window, side=side, batch_size=batch_size)
        total = operator.length_hint(texts) or None
        return follow(encode_in_threads(encode, windows, threads), total, show_progress)

    def _check_options(self, texts: Iterable[str], side: Side, batch_size: int | None) -> tuple[Side, int]:
        """Raises the exceptions of `encode`; returns the side whose vectors are needed, and the batch size."""
        if side not in get_args(Side):
            raise ValueError(f"side is {side!r}, expected 'input', 'query' or 'response'")
        if side == "query" and not self.has_query_vectors:
            side = "input"
        if (side == "response" or (side == "query" and self._needs_query_head)) and not self.model.has_heads:
            needed = {"response": "response head", "query": "input network or lexical channel"}[side]
            raise ValueError(f"this model is a bare encoder, without the {needed} that side={side!r} needs")
        if batch_size is None:
            batch_size = self.model.batch_size
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        refuse_single_string(texts, "encode([text])")
        return side, batch_size

    def nli_logits(
        self, premises: Iterable[str], hypotheses: Iterable[str], batch_size: int | None = None
    ) -> np.ndarray:
        """Logits (pairs, 3), float32: entailment, neutral, contradiction.

        Raises:
            ValueError: The model has no NLI head, or the numbers of premises and hypotheses differ.
        """
        if not self.model.has_heads:
            raise ValueError("this model is a bare encoder, without the NLI head that nli_logits needs")
        first, second = (self.encode(texts, batch_size=batch_size) for texts in (premises, hypotheses))
        if len(first) != len(second):
            raise ValueError(f"{len(first)} premises and {len(second)} hypotheses, expected the same number of both")
        return self.model.nli_logits(first, second)

    def _encode_window(self, texts: list[str], side: Side, batch_size: int) -> np.ndarray:
        """Tokenizes texts, sorts them by length, and encodes them in batches: (texts, embedding_size)."""
        if prompt := self.model.prompt(side):
            texts = [prompt + text if isinstance(text, str) else text for text in texts]
        token_ids = self._tokenize(texts)
        if len(texts) <= batch_size:
            return self.model.vectors(token_ids, side)
        by_length = np.argsort([len(ids) for ids in token_ids], kind="stable")
        vectors = [
            self.model.vectors([token_ids[index] for index in by_length[start : start + batch_size]], side)
            for start in range(0, len(texts), batch_size)
        ]
        return np.concatenate(vectors)[np.argsort(by_length)]

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        try:
            if not all(isinstance(text, str) for text in texts):  # the tokenizer takes a tuple as a pair of texts
                raise TypeError
            return self.tokenizer(texts)
        except Exception as error:  # tokenizers raises bare Exceptions, too
            for position, text in enumerate(texts):
                check_text(text, position)
            raise ValueError(f"the tokenizer cannot encode the texts ({error}): use a complete tokenizer") from error
