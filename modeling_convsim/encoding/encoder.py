"""Texts to vectors with a saved model: `Encoder`."""

import contextlib
import copy
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import torch
from tqdm import tqdm
from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import LARGE_INTEGER

from modeling_convsim.encoding.hardware import has_fast_bfloat16, use_onednn
from modeling_convsim.modeling_base import ConvSimConfig, ConvSimEncoder, ConvSimForMultitask, normalize

Side = Literal["input", "query", "response"]
Dtype = Literal["float32", "bfloat16", "auto"]
# A worker takes so many batches of texts at a time. Encoders that pad get many, sorted by length, so that padding is
# small; for the others one batch at a time keeps token ids and sums in the processor's cache.
SORTED_BATCHES = 16
WORTH_A_THREAD = 64  # texts: to start a thread takes as long as to encode a few


class Encoder:
    """A saved model with its tokenizer: texts in, vectors out."""

    def __init__(
        self,
        model: ConvSimEncoder | ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        truncate_dim: int | None = None,
    ) -> None:
        """Takes a model, its tokenizer, and how many numbers of each vector are kept.

        Args:
            model: An encoder, or one with its heads.
            tokenizer: That of the model.
            truncate_dim: Every vector is its first so many numbers, for models trained with `matryoshka_dims`; from 1
                to the model's `embedding_size`, by default all. What is left is stretched to the length the vector had,
                so that a sentence embedding has length one; vectors for scoring (sides "query" and "response") whose
                length the model learns, without `normalize_response`, are left as they are, as in training.

        Raises:
            ValueError: The tokenizer gives ids that the model has no embedding for, or `truncate_dim` is out of range.
        """
        largest = max(tokenizer.get_vocab().values())
        if largest >= model.config.vocab_size:
            raise ValueError(
                f"the tokenizer's ids go up to {largest}, but the model has embeddings for {model.config.vocab_size} "
                "tokens: give the tokenizer the model was trained with"
            )
        size = model.config.embedding_size
        if truncate_dim is not None and not 1 <= truncate_dim <= size:
            raise ValueError(f"truncate_dim is {truncate_dim}, expected 1 to {size}, the model's embedding_size")
        self.truncate_dim = truncate_dim
        self.model = model.eval()
        self.tokenizer = tokenizer
        # A copy, for truncation is a setting of the object.
        self._backend = type(tokenizer.backend_tokenizer).from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.no_padding()
        if tokenizer.model_max_length < LARGE_INTEGER:  # else it was saved without a limit
            self._backend.enable_truncation(tokenizer.model_max_length, direction=tokenizer.truncation_side)
        else:
            self._backend.no_truncation()
        # The batched call that adds special tokens is slower even where there are none to add.
        self._adds_tokens = tokenizer.num_special_tokens_to_add() > 0

    @classmethod
    def from_pretrained(
        cls,
        folder_or_id: str | os.PathLike,
        device: str | torch.device | None = None,
        dtype: Dtype = "float32",
        truncate_dim: int | None = None,
    ) -> "Encoder":
        """Opens a saved folder, or a repository of the Hub.

        Args:
            folder_or_id: Where the model and its tokenizer are.
            device: "cpu", "cuda", "cuda:1" …; by default a GPU if there is one.
            dtype: What the model computes in: "float32", "bfloat16" (vectors with a cosine above 0.999 to those of
                float32), or "auto", bfloat16 where `has_fast_bfloat16` says so. Vectors are always returned as
                float32.
            truncate_dim: How many numbers of a vector are kept, from 1 to the model's `embedding_size`.

        Raises:
            ValueError: It is not a ConvSim model, a part of it is missing or broken, its tokenizer does not match, or
                `truncate_dim` is out of range.
        """
        name = os.fspath(folder_or_id)
        if Path(name).is_dir():
            for needed in ("config.json", "model.safetensors", "tokenizer.json"):
                if not (Path(name, needed).is_file() or Path(name, f"{needed}.index.json").is_file()):  # in several
                    raise ValueError(
                        f"{name} holds no {needed}: expected the folder of a saved model and its tokenizer"
                    )
        try:
            model, tokenizer = cls._load(name)
            model.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))  # type: ignore[arg-type]
            if dtype == "bfloat16" or (dtype == "auto" and has_fast_bfloat16(model.device)[0]):
                model.to(torch.bfloat16)  # type: ignore[arg-type]
            elif model.device.type == "cpu":
                use_onednn(model)
            return cls(model, tokenizer, truncate_dim)
        # What a broken file raises depends on the library that reads it; tokenizers raises bare Exceptions.
        except Exception as error:
            source = "" if Path(name).is_dir() else "there is no such folder, and on the Hub: "
            raise ValueError(f"cannot open the model {name}: {source}{' '.join(str(error).split())}") from error

    @staticmethod
    def _load(name: str) -> tuple[ConvSimEncoder | ConvSimForMultitask, PreTrainedTokenizerFast]:
        config = AutoConfig.from_pretrained(name)
        if not isinstance(config, ConvSimConfig):
            raise ValueError(f"its type is {config.model_type!r}, expected one that starts with convsim_")
        is_multitask = any(architecture.endswith("ForMultitask") for architecture in config.architectures or [])
        auto_class = AutoModelForPreTraining if is_multitask else AutoModel
        model, loading = auto_class.from_pretrained(name, config=config, output_loading_info=True)
        if loading["missing_keys"]:
            raise ValueError(f"its weights lack {', '.join(sorted(loading['missing_keys']))}")
        return model, cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(name))

    @property
    def embedding_size(self) -> int:
        """How many numbers a vector has: `truncate_dim`, or those of the model."""
        return self.truncate_dim or self.model.config.embedding_size

    def encode(
        self,
        texts: Iterable[str],
        side: Side = "input",
        batch_size: int | None = None,
        show_progress: bool = False,
        convert_to_tensor: bool = False,
        processes: int = 1,
    ) -> Any:
        """Vectors (n, embedding_size), float32, in the order of the texts: an array, or a tensor on the CPU.

        Args:
            texts: Any number of texts, each cut to the tokenizer's `model_max_length` tokens.
            side: "input" gives sentence embeddings of length one; "response" the vectors v' of replies; "query" the
                vectors that score replies by their dot product: those of "input" unless the model has an
                `input_network`.
            batch_size: Texts encoded together, by default what suits the encoder; no effect but for rounding.
            show_progress: Shows texts per second and the time left.
            convert_to_tensor: Returns a `torch.Tensor` instead of a `numpy.ndarray`.
            processes: As in `stream`.

        Raises:
            ValueError: An option is out of range, or the model lacks the network that `side` needs.
            TypeError: `texts` is one string.
        """
        parts = self.stream(texts, side, batch_size, show_progress, processes)
        size = self.embedding_size
        if isinstance(texts, Sized):
            vectors, row = np.empty((len(texts), size), dtype=np.float32), 0
            for part in parts:
                vectors[row : row + len(part)] = part
                row += len(part)
        else:
            vectors = np.concatenate([np.empty((0, size), dtype=np.float32), *parts])
        return torch.from_numpy(vectors) if convert_to_tensor else vectors

    def stream(
        self,
        texts: Iterable[str],
        side: Side = "input",
        batch_size: int | None = None,
        show_progress: bool = False,
        processes: int = 1,
    ) -> Iterator[np.ndarray]:
        """The rows of `encode`, a few thousand or fewer at a time, in order: for more texts than memory holds.

        Texts are read a little ahead of the vectors that are taken. On a CPU every thread that torch may use takes
        texts of its own through the tokenizer and the model; on a GPU one thread tokenises while another encodes.

        Args:
            texts: As in `encode`, and so are `side`, `batch_size`, `show_progress` and what is raised.
            processes: Above 1, so many processes share the work, each on a GPU of its own where there are several, and
                with its part of the threads on a CPU. Starting one takes seconds; a script that asks for them needs
                the usual `if __name__ == "__main__":`.
        """
        if side not in get_args(Side):
            raise ValueError(f"side is {side!r}, expected 'input', 'query' or 'response'")
        if side == "query" and not self.model.config.input_network:
            side = "input"
        if side != "input" and not isinstance(self.model, ConvSimForMultitask):
            needed = "response head" if side == "response" else "input network"
            raise ValueError(f"this model is a bare encoder, without the {needed} that side={side!r} needs")
        if batch_size is None:
            batch_size = 128 if self._pads else 1024
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected 1 or more")
        if processes < 1:
            raise ValueError(f"processes is {processes}, expected 1 or more")
        if isinstance(texts, str):
            raise TypeError("texts is one string, expected several: encode([text])")
        return self._stream(texts, side, batch_size, show_progress, processes)

    def _stream(
        self, texts: Iterable[str], side: Side, batch_size: int, show_progress: bool, processes: int
    ) -> Iterator[np.ndarray]:
        total = len(texts) if isinstance(texts, Sized) else None
        with tqdm(total=total, delay=1, unit="text", unit_scale=True, disable=not show_progress) as progress:
            if processes > 1:
                parts = self._in_processes(texts, side, batch_size, processes)
            else:
                parts = self._in_threads(texts, side, batch_size)
            for vectors in parts:
                progress.update(len(vectors))
                yield vectors

    def _in_threads(self, texts: Iterable[str], side: Side, batch_size: int) -> Iterator[np.ndarray]:
        threads = torch.get_num_threads() if self.model.device.type == "cpu" else 2
        window = batch_size * (SORTED_BATCHES if self._pads else 1)
        if isinstance(texts, Sized):  # all threads get a part of few texts, too
            window = min(window, max(-(-len(texts) // threads), WORTH_A_THREAD))
        windows = _windows(texts, window)
        encode = partial(self._encode_window, side=side, batch_size=batch_size)
        first = list(islice(windows, 2))
        if threads == 1 or len(first) < 2:
            yield from map(encode, chain(first, windows))
            return
        with (
            _serial_tokenizers(),
            ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as executor,
        ):
            yield from _in_order(executor, encode, chain(first, windows), 2 * threads)

    def _in_processes(self, texts: Iterable[str], side: Side, batch_size: int, processes: int) -> Iterator[np.ndarray]:
        threads = max(torch.get_num_threads() // processes, 1)
        context = torch.multiprocessing.get_context("spawn")
        model = self.model.to("cpu").share_memory() if self.model.device.type == "cpu" else self.model
        counter = context.Value("i", 0)
        with ProcessPoolExecutor(
            processes, context, _start_process, (model, self.tokenizer, self.truncate_dim, counter, threads)
        ) as executor:
            encode = partial(_encode_in_process, side=side, batch_size=batch_size)
            yield from _in_order(executor, encode, _windows(texts, SORTED_BATCHES * batch_size), 2 * processes)

    @torch.inference_mode()
    def nli_logits(
        self, premises: Iterable[str], hypotheses: Iterable[str], batch_size: int | None = None
    ) -> np.ndarray:
        """Logits (n, 3), float32, of each pair, from whole embeddings: entailment, neutral, contradiction.

        Raises:
            ValueError: The model has no inference head, or there are more of one than of the other.
        """
        if not isinstance(self.model, ConvSimForMultitask):
            raise ValueError("this model is a bare encoder, without the inference head that nli_logits needs")
        whole = copy.copy(self)
        whole.truncate_dim = None
        first, second = (
            torch.from_numpy(whole.encode(texts, batch_size=batch_size)).to(self.model.device, self.model.dtype)
            for texts in (premises, hypotheses)
        )
        if len(first) != len(second):
            raise ValueError(f"{len(first)} premises and {len(second)} hypotheses, expected as many of both")
        return self.model.nli_head(first, second).float().cpu().numpy()

    @property
    def _pads(self) -> bool:
        encoder = self.model.encoder if isinstance(self.model, ConvSimForMultitask) else self.model
        return encoder.pads_batches

    @torch.inference_mode()
    def _encode_window(self, texts: list[str], side: Side, batch_size: int) -> np.ndarray:
        """Vectors (texts, embedding_size) of a few texts."""
        encodings = self._backend.encode_batch_fast(texts, add_special_tokens=self._adds_tokens)
        token_ids = [encoding.ids for encoding in encodings]
        if len(texts) <= batch_size:
            return self._embed(token_ids, side)
        vectors = np.empty((len(texts), self.embedding_size), dtype=np.float32)
        by_length = np.argsort([len(ids) for ids in token_ids], kind="stable")
        for start in range(0, len(texts), batch_size):
            order = by_length[start : start + batch_size]
            vectors[order] = self._embed([token_ids[index] for index in order], side)
        return vectors

    def _embed(self, batch: list[list[int]], side: Side) -> np.ndarray:
        """One packed batch of token ids to vectors (batch, embedding_size)."""
        device = self.model.device
        lengths = np.fromiter(map(len, batch), np.int64, count=len(batch))
        cu_seqlens = np.concatenate([[0], lengths.cumsum()])
        input_ids = np.fromiter(chain.from_iterable(batch), np.int64, count=cu_seqlens[-1])
        vectors = self.model(
            torch.from_numpy(input_ids).to(device), cu_seqlens=torch.from_numpy(cu_seqlens).to(device)
        ).pooler_output
        if side == "response":
            vectors = self.model.response_head(vectors)
        elif side == "query":
            vectors = self.model.input_head(vectors)
        return self._truncate(vectors.float(), side).cpu().numpy()

    def _truncate(self, vectors: torch.Tensor, side: Side) -> torch.Tensor:
        """Vectors cut to (batch, embedding_size), as `trainer.tasks` cuts them for the loss at each size."""
        if self.truncate_dim is None:
            return vectors
        first = vectors[:, : self.truncate_dim]
        if side == "input" or self.model.config.normalize_response:
            return normalize(first) * torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        return first.contiguous()  # a view would keep the whole vectors in memory


@contextlib.contextmanager
def _serial_tokenizers() -> Iterator[None]:
    """Every one of our threads has a processor to itself: threads of the tokenizers' own would be in their way."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = before or "false"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


def _windows(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(texts)
    return iter(lambda: list(islice(remaining, size)), [])


def _in_order(
    executor: Executor, encode: Callable[[list[str]], np.ndarray], windows: Iterable[list[str]], ahead: int
) -> Iterator[np.ndarray]:
    """The windows' vectors, in order, with no more than `ahead` windows handed out at a time."""
    waiting: deque[Future] = deque()
    try:
        for window in windows:
            waiting.append(executor.submit(encode, window))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:  # the caller stopped early, or an error did
            future.cancel()


_process_encoder: Encoder  # of a process that `_in_processes` started


def _start_process(
    model: Any, tokenizer: PreTrainedTokenizerFast, truncate_dim: int | None, counter: Any, threads: int
) -> None:
    global _process_encoder
    torch.set_num_threads(threads)
    if model.device.type == "cuda":
        with counter.get_lock():
            number, counter.value = counter.value, counter.value + 1
        model = model.to(f"cuda:{number % torch.cuda.device_count()}")
    _process_encoder = Encoder(model, tokenizer, truncate_dim)


def _encode_in_process(texts: list[str], side: Side, batch_size: int) -> np.ndarray:
    return np.concatenate(list(_process_encoder.stream(texts, side, batch_size)))
