"""`BatchEncoder`: a model and its tokenizer, which encode texts that fit in memory, batch by batch."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer, TextError, check_text, token_limit
from modeling_convsim.modeling_base import ConvSimEncoder, copy_to, normalize
from modeling_convsim.modeling_heads import ConvSimForMultitask

Side = Literal["input", "query", "response"]


class BatchEncoder:
    """A model and its tokenizer: the sizes of its vectors, and how a window of texts is encoded."""

    def __init__(
        self,
        model: ConvSimEncoder | ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        truncate_dim: int | None = None,
    ) -> None:
        """Combines a model and its tokenizer.

        Args:
            model: An encoder, or a multitask model; it is set to evaluation mode.
            tokenizer: The tokenizer that the model was trained with.
            truncate_dim: Truncate vectors to this many dimensions, for Matryoshka embeddings (models trained with
                `matryoshka_dims`); from 1 to the model's `embedding_size`, the default. Truncated vectors are rescaled
                to their original norm, so that sentence embeddings stay L2-normalized. The exception is vectors for
                scoring (sides "query" and "response") of a model without `normalize_response`: their norms are learned,
                so they are not rescaled, as in training.

        Raises:
            ValueError: The tokenizer has ids without an embedding, or `truncate_dim` is out of range.
        """
        largest = max(tokenizer.get_vocab().values())
        if largest >= model.config.vocab_size:
            raise ValueError(
                f"the tokenizer's ids go up to {largest}, but the model has embeddings for {model.config.vocab_size} "
                "tokens: use the tokenizer that the model was trained with"
            )
        size = model.config.embedding_size
        if truncate_dim is not None and not 1 <= truncate_dim <= size:
            raise ValueError(f"truncate_dim is {truncate_dim}, expected 1 to {size}, the model's embedding_size")
        self.truncate_dim = truncate_dim
        self.model = model.eval()
        self.tokenizer = tokenizer
        self._batch_tokenizer = BatchTokenizer(tokenizer, token_limit(tokenizer))

    @property
    def embedding_size(self) -> int:
        """Dimensions of a vector: `truncate_dim`, or the model's `embedding_size`."""
        return self.truncate_dim or self.model.config.embedding_size

    def vector_size(self, side: Side) -> int:
        """Dimensions of a vector of a side: `embedding_size`, and those of a lexical channel with a share in scores."""
        config = self.model.config
        has_channel = side != "input" and config.lexical_share > 0 and not self.truncate_dim
        return self.embedding_size + (config.lexical_size if has_channel else 0)

    @property
    def has_query_vectors(self) -> bool:
        """Whether the vectors of the side "query" are others than those of the side "input"."""
        config = self.model.config
        return self._needs_query_head or config.prompt("query") != config.prompt("input")

    @property
    def uses_context(self) -> bool:
        """Whether earlier turns of a conversation count in the vector of a text."""
        return bool(self.model.config.context_weights)

    @property
    def _needs_query_head(self) -> bool:
        return self.model.config.input_network or self.model.config.lexical_share > 0

    def knows(self, texts: list[str]) -> np.ndarray:
        """(texts,): whether each text has a token that the tokenizer knows: no blank text, or one of another script."""
        special = set(self.tokenizer.all_special_ids)
        return np.array([not special.issuperset(ids) for ids in self._tokenize(texts)], dtype=bool)

    @property
    def _is_multitask(self) -> bool:
        # Not by its class, which is another one if a model's own code defines it.
        return hasattr(self.model, "response_head")

    @property
    def _pads_batches(self) -> bool:
        return (self.model.encoder if self._is_multitask else self.model).pads_batches

    def _encode_window(self, texts: list[str], side: Side, batch_size: int) -> np.ndarray:
        """Tokenizes texts, sorts them by length, and encodes them in batches: (texts, embedding_size)."""
        return self._start_window(texts, side, batch_size).cpu().numpy()

    def _encode_ahead(self, windows: Iterable[list[str]], side: Side, batch_size: int) -> Iterator[np.ndarray]:
        """Yields the vectors of each window; a GPU computes them while the next window is tokenized."""
        started: list[torch.Tensor] = []
        for window in windows:
            try:
                started.append(self._start_window(window, side, batch_size))
            except TextError:  # its position is counted from the last window that was yielded
                yield from (vectors.cpu().numpy() for vectors in started)
                raise
            if len(started) == 2:
                yield started.pop(0).cpu().numpy()
        yield from (vectors.cpu().numpy() for vectors in started)

    @torch.inference_mode()
    def _start_window(self, texts: list[str], side: Side, batch_size: int) -> torch.Tensor:
        """`_encode_window` without waiting for a GPU."""
        if prompt := self.model.config.prompt(side):
            texts = [prompt + text if isinstance(text, str) else text for text in texts]
        token_ids = self._tokenize(texts)
        if len(texts) <= batch_size:
            return self._encode_batch(token_ids, side)
        by_length = np.argsort([len(ids) for ids in token_ids], kind="stable")
        vectors = [
            self._encode_batch([token_ids[index] for index in by_length[start : start + batch_size]], side)
            for start in range(0, len(texts), batch_size)
        ]
        original_order = copy_to(torch.from_numpy(np.argsort(by_length)), self.model.device)
        return torch.cat(vectors)[original_order]

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        try:
            if not all(isinstance(text, str) for text in texts):  # the tokenizer takes a tuple as a pair of texts
                raise TypeError
            return self._batch_tokenizer(texts)
        except Exception as error:  # tokenizers raises bare Exceptions, too
            for position, text in enumerate(texts):
                check_text(text, position)
            raise ValueError(f"the tokenizer cannot encode the texts ({error}): use a complete tokenizer") from error

    def _encode_batch(self, batch: list[list[int]], side: Side) -> torch.Tensor:
        """Packs token ids and encodes them: (batch, embedding_size), float32, on the model's device."""
        lengths = np.fromiter(map(len, batch), np.int64, count=len(batch))
        cu_seqlens = np.concatenate([[0], lengths.cumsum()])  # (batch + 1,)
        input_ids = np.fromiter(chain.from_iterable(batch), np.int64, count=cu_seqlens[-1])  # (total_tokens,)
        packed = {
            "input_ids": copy_to(torch.from_numpy(input_ids), self.model.device),
            "cu_seqlens": torch.from_numpy(cu_seqlens),
        }
        encoder = self.model.encoder if self._is_multitask else self.model
        vectors = encoder(**packed).pooler_output
        if side == "response":
            vectors = self.model.response_vectors(vectors, **packed)
        elif side == "query" and self._needs_query_head:
            vectors = self.model.query_vectors(vectors, **packed)
        return self._truncate(self._restore_norms(vectors, side), side)

    def _restore_norms(self, vectors: torch.Tensor, side: Side) -> torch.Tensor:
        """Converts vectors to float32, with the norms that half precision rounds."""
        is_half = vectors.dtype in (torch.float16, torch.bfloat16)
        vectors = vectors.float()
        if not is_half or not (side == "input" or self.model.config.normalize_response):
            return vectors
        return normalize(vectors)

    def _truncate(self, vectors: torch.Tensor, side: Side) -> torch.Tensor:
        """Truncates vectors to (batch, embedding_size), as the Matryoshka loss of `trainer.tasks` does."""
        if self.truncate_dim is None:
            return vectors
        truncated = vectors[:, : self.truncate_dim]
        if side == "input" or self.model.config.normalize_response:
            return normalize(truncated) * torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        return truncated.contiguous()  # a view would keep the full vectors in memory
