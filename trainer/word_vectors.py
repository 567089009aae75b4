"""Word vectors from the training texts themselves, for the encoder's word table to start from."""

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import xxhash
from gensim.models import Word2Vec
from tqdm import tqdm

from trainer.cache import TokenColumn
from trainer.machine import available_threads

MAX_TOKENS = 100_000_000  # read in one pass; of more text, evenly spread parts
PASS_TOKENS = 60_000_000  # what all passes together read of less text
UNK_TOKEN_ID = 1
# What gensim is told beside sizes and threads; part of the cache's key.
SKIP_GRAM = {"sg": 1, "window": 5, "negative": 5, "sample": 1e-4, "min_count": 5}

logger = logging.getLogger(__name__)


def cached_word_vectors(
    columns: list[TokenColumn], vocab_size: int, size: int, seed: int, cache_dir: Path
) -> np.ndarray:
    """`train_word_vectors`, from the cache where the same texts were there before: (vocab_size, size) float32."""
    distinct = {_digest(column): column for column in columns}  # two tasks may share a text column
    digest = xxhash.xxh3_128(
        f"{vocab_size}/{size}/{seed}/{MAX_TOKENS}/{PASS_TOKENS}/{SKIP_GRAM}/{list(distinct)}".encode()
    )
    path = cache_dir / f"{digest.hexdigest()}.npy"
    if not path.exists():
        cache_dir.mkdir(parents=True, exist_ok=True)
        vectors = train_word_vectors(list(distinct.values()), vocab_size, size, seed, available_threads(), cache_dir)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.npy")
        np.save(temporary, vectors)
        os.replace(temporary, path)
    return np.load(path)


def train_word_vectors(
    columns: list[TokenColumn], vocab_size: int, size: int, seed: int, threads: int, folder: Path
) -> np.ndarray:
    """Skip-gram with negative sampling (Mikolov et al., 2013), centred, each of length one.

    Frequent words point in a common direction, which says nothing of a sentence: the mean is taken out. Lengths of
    skip-gram vectors follow frequency, which the encoder's token weights say already.

    Args:
        columns: the texts.
        vocab_size: rows of the result.
        size: numbers in a vector.
        seed: of the draws; with one thread the same texts give the same vectors.
        threads: how many gensim uses.
        folder: where the texts are written while gensim reads them.

    Returns:
        (vocab_size, size) float32; a row of zeros for a token seen fewer than five times and for `[UNK]`.
    """
    tokens = sum(len(column.ids) for column in columns)
    step = max(1, -(-tokens // MAX_TOKENS))
    epochs = int(np.clip(PASS_TOKENS // max(tokens, 1), 1, 5))
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".texts-", suffix=".txt", encoding="ascii") as file:
        with tqdm(total=tokens // step, delay=1, unit=" tokens", unit_scale=True, desc="word vectors: texts") as bar:
            for text in _texts(columns, step):
                file.write(" ".join(map(str, text)) + "\n")
                bar.update(len(text))
        file.flush()
        progress = _Progress(epochs)
        gensim_logger = logging.getLogger("gensim.models.word2vec")
        level, propagates = gensim_logger.level, gensim_logger.propagate
        gensim_logger.addHandler(progress)
        gensim_logger.setLevel(logging.INFO)
        gensim_logger.propagate = False
        try:
            model = Word2Vec(
                corpus_file=file.name, vector_size=size, seed=seed, workers=threads, epochs=epochs, **SKIP_GRAM
            )
        finally:
            gensim_logger.removeHandler(progress)
            gensim_logger.setLevel(level)
            gensim_logger.propagate = propagates
            progress.bar.close()
    vectors = np.zeros((vocab_size, size), dtype=np.float32)
    found = np.array([int(word) for word in model.wv.index_to_key])
    centred = model.wv.vectors - model.wv.vectors.mean(axis=0)
    vectors[found] = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    vectors[UNK_TOKEN_ID] = 0
    logger.info("word vectors for %d of %d tokens, from %d passes over %d", len(found), vocab_size, epochs, tokens)
    return vectors


def _digest(column: TokenColumn) -> str:
    digest = xxhash.xxh3_128(column.ids.tobytes())
    digest.update(column.offsets.tobytes())
    return digest.hexdigest()


def _texts(columns: Iterable[TokenColumn], step: int) -> Iterator[list[int]]:
    """Every `step`-th text as its token ids."""
    for column in columns:
        for start, end in zip(column.offsets[:-1:step].tolist(), column.offsets[1::step].tolist(), strict=True):
            yield column.ids[start:end].tolist()


class _Progress(logging.Handler):
    """Makes a progress bar of what gensim logs."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        bar_format = "{l_bar}{bar}| {elapsed}<{remaining}"
        self.bar = tqdm(total=epochs, delay=1, desc="word vectors", bar_format=bar_format)

    def emit(self, record: logging.LogRecord) -> None:
        """Move the bar to where a record of progress says that training is."""
        if "PROGRESS" in str(record.msg) and isinstance(record.args, tuple):
            epoch, percent, *_ = record.args
            self.bar.update(max(0.0, float(str(epoch)) + float(str(percent)) / 100 - self.bar.n))
