"""Word vectors from a file or a saved model, which initialize the encoder's word embeddings."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gensim.models import KeyedVectors
from transformers import PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from data_scripts.files.hub import is_hub_name
from data_scripts.files.texts import UNPACK, read_lines
from modeling_convsim.encoding import Encoder

TEXT_FORMS = (".txt", ".vec")  # suffixes of text files; one of `data_scripts.files.texts.UNPACK` may follow
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
        source: a file in word2vec's text or binary (.bin) format or in GloVe's text format, which has no header, plain
            or compressed; or the folder of a saved model or of its run, whose word embeddings are read.
        tokenizer: the tokenizer.
        vocab_size: number of rows of the result.

    Returns:
        (vocab_size, size) float32; zeros for a token without a vector and for `[PAD]` and `[UNK]`.

    Raises:
        InputError: the file or folder cannot be read, or has no vector of any token.
    """
    if source.is_dir():
        entries = _saved_entries(source)
    elif ".bin" in (source.suffix, source.with_suffix("").suffix):
        entries = _binary_entries(source)
    else:
        entries = _text_entries(source)
    by_token = _match_tokens(entries, tokenizer)
    for special in (tokenizer.pad_token_id, tokenizer.unk_token_id):
        by_token.pop(special, None)
    by_token = {token_id: vector for token_id, vector in by_token.items() if vector.any()}
    if not by_token:
        raise InputError(f"{source}: has no vector of any of the {len(tokenizer):,} tokens of the tokenizer")
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
    for location, line in read_lines(path, (*TEXT_FORMS, ".bin")):
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
                f"{location}: {len(fields) - 1} values after the word, expected {size} as in the lines before"
            )
        if not surplus:
            yield location, fields[0].decode(errors="replace"), fields[1:]


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
    except (OSError, ValueError, EOFError, MemoryError, OverflowError) as error:
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
