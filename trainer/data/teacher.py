"""Cached embeddings of a teacher: of training texts, for distillation, and of tokens, as word vectors."""

import functools
import hashlib
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import xxhash
from datasets import Dataset
from huggingface_hub import hf_hub_download
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding.torch_model import has_fast_bfloat16
from modeling_convsim.files.errors import InputError
from trainer.data.datasets import HASHED_TOGETHER, RunData, training_text_columns
from trainer.data.token_cache import digest_texts, write_array
from trainer.encoders.loading import SentenceTransformerEncoder, installed_copy, load_encoder
from trainer.encoders.protocol import SentenceEncoder

logger = logging.getLogger(__name__)


def sample_rows(data: RunData, count: int, names: Collection[str] | None = None) -> dict[str, Dataset]:
    """Sample rows without empty texts, with about `count` texts, from several training datasets.

    Datasets are weighted by the square root of their size: large ones do not displace the others. The rows of a
    dataset are sorted by a hash of their texts: a smaller sample is always the beginning of a larger one, even if the
    dataset gets more rows.

    Args:
        data: the datasets of a run.
        count: the number of texts.
        names: the names of the datasets in `data.training`; all of them by default.

    Returns:
        Name in `data.training` -> its rows, with only the text columns.
    """
    columns = {name: own for name, own in training_text_columns(data).items() if names is None or name in names}
    roots = {name: len(data.training[name]) ** 0.5 for name in columns}
    samples = {}
    for name, own in columns.items():
        rows = data.training[name].select_columns(own)
        complete, hashes = _hash_complete_rows(rows)
        if not len(complete):
            continue
        size = max(1, round(count * roots[name] / sum(roots.values()) / len(own)))
        samples[name] = rows.select(complete[np.argsort(hashes, kind="stable")[:size]])
    return samples


def _hash_complete_rows(rows: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the rows without empty texts, int64, and hashes of their texts, uint64."""
    complete, hashes = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    start = 0
    for table in rows.with_format("arrow").iter(HASHED_TOGETHER):
        texts = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        selected = [row for row, each in enumerate(texts) if all(each)]
        complete.append(start + np.array(selected, np.int64))
        digests = [xxhash.xxh3_64_intdigest("\t".join(texts[row]).encode()) for row in selected]
        hashes.append(np.array(digests, np.uint64))
        start += len(texts)
    return np.concatenate(complete), np.concatenate(hashes)


def encode_columns(teacher: str, samples: Mapping[str, Dataset], cache_dir: Path) -> dict[str, dict[str, np.ndarray]]:
    """Return the embeddings of the columns of `sample_rows`: name -> column -> as `CachedTeacher.encode`."""
    encoder = CachedTeacher(teacher, cache_dir)
    return {
        name: {column: encoder.encode(rows[column][:]) for column in rows.column_names}
        for name, rows in samples.items()
    }


class CachedTeacher:
    """A teacher that is only loaded if the cache lacks embeddings.

    Args:
        source: the folder or Hub id of a SentenceTransformer or of a ConvSim model.
        cache_dir: the cache, one file per call; the key depends on the teacher's content, its precision and the texts.
    """

    def __init__(self, source: str, cache_dir: Path) -> None:
        self._source, self._dtype = source, _dtype()
        digest = xxhash.xxh3_128(f"{teacher_content(source)}/{self._dtype}".encode())
        self._folder = cache_dir / f"teacher-{digest.hexdigest()}"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return L2-normalized embeddings (texts, dimensions), float16, computed once and cached.

        Raises:
            InputError: the teacher cannot be loaded, or its embeddings contain NaN or infinite values.
        """
        digest = xxhash.xxh3_128()
        digest_texts(digest, texts)
        path = self._folder / f"{digest.hexdigest()}.npy"
        if path.exists():
            return np.load(path, allow_pickle=False)
        vectors = self._encoder.encode(texts)
        if not np.isfinite(vectors).all():
            raise InputError(
                f"{self._source}: the teacher's embeddings contain NaN or infinite values; use another teacher"
            )
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        vectors = vectors.astype(np.float16)
        write_array(path, vectors)
        return vectors

    @functools.cached_property
    def _encoder(self) -> SentenceEncoder:
        encoder = load_encoder(self._source)
        if isinstance(encoder, SentenceTransformerEncoder):
            encoder.model.to(self._dtype)
        return encoder


def embed_tokens(teacher: str, tokenizer: PreTrainedTokenizerFast, vocab_size: int, cache_dir: Path) -> np.ndarray:
    """Return word vectors for a tokenizer: a teacher encodes each token as a text (as in model2vec).

    The vectors are centered and L2-normalized, like those of `skip_gram`.

    Args:
        teacher: the folder or Hub id of a SentenceTransformer.
        tokenizer: the tokenizer. A subword is encoded without its prefix, such as `##`.
        vocab_size: number of rows of the result.
        cache_dir: as for `CachedTeacher`.

    Returns:
        (vocab_size, teacher's dimension) float32; zeros for special tokens, such as `[UNK]`.

    Raises:
        InputError: as `CachedTeacher.encode`.
    """
    special = set(tokenizer.all_special_ids)
    prefix = getattr(tokenizer.backend_tokenizer.model, "continuing_subword_prefix", None) or ""
    texts = {
        token_id: tokenizer.convert_tokens_to_string([token]).removeprefix(prefix) or token
        for token, token_id in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        if token_id not in special
    }
    embeddings = CachedTeacher(teacher, cache_dir).encode(list(texts.values()))
    centered = embeddings.astype(np.float32) - embeddings.mean(axis=0, dtype=np.float32)
    vectors = np.zeros((vocab_size, centered.shape[1]), dtype=np.float32)
    vectors[list(texts)] = centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-12)
    return vectors


def teacher_content(teacher: str) -> str:
    """Return an identifier of the teacher's content: a digest of its folder's files, or its commit on the Hub.

    Raises:
        InputError: the teacher cannot be loaded.
    """
    folder = Path(installed_copy(teacher))
    if not folder.is_dir():
        try:
            # In the local cache, a file is in a folder that is named after its commit.
            return f"{teacher}@{Path(hf_hub_download(teacher, 'config.json')).parent.name}"
        except (OSError, ValueError):
            load_encoder(teacher)  # raises an InputError with the reason
            raise
    digest = xxhash.xxh3_128()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and path.suffix != ".md" and not any(part.startswith(".") for part in name.parts):
            digest.update(f"{name.as_posix()}\x00{path.stat().st_size}\x00".encode())
            with path.open("rb") as file:
                hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def _dtype() -> torch.dtype:
    """Return bfloat16 on a device with instructions for it: it is faster, and cosines change by thousandths."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
