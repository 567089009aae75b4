"""Cached embeddings by a teacher: of training texts, for the task distillation, and of tokens, as word vectors."""

import hashlib
import logging
from pathlib import Path

import numpy as np
import torch
import xxhash
from datasets import Dataset
from huggingface_hub import hf_hub_download
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim.encoding.hardware import has_fast_bfloat16
from trainer.data.cached_arrays import digest_texts, read_array, write_array
from trainer.data.datasets import RunData, training_text_columns
from trainer.encoders.loading import SentenceTransformerEncoder, installed_copy, load_encoder
from trainer.encoders.protocol import SentenceEncoder

CHUNK = 20_000  # number of texts per cache file

logger = logging.getLogger(__name__)


def texts_to_distill(data: RunData, count: int) -> Dataset:
    """Select about `count` distinct training texts (column `text`), evenly spaced in each training dataset.

    Datasets are weighted by the square root of their size, so that the large ones do not displace the others.
    """
    roots = {name: len(rows) ** 0.5 for name, rows in data.training.items()}
    texts: dict[str, None] = {}
    for name, columns in training_text_columns(data).items():
        rows = data.training[name]
        size = max(1, round(count * roots[name] / sum(roots.values()) / len(columns)))
        sample = rows.select(np.unique(np.linspace(0, len(rows) - 1, min(size, len(rows)), dtype=np.int64)))
        texts.update(dict.fromkeys(text for column in columns for text in sample[column] if text))
    return Dataset.from_dict({"text": list(texts)})


def teacher_vectors(teacher: str, texts: Dataset, cache_dir: Path) -> np.ndarray:
    """Return L2-normalized embeddings (texts, dimensions), float16, computed once and cached.

    Args:
        teacher: a folder or the Hub id of a SentenceTransformer, or of a ConvSim model.
        texts: column `text`.
        cache_dir: the cache; its key has the teacher's content, its precision and the texts. After an interruption,
            encoding resumes after the last `CHUNK`.

    Raises:
        InputError: the teacher cannot be loaded, or its embeddings have values that are not finite.
    """
    dtype = _dtype()
    digest = xxhash.xxh3_128(f"{teacher_content(teacher)}/{dtype}/{CHUNK}".encode())
    digest_texts(digest, texts["text"][:])
    folder = cache_dir / f"teacher-{digest.hexdigest()}"
    encoder = None
    parts = []
    for start in range(0, len(texts), CHUNK):
        path = folder / f"{start}.npz"
        vectors = read_array(path)
        if vectors is None:
            encoder = encoder or _load(teacher, dtype)
            logger.info("teacher %s: texts %d to %d of %d", teacher, start, min(start + CHUNK, len(texts)), len(texts))
            vectors = encoder.encode(texts[start : start + CHUNK]["text"])
            if not np.isfinite(vectors).all():
                raise InputError(
                    f"{teacher}: the teacher's embeddings have values that are not finite; use another teacher"
                )
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            vectors = vectors.astype(np.float16)
            write_array(path, vectors)
        parts.append(vectors)
    return np.concatenate(parts)


def embed_tokens(teacher: str, tokenizer: PreTrainedTokenizerFast, vocab_size: int, cache_dir: Path) -> np.ndarray:
    """Return word vectors for a tokenizer: a teacher's embeddings of its tokens, each one as a text (as in model2vec).

    The mean is subtracted, and they are L2-normalized, like those of `skip_gram`.

    Args:
        teacher: the folder or the Hub id of a SentenceTransformer.
        tokenizer: the tokenizer. A piece of a word is embedded without the prefix that marks it, such as `##`.
        vocab_size: number of rows of the result.
        cache_dir: as for `teacher_vectors`.

    Returns:
        (vocab_size, dimensions of the teacher) float32; zeros for special tokens, such as `[UNK]`.

    Raises:
        InputError: as `teacher_vectors`.
    """
    special = set(tokenizer.all_special_ids)
    prefix = getattr(tokenizer.backend_tokenizer.model, "continuing_subword_prefix", None) or ""
    texts = {
        token_id: tokenizer.convert_tokens_to_string([token]).removeprefix(prefix) or token
        for token, token_id in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        if token_id not in special
    }
    embeddings = teacher_vectors(teacher, Dataset.from_dict({"text": list(texts.values())}), cache_dir)
    centered = embeddings.astype(np.float32) - embeddings.mean(axis=0, dtype=np.float32)
    vectors = np.zeros((vocab_size, centered.shape[1]), dtype=np.float32)
    vectors[list(texts)] = centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-12)
    return vectors


def teacher_content(teacher: str) -> str:
    """Return what identifies the teacher's content: a digest of its folder's files, or its commit on the Hub.

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
    """Return bfloat16 if the device has instructions for it: the teacher is slow, and cosines change by thousandths."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.bfloat16 if has_fast_bfloat16(device)[0] else torch.float32


def _load(teacher: str, dtype: torch.dtype) -> SentenceEncoder:
    encoder = load_encoder(teacher)
    if isinstance(encoder, SentenceTransformerEncoder):
        encoder.model.to(dtype)
    return encoder
