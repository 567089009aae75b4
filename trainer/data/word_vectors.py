"""Word vectors for the encoder's word table to start from: of the training texts themselves, or read from a file."""

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from gensim.models import Doc2Vec, KeyedVectors, Word2Vec
from gensim.models.doc2vec import TaggedDocument
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from data_scripts.read.files import read_lines
from modeling_convsim.encoding import Encoder
from trainer.data.token_cache import TokenColumn
from trainer.hardware import available_threads

MAX_TOKENS = 300_000_000  # read in one pass; of more text, evenly spread parts
PASS_TOKENS = 100_000_000  # what all passes together read of less text
UNK_TOKEN_ID = 1
SEED = 0
SIF_A = 1e-3  # Arora et al. (2017), section 4.1
TEXT_FORMS = (".txt", ".vec")  # of files of word vectors; `data_scripts.read.files.UNPACK` may follow
Entries = Iterator[tuple[str, str, Sequence[Any]]]  # file:line, word, its numbers
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
    fit(model, columns, list(map(str, range(vocab_size))), step)
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


def fit(model: Word2Vec, columns: list[TokenColumn], words: Sequence[str], step: int = 1) -> None:
    """Train a new gensim model on every `step`-th text of some columns, showing progress.

    Args:
        model: not trained yet; it says how many epochs. A `Doc2Vec` gets the texts' numbers, from 0, as their tags.
        columns: the texts.
        words: what gensim knows a token by, for each token id.
        step: 1 reads every text.
    """
    tokens = sum(len(column.ids) for column in columns)
    gensim_logger = logging.getLogger("gensim")
    level = gensim_logger.level
    gensim_logger.setLevel(logging.WARNING)  # it logs its every step
    try:
        with tqdm(total=(1 + model.epochs) * tokens // step, delay=1, unit=" tokens", unit_scale=True) as bar:
            texts = _Texts(columns, words, step, isinstance(model, Doc2Vec), bar)
            bar.set_description("word vectors: counting")
            model.build_vocab(texts)
            bar.set_description("word vectors")
            model.train(texts, total_examples=model.corpus_count, epochs=model.epochs)
    finally:
        gensim_logger.setLevel(level)


class _Texts:
    """Every `step`-th text of some columns as its words, or as a `TaggedDocument` of them; moves a progress bar."""

    def __init__(self, columns: list[TokenColumn], words: Sequence[str], step: int, is_tagged: bool, bar: tqdm) -> None:
        self.columns, self.words, self.step, self.is_tagged, self.bar = columns, words, step, is_tagged, bar

    def __iter__(self) -> Iterator[list[str] | TaggedDocument]:
        number = 0
        for column in self.columns:
            starts, ends = column.offsets[: -1 : self.step].tolist(), column.offsets[1 :: self.step].tolist()
            for start, end in zip(starts, ends, strict=True):
                text = list(map(self.words.__getitem__, column.ids[start:end].tolist()))
                yield TaggedDocument(text, [number]) if self.is_tagged else text
                number += 1
                self.bar.update(end - start)


def sif_weights(columns: list[TokenColumn], vocab_size: int) -> np.ndarray:
    """a / (a + p(w)) of each token, (vocab_size,), p(w) the token's share of the columns' tokens."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for column in columns:
        counts += np.bincount(column.ids, minlength=vocab_size)
    return SIF_A / (SIF_A + counts / counts.sum())


def read_word_vectors(source: Path, tokenizer: PreTrainedTokenizerFast, vocab_size: int) -> np.ndarray:
    """Word vectors from elsewhere for the tokens of a tokenizer, one and all scaled to an average length of one.

    A token gets the vector of the word that is spelt like it, or else of the first that is once the tokenizer has
    normalised it: "Paris" is the one for `paris` where the file has no `paris`.

    Args:
        source: a file in word2vec's text or binary (.bin) format or in GloVe's text format, which has no header, plain
            or compressed; or the folder of a saved model or of its run, whose word table it then is.
        tokenizer: its tokens.
        vocab_size: rows of the result.

    Returns:
        (vocab_size, size) float32; a row of zeros for a token without a vector and for `[PAD]` and `[UNK]`.

    Raises:
        InputError: the file or folder cannot be read, or has a vector for none of the tokens.
    """
    if source.is_dir():
        entries = _saved_entries(source)
    elif ".bin" in (source.suffix, source.with_suffix("").suffix):
        entries = _binary_entries(source)
    else:
        entries = _text_entries(source)
    vocabulary = tokenizer.get_vocab()
    normalizer = tokenizer.backend_tokenizer.normalizer
    found: dict[int, np.ndarray] = {}
    exact: set[int] = set()
    for place, word, numbers in entries:
        row = vocabulary.get(word)
        if row is None:
            row = vocabulary.get(normalizer.normalize_str(word)) if normalizer else None
            if row is None or row in found:
                continue
        elif row in exact:
            continue
        else:
            exact.add(row)
        try:
            found[row] = np.array(numbers, dtype=np.float32)
        except ValueError:
            raise InputError(f"{place}: the vector of '{word}' holds something that is no number") from None
        if not np.isfinite(found[row]).all():
            raise InputError(f"{place}: the vector of '{word}' holds a number that is not finite")
    for special in (tokenizer.pad_token_id, tokenizer.unk_token_id):
        found.pop(special, None)
    found = {row: vector for row, vector in found.items() if vector.any()}
    if not found:
        raise InputError(f"{source}: has a vector for none of the {len(tokenizer):,} tokens of the tokenizer")
    vectors = np.zeros((vocab_size, len(next(iter(found.values())))), dtype=np.float32)
    vectors[list(found)] = np.stack(list(found.values()))
    vectors /= np.linalg.norm(vectors[list(found)], axis=1).mean()
    logger.info("word vectors for %d of %d tokens from %s", len(found), len(tokenizer), source)
    return vectors


def _text_entries(path: Path) -> Entries:
    """The lines of a file of WORD NUMBER NUMBER …; a first line of two whole numbers is word2vec's header."""
    size = None
    for place, line in read_lines(path, (*TEXT_FORMS, ".bin")):
        fields = line.rstrip().split(b" ")
        if size is None:
            if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
                size = int(fields[1])
                continue
            size = len(fields) - 1
        # A few of GloVe's words have spaces: ". . .". No token is like them.
        surplus = fields[1 : len(fields) - size]
        if size < 1 or len(fields) <= size or any(map(_is_number, surplus)):
            raise InputError(
                f"{place}: {len(fields) - 1} values after the word, expected {size} as in the lines before"
            )
        if not surplus:
            yield place, fields[0].decode(errors="replace"), fields[1:]


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _binary_entries(path: Path) -> Entries:
    logger.info("reading %s", path)  # gensim shows no progress; minutes for the largest
    try:
        vectors = KeyedVectors.load_word2vec_format(str(path), binary=True, unicode_errors="replace")
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: cannot be read as word2vec's binary format ({error})") from error
    for word, vector in zip(vectors.index_to_key, vectors.vectors, strict=True):
        yield str(path), word, vector


def _saved_entries(folder: Path) -> Entries:
    try:
        encoder = Encoder.from_pretrained(folder / "model" if (folder / "model").is_dir() else folder, device="cpu")
    except ValueError as error:
        raise InputError(f"{folder}: expected the folder of a saved model, or of its run ({error})") from error
    name = next(name for name, _ in encoder.model.named_parameters() if name.endswith("embed_tokens.weight"))
    table = encoder.model.get_parameter(name).detach().numpy()
    for word, row in encoder.tokenizer.get_vocab().items():
        yield str(folder), word, table[row]


def _digest(column: TokenColumn) -> str:
    digest = xxhash.xxh3_128(column.ids.tobytes())
    digest.update(column.offsets.tobytes())
    return digest.hexdigest()
