"""Caches: token ids in memory-mapped files, which a training step only copies, and arrays.

Files are written under a temporary name.
"""

import itertools
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from datasets import Dataset
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer
from modeling_convsim.encoding.text_files import write_arrays
from modeling_convsim.files.storage import make_folder, new_file, report_write_errors, temporary_path
from trainer.processes import available_threads

_CHUNK = 10_000
_TEXTS_PER_CALL = 1000
_FORMAT = "4"  # part of the key: increase it when the contents of the files change

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenColumn:
    """The token ids of one text column.

    Attributes:
        ids: (tokens,) the concatenated texts; text i is `ids[offsets[i]:offsets[i + 1]]`.
        offsets: (texts + 1,).
        keys: (texts,) equal for equal texts.
    """

    ids: np.ndarray
    offsets: np.ndarray
    keys: np.ndarray

    def __len__(self) -> int:
        return len(self.keys)

    def gather(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts of `rows` in packed form: ids (tokens,) int64 and cu_seqlens (rows + 1,) int64."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        cu_seqlens = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths, out=cu_seqlens[1:])
        # The position of each token is its text's start in the file plus its index in the text.
        positions = np.arange(cu_seqlens[-1]) + np.repeat(starts - cu_seqlens[:-1], lengths)
        return self.ids[positions].astype(np.int64), cu_seqlens


def token_columns(
    dataset: Dataset,
    columns: list[str],
    tokenizer: PreTrainedTokenizerFast,
    cache_dir: Path,
    max_tokens: int | None,
    show_progress: bool = True,
    prompts: Mapping[str, str] | None = None,
) -> dict[str, TokenColumn]:
    """Return the token ids of text columns, from the cache if it has them.

    The cache key has the tokenizer, the texts and `max_tokens`, so that a change of any of them creates a new entry.
    `prompts` of columns are prepended to their texts.

    An entry is built under a temporary name and renamed when it is complete: if two runs build it at the same time,
    both read the one that was renamed first. An entry with a missing or truncated file is built again.

    Returns:
        Column name -> token ids.

    Raises:
        InputError: the cache cannot be written.
    """
    rules = f"{tokenizer.backend_tokenizer.to_str()}/{tokenizer.split_special_tokens}/{max_tokens}/{_FORMAT}".encode()
    columns_of_ids = {}
    for column in columns:
        digest, prompt = xxhash.xxh3_128(rules), (prompts or {}).get(column, "")
        digest.update(prompt.encode())
        for texts in _chunks(dataset, column):
            digest_texts(digest, texts)
        folder = cache_dir / digest.hexdigest()
        ids = _open(folder) if folder.exists() else None
        if ids is None:
            if folder.exists():
                logger.warning("%s: a file is missing or truncated; tokenizing its texts again", folder)
                shutil.rmtree(folder)
            _build(dataset, column, prompt, tokenizer, folder, max_tokens, show_progress)
            ids = _open(folder)
            assert ids is not None
        columns_of_ids[column] = ids
    return columns_of_ids


def _chunks(dataset: Dataset, column: str) -> Iterator[list[str]]:
    texts = dataset.select_columns([column])
    for start in range(0, len(texts), _CHUNK):
        yield texts[start : start + _CHUNK][column]


def _open(folder: Path) -> TokenColumn | None:
    """Map the files of an entry, whose suffix is the type of their values; None if the entry is incomplete."""
    arrays = {}
    for path in (path for path in folder.iterdir() if path.stem in TokenColumn.__annotations__):
        dtype = np.dtype(path.suffix[1:])
        size = path.stat().st_size // dtype.itemsize
        # A plain array, because every access to a `np.memmap` costs microseconds. An empty file cannot be mapped.
        arrays[path.stem] = np.asarray(np.memmap(path, dtype, "r", shape=(size,))) if size else np.zeros(0, dtype)
    column = TokenColumn(**arrays) if len(arrays) == 3 else None
    if column is None or len(column.offsets) != len(column) + 1 or column.offsets[-1] != len(column.ids):
        return None
    return column


def _build(
    dataset: Dataset,
    column: str,
    prompt: str,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    max_tokens: int | None,
    show_progress: bool,
) -> None:
    temporary = temporary_path(folder)
    make_folder(temporary)
    tokenize = BatchTokenizer.from_transformers(tokenizer, max_tokens)
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.int32)
    progress = tqdm(
        total=len(dataset),
        delay=1,
        unit=" texts",
        unit_scale=True,
        desc=f"tokenizing {column}",
        disable=not show_progress,
    )
    end = 0  # number of tokens so far
    try:
        with (
            report_write_errors(folder, temporary),
            progress,
            ThreadPoolExecutor(available_threads()) as pool,
            (temporary / f"ids.{dtype.name}").open("wb") as ids_file,
            (temporary / "offsets.int64").open("wb") as offsets_file,
            (temporary / "keys.int64").open("wb") as keys_file,
        ):
            # Not with tofile, which does not notice when a full disk takes all but the last bytes.
            offsets_file.write(np.zeros(1, np.int64).data)
            for texts in _chunks(dataset, column):
                complete = [prompt + text for text in texts]
                parts = (complete[start : start + _TEXTS_PER_CALL] for start in range(0, len(texts), _TEXTS_PER_CALL))
                ids = list(itertools.chain.from_iterable(pool.map(tokenize, parts)))
                ids_file.write(np.fromiter(itertools.chain.from_iterable(ids), dtype=dtype).data)
                offsets = end + np.cumsum(np.fromiter(map(len, ids), np.int64, count=len(ids)))
                offsets_file.write(offsets.data)
                end = int(offsets[-1])
                keys = (xxhash.xxh3_64_intdigest(text.encode()) >> 1 for text in texts)
                keys_file.write(np.fromiter(keys, np.int64, count=len(texts)).data)
                progress.update(len(texts))
        with suppress(OSError):  # another run was faster
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array; the file appears once it is complete.

    Raises:
        InputError: the file cannot be written.
    """
    make_folder(path.parent)
    with new_file(path) as temporary:
        write_arrays(temporary, [array])


def digest_texts(digest: xxhash.xxh3_128, texts: Sequence[str]) -> None:
    """Add texts to a digest, with their lengths: the same characters, split in other places, are different texts."""
    encoded = [text.encode() for text in texts]
    digest.update(np.fromiter(map(len, encoded), np.int64, count=len(encoded)).tobytes())
    digest.update(b"".join(encoded))
