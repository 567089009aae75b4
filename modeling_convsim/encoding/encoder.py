"""`Encoder`: a saved model and its tokenizer, which encode texts as vectors."""

import copy
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from tqdm import tqdm

from modeling_convsim.encoding.batch_encoder import BatchEncoder, Side
from modeling_convsim.encoding.batch_tokenizer import TextError, refuse_single_string
from modeling_convsim.encoding.context import encode_in_context
from modeling_convsim.encoding.loading import (
    check_model_files,
    download_model,
    has_fast_bfloat16,
    load_model,
    parse_model_id,
)
from modeling_convsim.encoding.parallel import (
    MIN_TEXTS_PER_WORKER,
    encode_in_processes,
    encode_in_threads,
    split_windows,
)

Dtype = Literal["float32", "bfloat16", "auto"]

# Batches that a worker takes at a time. Encoders that pad take many and sort them by length, so that there is little
# padding; for the others, one batch at a time keeps token ids and sums in the processor's cache.
SORTED_BATCHES = 16


class Encoder(BatchEncoder):
    """A saved model and its tokenizer, which encode texts as vectors."""

    @classmethod
    def from_pretrained(
        cls,
        folder_or_id: str | os.PathLike,
        device: str | torch.device | None = None,
        dtype: Dtype = "float32",
        truncate_dim: int | None = None,
        trust_remote_code: bool = False,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        cache_dir: str | os.PathLike | None = None,
        local_files_only: bool = False,
    ) -> "Encoder":
        """Opens a saved folder, or a repository of the Hub.

        Args:
            folder_or_id: Folder of the model and its tokenizer; or, on the Hub, OWNER/NAME or OWNER/NAME@REVISION.
            device: "cpu", "cuda", "cuda:1" …; by default a GPU if there is one.
            dtype: Precision of the model: "float32", "bfloat16" (whose vectors have a cosine above 0.999 with those of
                float32), or "auto", which is bfloat16 if the device has instructions for it (`has_fast_bfloat16`).
                Vectors are always returned as float32.
            truncate_dim: Truncate vectors to this many dimensions, from 1 to the model's `embedding_size`.
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
        folder = Path(name)
        if not folder.is_dir():
            model_id, named_revision = parse_model_id(name)
            try:
                folder = download_model(
                    model_id, revision or named_revision, token, cast(Path | None, cache_dir), local_files_only
                )
            except ValueError as error:
                raise ValueError(f"cannot open the model {name}: {error}") from error
            if revision:
                name = f"{model_id}@{revision}"
        check_model_files(folder, name)
        try:
            model, tokenizer = load_model(str(folder), trust_remote_code)
            model.config.name_or_path = model.name_or_path = name
            model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))  # type: ignore[arg-type]
            if dtype == "bfloat16" or (dtype == "auto" and has_fast_bfloat16(model.device)[0]):
                model.to(torch.bfloat16)  # type: ignore[arg-type]
            return cls(model, tokenizer, truncate_dim)
        # The type of the exception depends on the library that reads a broken file; tokenizers raises bare Exceptions.
        except Exception as error:
            raise ValueError(f"cannot open the model {name}: {' '.join(str(error).split())}") from error

    def encode(
        self,
        texts: Iterable[str],
        side: Side = "input",
        batch_size: int | None = None,
        show_progress: bool = False,
        convert_to_tensor: bool = False,
        processes: int = 1,
        contexts: Sequence[Sequence[str]] | None = None,
    ) -> Any:
        """Encodes texts.

        Args:
            texts: Any number of texts. A sequence encoder reads the first `model_max_length` tokens of each, as its
                tokenizer says; what averages words reads all of them.
            side: "input" for L2-normalized sentence embeddings; "response" for the vectors v' of responses, which are
                L2-normalized too if the model has `normalize_response`; "query" for the vectors whose dot product with
                those is the score of a response: the same as "input" unless the model has an `input_network`, a
                `lexical_share`, or a prompt for queries.
            batch_size: Texts per batch; by default 128 if the encoder pads batches and computes on a CPU, otherwise
                1024. It affects rounding only.
            show_progress: Show texts per second and the remaining time.
            convert_to_tensor: Return a `torch.Tensor` instead of a `numpy.ndarray`.
            processes: As in `stream`.
            contexts: (texts,), the earlier turns of the conversation of each text, the newest first, which count by the
                `context_weights` of the model's config. Not for responses.

        Returns:
            Vectors (texts, embedding_size), float32, in the order of the texts: an array, or a tensor on the CPU.

        Raises:
            ValueError: An option is out of range, the model lacks the network that `side` needs, or a text is not a
                string of Unicode text; the message gives its position.
            TypeError: `texts` or a context is a single string.
        """
        side, batch_size = self._check_options(texts, side, batch_size, processes)
        if contexts is not None:
            if side == "response":
                raise ValueError("contexts are those of texts that are answered, but side is 'response'")
            encode = partial(
                self.encode, side=side, batch_size=batch_size, show_progress=show_progress, processes=processes
            )
            vectors = encode_in_context(encode, list(texts), contexts, self.model.config.context_weights)
            return torch.from_numpy(vectors) if convert_to_tensor else vectors
        size, count = self.vector_size(side), _length(texts)
        if type(texts) is list and 0 < len(texts) <= MIN_TEXTS_PER_WORKER and processes == 1:
            vectors = self._encode_window(texts, side, batch_size)  # without threads and a progress bar
            return torch.from_numpy(vectors) if convert_to_tensor else vectors
        parts = self._stream(texts, side, batch_size, show_progress, processes)
        if count is None:
            vectors = np.concatenate([np.empty((0, size), dtype=np.float32), *parts])
        else:
            vectors, rows = np.empty((count, size), dtype=np.float32), 0
            for part in parts:
                vectors[rows : rows + len(part)] = part[: count - rows]
                rows += len(part)
            if rows != count:
                raise ValueError(f"len(texts) is {count}, but it yields {rows} texts, expected as many")
        return torch.from_numpy(vectors) if convert_to_tensor else vectors

    def stream(
        self,
        texts: Iterable[str],
        side: Side = "input",
        batch_size: int | None = None,
        show_progress: bool = False,
        processes: int = 1,
    ) -> Iterator[np.ndarray]:
        """Yields the rows of `encode` in order, a few thousand or fewer at a time: for more texts than fit in memory.

        Texts are read slightly ahead of the vectors. On a CPU, every thread that torch may use tokenizes and encodes
        its own texts; on a GPU, texts are tokenized while it encodes the texts before them.

        Args:
            texts: As in `encode`, which also describes the other options and the exceptions.
            processes: Number of processes. With more than 1, each has its own GPU if there are several, or its share of
                the threads on a CPU. Starting one takes seconds, and a script that starts them needs the usual
                `if __name__ == "__main__":`.
        """
        side, batch_size = self._check_options(texts, side, batch_size, processes)
        return self._stream(texts, side, batch_size, show_progress, processes)

    def _check_options(
        self, texts: Iterable[str], side: Side, batch_size: int | None, processes: int
    ) -> tuple[Side, int]:
        """Raises the exceptions of `encode`; returns the side whose vectors are needed, and the batch size."""
        if side not in get_args(Side):
            raise ValueError(f"side is {side!r}, expected 'input', 'query' or 'response'")
        if side == "query" and not self.has_query_vectors:
            side = "input"
        if (side == "response" or (side == "query" and self._needs_query_head)) and not self._is_multitask:
            needed = {"response": "response head", "query": "input network or lexical channel"}[side]
            raise ValueError(f"this model is a bare encoder, without the {needed} that side={side!r} needs")
        if batch_size is None:
            batch_size = 128 if self._pads_batches and self.model.device.type == "cpu" else 1024
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        if processes < 1:
            raise ValueError(f"processes is {processes}, expected 1 or more")
        refuse_single_string(texts, "encode([text])")
        return side, batch_size

    def _stream(
        self, texts: Iterable[str], side: Side, batch_size: int, show_progress: bool, processes: int
    ) -> Iterator[np.ndarray]:
        if processes > 1:
            make_encoder = partial(Encoder, tokenizer=self.tokenizer, truncate_dim=self.truncate_dim)
            windows = split_windows(texts, SORTED_BATCHES * batch_size, processes)
            parts = encode_in_processes(make_encoder, self.model, windows, (side, batch_size), processes)
        else:
            on_cpu = self.model.device.type == "cpu"
            threads = torch.get_num_threads() if on_cpu else 1
            windows = split_windows(texts, batch_size * (SORTED_BATCHES if self._pads_batches else 1), threads)
            if on_cpu:
                encode = partial(self._encode_window, side=side, batch_size=batch_size)
                parts = encode_in_threads(encode, windows, threads)
            else:
                parts = self._encode_ahead(windows, side, batch_size)
        rows = 0
        with tqdm(
            total=_length(texts), desc="encoding", delay=1, unit="text", unit_scale=True, disable=not show_progress
        ) as progress:
            try:
                for vectors in parts:
                    rows += len(vectors)
                    progress.update(len(vectors))
                    yield vectors
            except TextError as error:  # its position is counted in its window
                raise TextError(rows + error.position, error.reason) from None

    @torch.inference_mode()
    def nli_logits(
        self, premises: Iterable[str], hypotheses: Iterable[str], batch_size: int | None = None
    ) -> np.ndarray:
        """Logits (pairs, 3), float32, from embeddings that are not truncated: entailment, neutral, contradiction.

        Raises:
            ValueError: The model has no NLI head, or the numbers of premises and hypotheses differ.
        """
        if not self._is_multitask:
            raise ValueError("this model is a bare encoder, without the NLI head that nli_logits needs")
        untruncated = copy.copy(self)
        untruncated.truncate_dim = None
        first, second = (
            torch.from_numpy(untruncated.encode(texts, batch_size=batch_size)).to(self.model.device, self.model.dtype)
            for texts in (premises, hypotheses)
        )
        if len(first) != len(second):
            raise ValueError(f"{len(first)} premises and {len(second)} hypotheses, expected the same number of both")
        return self.model.nli_head(first, second).float().cpu().numpy()


def _length(texts: Iterable[str]) -> int | None:
    """Number of texts, if it is known."""
    try:
        return len(texts)  # type: ignore[arg-type]
    except TypeError:  # also for tqdm(generator), which has __len__
        return None
