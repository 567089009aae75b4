"""Word vectors from the training texts themselves, for the encoder's word table to start from."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xxhash
from gensim.models import Word2Vec
from tqdm import tqdm

from trainer.cache import TokenColumn
from trainer.machine import available_threads

MAX_TOKENS = 300_000_000  # read in one pass; of more text, evenly spread parts
PASS_TOKENS = 100_000_000  # what all passes together read of less text
UNK_TOKEN_ID = 1
SEED = 0
# What gensim is told beside sizes and threads; part of the cache's key.
SKIP_GRAM = {"sg": 1, "window": 5, "negative": 5, "sample": 1e-4, "min_count": 5}

logger = logging.getLogger(__name__)


def cached_word_vectors(columns: list[TokenColumn], vocab_size: int, size: int, cache_dir: Path) -> np.ndarray:
    """`train_word_vectors`, from the cache where the same texts were there before: (vocab_size, size) float32.

    Like the tokenizer they belong to the texts: runs of any seed share them.
    """
    distinct = {_digest(column): column for column in columns}  # two tasks may share a text column
    digest = xxhash.xxh3_128(
        f"{vocab_size}/{size}/{SEED}/{MAX_TOKENS}/{PASS_TOKENS}/{SKIP_GRAM}/{list(distinct)}".encode()
    )
    path = cache_dir / f"{digest.hexdigest()}.npy"
    if not path.exists():
        cache_dir.mkdir(parents=True, exist_ok=True)
        vectors = train_word_vectors(list(distinct.values()), vocab_size, size, SEED, available_threads())
        temporary = path.with_name(f".{path.name}.{os.getpid()}.npy")
        np.save(temporary, vectors)
        os.replace(temporary, path)
    return np.load(path)


def train_word_vectors(columns: list[TokenColumn], vocab_size: int, size: int, seed: int, threads: int) -> np.ndarray:
    """Skip-gram with negative sampling (Mikolov et al., 2013), centred, each of length one.

    Frequent words point in a common direction, which says nothing of a sentence: the mean is taken out. Lengths of
    skip-gram vectors follow frequency, which the encoder's token weights say already.

    Args:
        columns: the texts.
        vocab_size: rows of the result.
        size: numbers in a vector.
        seed: of the draws; with one thread the same texts give the same vectors.
        threads: how many gensim uses.

    Returns:
        (vocab_size, size) float32; a row of zeros for a token seen fewer than five times and for `[UNK]`.
    """
    tokens = sum(len(column.ids) for column in columns)
    step = max(1, -(-tokens // MAX_TOKENS))
    epochs = int(np.clip(PASS_TOKENS // max(tokens, 1), 1, 5))
    model = Word2Vec(vector_size=size, seed=seed, workers=threads, epochs=epochs, **SKIP_GRAM)
    gensim_logger = logging.getLogger("gensim")
    level = gensim_logger.level
    gensim_logger.setLevel(logging.WARNING)  # it logs its every step
    try:
        with tqdm(total=(1 + epochs) * tokens // step, delay=1, unit=" tokens", unit_scale=True) as bar:
            texts = _Texts(columns, step, bar)
            bar.set_description("word vectors: counting")
            model.build_vocab(texts)
            bar.set_description("word vectors")
            model.train(texts, total_examples=model.corpus_count, epochs=epochs)
    finally:
        gensim_logger.setLevel(level)
    vectors = np.zeros((vocab_size, size), dtype=np.float32)
    found = np.array([int(word) for word in model.wv.index_to_key])
    centred = model.wv.vectors - model.wv.vectors.mean(axis=0)
    vectors[found] = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    vectors[UNK_TOKEN_ID] = 0
    logger.info(
        "word vectors for %d of %d tokens, from %d passes over %d tokens",
        len(found),
        vocab_size,
        epochs,
        tokens // step,
    )
    return vectors


class _Texts:
    """Every `step`-th text of some columns as its token ids, which gensim wants as strings; moves a progress bar."""

    def __init__(self, columns: list[TokenColumn], step: int, bar: tqdm) -> None:
        self.columns, self.step, self.bar = columns, step, bar

    def __iter__(self) -> Iterator[list[str]]:
        for column in self.columns:
            starts, ends = column.offsets[: -1 : self.step].tolist(), column.offsets[1 :: self.step].tolist()
            for start, end in zip(starts, ends, strict=True):
                yield list(map(str, column.ids[start:end].tolist()))
                self.bar.update(end - start)


def _digest(column: TokenColumn) -> str:
    digest = xxhash.xxh3_128(column.ids.tobytes())
    digest.update(column.offsets.tobytes())
    return digest.hexdigest()
