"""Token ids, cached in memory-mapped files, so that a training step only copies them."""

import itertools
import json
import logging
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash
from datasets import Dataset
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer
from trainer.data.cached_arrays import digest_texts, not_writable, temporary_name
from trainer.hardware import available_threads

_CHUNK = 10_000
_TEXTS_PER_CALL = 1000
_FORMAT = "4"  # part of the key: increase it when the contents of the files change
_MANIFEST = "manifest.json"  # size and digest of every other file of an entry

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
    max_tokens: int,
    show_progress: bool = True,
) -> dict[str, TokenColumn]:
    """Return the token ids of text columns, from the cache if it has them.

    The cache key has the tokenizer, the texts and `max_tokens`, so that a change of any of them creates a new entry.
    An entry is built under a temporary name and renamed when it is complete: if two runs build it at the same time,
    both read the one that was renamed first. An entry whose files differ from its manifest is built again.

    Returns:
        Column name -> token ids.

    Raises:
        InputError: the cache cannot be written.
    """
    rules = f"{tokenizer.backend_tokenizer.to_str()}/{tokenizer.split_special_tokens}/{max_tokens}/{_FORMAT}".encode()
    columns_of_ids = {}
    for column in columns:
        digest = xxhash.xxh3_128(rules)
        for texts in _chunks(dataset, column):
            digest_texts(digest, texts)
        folder = cache_dir / digest.hexdigest()
        if folder.exists() and (damage := _damage(folder)):
            logger.warning("%s: damaged (%s); its texts are tokenized again", folder, damage)
            shutil.rmtree(folder)
        if not folder.exists():
            _build(dataset, column, tokenizer, folder, max_tokens, show_progress)
        columns_of_ids[column] = _open(folder)
    return columns_of_ids


def _chunks(dataset: Dataset, column: str) -> Iterator[list[str]]:
    texts = dataset.select_columns([column])
    for start in range(0, len(texts), _CHUNK):
        yield texts[start : start + _CHUNK][column]


def _open(folder: Path) -> TokenColumn:
    return TokenColumn(**{path.stem: _map(path) for path in folder.iterdir() if path.name != _MANIFEST})


def _map(path: Path) -> np.ndarray:
    """Map a file whose suffix is the type of its values."""
    dtype = path.suffix[1:]
    # A plain array, because every access to a `np.memmap` costs microseconds. An empty file cannot be mapped.
    return np.asarray(np.memmap(path, dtype, "r")) if path.stat().st_size else np.zeros(0, dtype)


def _damage(folder: Path) -> str | None:
    """Return how the files of an entry differ from its manifest; None if they do not."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        for name, expected in manifest.items():
            if (found := _fingerprint(folder / name)) != expected:
                return f"{name} is {found}, expected {expected}"
        return None if len(manifest) == 3 else f"{_MANIFEST} names {len(manifest)} files, expected 3"
    except (OSError, ValueError, AttributeError) as error:
        return str(error)


def _fingerprint(path: Path) -> str:
    size = path.stat().st_size
    content = np.memmap(path, mode="r").data if size else b""  # an empty file cannot be mapped
    return f"{size} bytes, {xxhash.xxh3_128_hexdigest(content)}"


def _build(
    dataset: Dataset,
    column: str,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    max_tokens: int,
    show_progress: bool,
) -> None:
    temporary = temporary_name(folder)
    tokenize = BatchTokenizer(tokenizer, max_tokens)
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
        temporary.mkdir(parents=True)
        with (
            progress,
            ThreadPoolExecutor(available_threads()) as pool,
            (temporary / f"ids.{dtype.name}").open("wb") as ids_file,
            (temporary / "offsets.int64").open("wb") as offsets_file,
            (temporary / "keys.int64").open("wb") as keys_file,
        ):
            # Not with tofile, which does not notice when a full disk takes all but the last bytes.
            offsets_file.write(np.zeros(1, np.int64).data)
            for texts in _chunks(dataset, column):
                parts = (texts[start : start + _TEXTS_PER_CALL] for start in range(0, len(texts), _TEXTS_PER_CALL))
                ids = list(itertools.chain.from_iterable(pool.map(tokenize, parts)))
                ids_file.write(np.fromiter(itertools.chain.from_iterable(ids), dtype=dtype).data)
                offsets = end + np.cumsum(np.fromiter(map(len, ids), np.int64, count=len(ids)))
                offsets_file.write(offsets.data)
                end = int(offsets[-1])
                keys = (xxhash.xxh3_64_intdigest(text.encode()) >> 1 for text in texts)
                keys_file.write(np.fromiter(keys, np.int64, count=len(texts)).data)
                progress.update(len(texts))
        manifest = {path.name: _fingerprint(path) for path in temporary.iterdir()}
        (temporary / _MANIFEST).write_text(json.dumps(manifest))
        temporary.rename(folder)
    except OSError as error:
        if not folder.exists():  # else another run was faster
            raise not_writable(folder, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
