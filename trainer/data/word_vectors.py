"""Word vectors that initialize the encoder's embeddings: skip-gram trained on the texts, or from a file or model."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer
from modeling_convsim.encoding.loading import read_model_type
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.extras import import_extra
from modeling_convsim.files.hub import is_hub_name
from modeling_convsim.files.texts import UNPACK, TextFile, check_file
from modeling_convsim.modeling_averaging import read_weights
from trainer.data.token_cache import TokenColumn, write_array
from trainer.processes import available_threads

TEXT_FORMS = (".txt", ".vec")  # suffixes of text files; one of `modeling_convsim.files.texts.UNPACK` may follow
MAX_TOKENS = 300_000_000  # per pass; a longer text is sampled at even steps
PASS_TOKENS = 100_000_000  # total over all passes of a shorter corpus, unless the number of passes is given
# gensim's settings, apart from sizes and threads; part of the cache key.
SKIP_GRAM = {"sg": 1, "window": 5, "negative": 5, "sample": 1e-4, "min_count": 5}
Entries = Iterator[tuple[str, str, Sequence[Any]]]  # file:line, word, its vector

logger = logging.getLogger(__name__)


def is_sentence_transformer(source: str) -> bool:
    """Return whether a source of word vectors is the folder of a SentenceTransformer, or a model of the Hub."""
    folder = Path(source)
    if not (folder / "modules.json").is_file():
        return is_hub_name(source, (*TEXT_FORMS, ".bin", *UNPACK))
    config = folder / "config.json"
    # Models of convsim have modules.json, too; their word embeddings are read.
    return not (config.is_file() and '"model_type": "convsim_' in config.read_text(encoding="utf-8"))


def read_word_vectors(source: Path, tokenizer: PreTrainedTokenizerFast, vocab_size: int) -> np.ndarray:
    """Read word vectors for the tokens of a tokenizer, scaled together to an average length of 1.

    A token gets the vector of the word that equals it, or else of the first word that equals it after the tokenizer's
    normalization: if the file has no `paris`, the vector of "Paris" is used.

    Args:
        source: a file in word2vec's text format or in GloVe's, which has no header, plain or compressed; or the folder
            of a saved model or of its run, whose word embeddings are read.
        tokenizer: the tokenizer.
        vocab_size: number of rows of the result.

    Returns:
        (vocab_size, size) float32; zeros for a token without a vector and for `[PAD]` and `[UNK]`.

    Raises:
        InputError: the file or folder cannot be read, or has no vector for any token.
    """
    entries = _saved_entries(source) if source.is_dir() else _text_entries(source)
    by_token = _match_tokens(entries, tokenizer)
    for special in (tokenizer.pad_token_id, tokenizer.unk_token_id):
        by_token.pop(special, None)
    by_token = {token_id: vector for token_id, vector in by_token.items() if vector.any()}
    if not by_token:
        raise InputError(f"{source}: has no vector for any of the {len(tokenizer):,} tokens of the tokenizer")
    vectors = np.zeros((vocab_size, len(next(iter(by_token.values())))), dtype=np.float32)
    vectors[list(by_token)] = np.stack(list(by_token.values()))
    vectors /= np.linalg.norm(vectors[list(by_token)], axis=1).mean()
    logger.info("word vectors for %d of %d tokens from %s", len(by_token), len(tokenizer), source)
    return vectors


def _match_tokens(entries: Entries, tokenizer: PreTrainedTokenizerFast) -> dict[int, np.ndarray]:
    """Return token id -> vector of the word that equals it, or else of the first that does after normalization."""
    vocabulary = tokenizer.get_vocab()
    normalizer = tokenizer.backend_tokenizer.normalizer
    vectors: dict[int, np.ndarray] = {}
    spelled_alike: set[int] = set()
    for location, word, values in entries:
        token_id = vocabulary.get(word)
        if token_id is None:
            token_id = vocabulary.get(normalizer.normalize_str(word)) if normalizer else None
            if token_id is None or token_id in vectors:
                continue
        elif token_id in spelled_alike:
            continue
        else:
            spelled_alike.add(token_id)
        try:
            vectors[token_id] = np.array(values, dtype=np.float32)
        except ValueError:
            raise InputError(f"{location}: the vector of '{word}' has a value that is not a number") from None
        if not np.isfinite(vectors[token_id]).all():
            raise InputError(f"{location}: the vector of '{word}' has a value that is not finite")
    return vectors


def _text_entries(path: Path) -> Entries:
    """Yield the lines WORD VALUE VALUE … of a text file; a first line of two whole numbers is word2vec's header."""
    size = None
    check_file(path, TEXT_FORMS)
    for location, line in TextFile(path).lines():
        fields = line.rstrip().split(b" ")
        if size is None:
            if len(fields) == 2 and fields[0].isdigit() and fields[1].isdigit():
                size = int(fields[1])
                continue
            size = len(fields) - 1
        # A few of GloVe's words have spaces: ". . .". They equal no token.
        surplus = fields[1 : len(fields) - size]
        if size < 1 or len(fields) <= size or any(map(_is_number, surplus)):
            raise InputError(
                f"{location}: {len(fields) - 1} values after the word, expected {size} as in the previous lines"
            )
        if not surplus:
            yield location, fields[0].decode(errors="replace"), fields[1:]


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _saved_entries(folder: Path) -> Entries:
    try:
        model = folder / "model" if (folder / "model").is_dir() else folder
        read_model_type(model, str(model))
        tables = [table for name, table in read_weights(model).items() if name.endswith("embed_tokens.weight")]
        words = BatchTokenizer.from_folder(model).vocabulary
        table = tables[0]
    except (ValueError, OSError, IndexError) as error:
        raise InputError(f"{folder}: expected the folder of a saved model, or of its run ({error})") from error
    for word, row in words.items():
        yield str(folder), word, table[row]


