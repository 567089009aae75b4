"""The cached embeddings of training texts by the teacher of the task distillation."""

import logging
from pathlib import Path

import numpy as np
import torch
import xxhash
from datasets import Dataset

from data_scripts.write.files import make_folder, new_file
from modeling_convsim.encoding.hardware import has_fast_bfloat16
from trainer.data.datasets import RunData, training_text_columns
from trainer.encoders.loading import SentenceTransformerEncoder, load_encoder
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
        cache_dir: the cache; its key has the teacher's name, its precision and the texts. After an interruption,
            encoding resumes after the last `CHUNK`.

    Raises:
        InputError: the teacher cannot be loaded.
    """
    dtype = _dtype()
    digest = xxhash.xxh3_128(f"{teacher}\x00{dtype}".encode())
    for text in texts["text"]:
        digest.update(f"{text}\x00".encode())
    folder = cache_dir / f"teacher-{digest.hexdigest()}"
    make_folder(folder)
    encoder = None
    parts = []
    for start in range(0, len(texts), CHUNK):
        path = folder / f"{start}.npy"
        if not path.exists():
            encoder = encoder or _load(teacher, dtype)
            logger.info("teacher %s: texts %d to %d of %d", teacher, start, min(start + CHUNK, len(texts)), len(texts))
            vectors = encoder.encode(texts[start : start + CHUNK]["text"])
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            with new_file(path) as temporary, temporary.open("wb") as file:
                np.save(file, vectors.astype(np.float16))
        parts.append(np.load(path))
    return np.concatenate(parts)


def _dtype() -> torch.dtype:
    """Return bfloat16 if the device has instructions for it: the teacher is slow, and cosines change by thousandths."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.bfloat16 if has_fast_bfloat16(device)[0] else torch.float32


def _load(teacher: str, dtype: torch.dtype) -> SentenceEncoder:
    encoder = load_encoder(teacher)
    if isinstance(encoder, SentenceTransformerEncoder):
        encoder.model.to(dtype)
    return encoder
