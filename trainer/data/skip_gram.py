"""Skip-gram word vectors of the training texts, which initialize the encoder's word embeddings."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import xxhash
from gensim.models import Doc2Vec, Word2Vec
from gensim.models.doc2vec import TaggedDocument
from tqdm import tqdm

from data_scripts.files.errors import InputError
from trainer.data.cached_arrays import read_array, write_array
from trainer.data.token_cache import TokenColumn
from trainer.hardware import available_threads

MAX_TOKENS = 300_000_000  # per pass; a longer text is sampled at even steps
PASS_TOKENS = 100_000_000  # total over all passes of a shorter corpus, unless the number of passes is given
UNK_TOKEN_ID = 1
_CHUNK = 100_000  # texts
# gensim's settings, apart from sizes and threads; part of the cache key.
SKIP_GRAM = {"sg": 1, "window": 5, "negative": 5, "sample": 1e-4, "min_count": 5}

logger = logging.getLogger(__name__)


def cached_word_vectors(
    columns: list[TokenColumn], vocab_size: int, size: int, cache_dir: Path, passes: int | None = None
) -> np.ndarray:
    """Return word vectors (vocab_size, size), float32, trained or cached for the same texts and passes.

    They take longer to train than a DAN, so all runs on the same texts share them, whatever their seed. With several
    threads, training twice gives slightly different vectors; the cache has the first.
    """
    distinct = {_digest(column): column for column in columns}  # two tasks may share a text column
    digest = xxhash.xxh3_128(
        f"{vocab_size}/{size}/{MAX_TOKENS}/{PASS_TOKENS}/{passes}/{SKIP_GRAM}/{list(distinct)}".encode()
    )
    path = cache_dir / f"{digest.hexdigest()}.npz"
    vectors = read_array(path)
    if vectors is None:
        vectors = train_word_vectors(list(distinct.values()), vocab_size, size, available_threads(), passes)
        write_array(path, vectors)
    return vectors


def train_word_vectors(
    columns: list[TokenColumn], vocab_size: int, size: int, threads: int, passes: int | None = None
) -> np.ndarray:
    """Train skip-gram vectors with negative sampling (Mikolov et al., 2013); center and L2-normalize them.

    Frequent words share a direction that carries no meaning, so the mean is subtracted. The lengths of skip-gram
    vectors follow word frequency, which the encoder's token weights already represent.

    Args:
        columns: the texts.
        vocab_size: rows of the result.
        size: dimensions of a vector.
        threads: number of gensim's threads; with one, the same texts give the same vectors.
        passes: passes over the texts; by default 1 to 5, those that read `PASS_TOKENS`.

    Returns:
        (vocab_size, size) float32; zeros for a token that occurs fewer than five times and for `[UNK]`.
    """
    tokens = sum(len(column.ids) for column in columns)
    step = max(1, -(-tokens // MAX_TOKENS))
    epochs = passes or int(np.clip(PASS_TOKENS // max(tokens, 1), 1, 5))
    model = Word2Vec(vector_size=size, seed=0, workers=threads, epochs=epochs, **SKIP_GRAM)
    fit(model, columns, list(map(str, range(vocab_size))), step)
    vectors = np.zeros((vocab_size, size), dtype=np.float32)
    token_ids = np.array([int(word) for word in model.wv.index_to_key])
    centered = model.wv.vectors - model.wv.vectors.mean(axis=0)
    lengths = np.linalg.norm(centered, axis=1, keepdims=True)
    vectors[token_ids] = centered / np.maximum(lengths, 1e-12)  # 0 for the vector of a single word
    vectors[UNK_TOKEN_ID] = 0
    logger.info(
        "word vectors for %d of %d tokens, from %d passes over %d tokens",
        len(token_ids),
        vocab_size,
        epochs,
        tokens // step,
    )
    return vectors


def fit(model: Word2Vec, columns: list[TokenColumn], words: Sequence[str], step: int = 1) -> None:
    """Train a new gensim model on every `step`-th text of some columns, showing progress.

    Args:
        model: the model, with its number of epochs. A `Doc2Vec` gets the texts' numbers, from 0, as tags.
        columns: the texts.
        words: gensim's name of each token id.
        step: 1 reads every text.

    Raises:
        InputError: no word occurs as often as the model needs.
    """
    tokens = sum(len(column.ids) for column in columns)
    with tqdm(total=(1 + model.epochs) * tokens // step, delay=1, unit=" tokens", unit_scale=True) as bar:
        texts = _Texts(columns, words, step, isinstance(model, Doc2Vec), bar)
        bar.set_description("word vectors: counting")
        model.build_vocab(texts)
        if not model.wv.index_to_key:
            raise InputError(
                f"no word of the texts occurs {model.min_count} times or more, so that no word vectors can be trained: "
                "use more texts, or set word_vectors to random"
            )
        bar.set_description("word vectors")
        model.train(texts, total_examples=model.corpus_count, epochs=model.epochs)


class _Texts:
    """Iterates over every `step`-th text of some columns, as words or as a `TaggedDocument`; updates a progress bar."""

    def __init__(self, columns: list[TokenColumn], words: Sequence[str], step: int, is_tagged: bool, bar: tqdm) -> None:
        self.columns, self.words, self.step, self.is_tagged, self.bar = columns, words, step, is_tagged, bar

    def __iter__(self) -> Iterator[list[str] | TaggedDocument]:
        number = 0
        for column in self.columns:
            for start, end in _bounds(column, self.step):
                text = list(map(self.words.__getitem__, column.ids[start:end].tolist()))
                yield TaggedDocument(text, [number]) if self.is_tagged else text
                number += 1
                self.bar.update(end - start)


def _bounds(column: TokenColumn, step: int) -> Iterator[tuple[int, int]]:
    """Yield the first token and the end of every `step`-th text."""
    starts, ends = column.offsets[:-1:step], column.offsets[1::step]
    for first in range(0, len(starts), _CHUNK):
        part = slice(first, first + _CHUNK)
        yield from zip(starts[part].tolist(), ends[part].tolist(), strict=True)


def _digest(column: TokenColumn) -> str:
    digest = xxhash.xxh3_128()
    for array in (column.ids, column.offsets):
        digest.update(array.view(np.uint8).data)  # of the mapped file, without a copy
    return digest.hexdigest()