def cached_word_vectors(
    columns: list[TokenColumn],
    vocab_size: int,
    size: int,
    cache_dir: Path,
    passes: int | None = None,
    unk_token_id: int | None = None,
) -> np.ndarray:
    """Return word vectors (vocab_size, size), float32, trained or cached for the same texts and passes.

    The unknown token has zeros.

    They take longer to train than a DAN, so all runs on the same texts share them, whatever their seed. With several
    threads, training twice gives slightly different vectors; the cache has the first.
    """
    distinct = {_digest(column): column for column in columns}  # two tasks may share a text column
    digest = xxhash.xxh3_128(
        f"{vocab_size}/{size}/{MAX_TOKENS}/{PASS_TOKENS}/{passes}/{SKIP_GRAM}/{list(distinct)}".encode()
    )
    path = cache_dir / f"{digest.hexdigest()}.npy"
    if path.exists():
        vectors = np.load(path, allow_pickle=False)
    else:
        vectors = train_word_vectors(list(distinct.values()), vocab_size, size, available_threads(), passes)
        write_array(path, vectors)
    if unk_token_id is not None:
        vectors[unk_token_id] = 0
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
        threads: number of threads of gensim; with one, the same texts give the same vectors.
        passes: passes over the texts; by default 1 to 5, enough to read `PASS_TOKENS` tokens.

    Returns:
        (vocab_size, size) float32; zeros for a token that occurs fewer than five times.
    """
    gensim = import_extra("gensim.models", "report", "word_vectors: skip_gram")
    tokens = sum(len(column.ids) for column in columns)
    step = max(1, -(-tokens // MAX_TOKENS))
    epochs = passes or int(np.clip(PASS_TOKENS // max(tokens, 1), 1, 5))
    model = gensim.Word2Vec(vector_size=size, seed=0, workers=threads, epochs=epochs, **SKIP_GRAM)
    fit(model, columns, list(map(str, range(vocab_size))), step)
    vectors = np.zeros((vocab_size, size), dtype=np.float32)
    token_ids = np.array([int(word) for word in model.wv.index_to_key])
    centered = model.wv.vectors - model.wv.vectors.mean(axis=0)
    lengths = np.linalg.norm(centered, axis=1, keepdims=True)
    vectors[token_ids] = centered / np.maximum(lengths, 1e-12)  # 0 for the vector of a single word
    logger.info(
        "word vectors for %d of %d tokens, from %d passes over %d tokens",
        len(token_ids),
        vocab_size,
        epochs,
        tokens // step,
    )
    return vectors


def fit(model: Any, columns: list[TokenColumn], words: Sequence[str], step: int = 1) -> None:
    """Train a new gensim model on every `step`-th text of some columns, showing progress.

    Args:
        model: the model, with its number of epochs.
        columns: the texts.
        words: gensim's name of each token id.
        step: 1 reads every text.

    Raises:
        InputError: no word occurs as often as the model needs.
    """
    tokens = sum(len(column.ids) for column in columns)
    with tqdm(total=(1 + model.epochs) * tokens // step, delay=1, unit=" tokens", unit_scale=True) as bar:
        texts = _Texts(columns, words, step, bar)
        bar.set_description("word vectors: counting")
        model.build_vocab(texts)
        if not model.wv.index_to_key:
            raise InputError(
                f"no word occurs {model.min_count} times or more in the texts, so word vectors cannot be trained: "
                "use more texts, or set word_vectors to random"
            )
        bar.set_description("word vectors")
        model.train(texts, total_examples=model.corpus_count, epochs=model.epochs)


class _Texts:
    """Iterates over every `step`-th text of some columns, as words; updates a progress bar."""

    def __init__(self, columns: list[TokenColumn], words: Sequence[str], step: int, bar: tqdm) -> None:
        self.columns, self.words, self.step, self.bar = columns, words, step, bar

    def __iter__(self) -> Iterator[list[str]]:
        for column in self.columns:
            for start, end in zip(column.offsets[: -1 : self.step], column.offsets[1 :: self.step], strict=True):
                yield list(map(self.words.__getitem__, column.ids[start:end].tolist()))
                self.bar.update(int(end - start))


def _digest(column: TokenColumn) -> str:
    digest = xxhash.xxh3_128()
    for array in (column.ids, column.offsets):
        digest.update(array.view(np.uint8).data)  # of the mapped file, without a copy
    return digest.hexdigest()
