"""Token ids of many texts, and the errors that name a text which cannot be encoded."""

import functools
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kitoken import Kitoken
from tokenizers import Tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)


class TextError(ValueError):
    """A text cannot be encoded; the message gives its position among the texts."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)  # what a process pool passes on
        self.position, self.reason = position, reason

    def __str__(self) -> str:
        return f"texts[{self.position}] {self.reason}"


def check_text(text: object, position: int) -> None:
    """Raises TextError unless a text is a string that UTF-8 can represent."""
    if not isinstance(text, str):
        raise TextError(position, f"is {repr(text)[:60]}, a {type(text).__name__}, expected a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            position,
            f"has the lone surrogate {text[error.start]!a} at character {error.start}, expected Unicode text: replace "
            "it, for example with text.encode('utf-8', 'replace').decode()",
        ) from None


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yields texts after `check_text`."""
    for position, text in enumerate(texts):
        check_text(text, position)
        yield text


def refuse_single_string(texts: object, call: str) -> None:
    """Raises TypeError if `texts` is a single string, whose characters would be taken as texts."""
    if isinstance(texts, str):
        raise TypeError(f"a single string, expected several texts: {call}")


# The parts of a tokenizer of `trainer.data.tokenizer`.
LOWERCASE = {"type": "Lowercase"}
NORMALIZER = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, LOWERCASE]}
SPLITS_PUNCTUATION = {"type": "BertPreTokenizer"}
DROPS_PUNCTUATION = {
    "type": "Split",
    "pattern": {"Regex": r"[^\p{L}\p{M}\p{N}]+"},
    "behavior": "Removed",
    "invert": False,
}
PRE_TOKENIZERS = (SPLITS_PUNCTUATION, {"type": "Sequence", "pretokenizers": [SPLITS_PUNCTUATION, DROPS_PUNCTUATION]})
MODELS = ("WordLevel", "WordPiece")

UNUSED_PREFIX = "\uffff"  # of the continuations of words in a vocabulary that has none; no ASCII text has it
MAX_WORD = 2**30  # characters
FEW = 64  # texts, for which building kitoken's tokenizer takes longer than it saves

# From this `model_max_length` on, texts are read whole. It is what tokenizers without a limit are saved with: other
# libraries pad texts to it, or reject what does not fit into 32 bits.
UNLIMITED = 8192


class BatchTokenizer:
    """Converts texts to token ids, in the fastest way.

    kitoken tokenizes ASCII texts of a tokenizer of `trainer.data.tokenizer`, three times as fast as tokenizers. They
    alone, because the two libraries differ in a few hundred other characters (final sigma, and characters that are new
    in Unicode).

    Attributes:
        vocabulary: The tokens and their ids.
        special_ids: The ids of tokens such as padding and unknown words.
    """

    def __init__(
        self, definition: str, split_special_tokens: bool, max_tokens: int | None, truncation_side: str = "right"
    ) -> None:
        """Builds the tokenizer of a definition.

        Args:
            definition: The content of tokenizer.json.
            split_special_tokens: Whether "[PAD]" and the like in a text are ordinary characters.
            max_tokens: Truncate texts to this many tokens, which is logged once; None keeps all.
            truncation_side: The side that is truncated, "left" or "right".
        """
        self._source = definition, split_special_tokens, max_tokens, truncation_side
        self._backend = _whole_texts(definition, split_special_tokens)
        self.vocabulary: dict[str, int] = self._backend.get_vocab()
        self.special_ids = {each for each, token in self._backend.get_added_tokens_decoder().items() if token.special}
        # The batched call that adds special tokens is slower even if there are none to add.
        self._adds_tokens = self._backend.num_special_tokens_to_add(False) > 0
        self._max_tokens, self._kept = max_tokens, slice(None)
        if max_tokens is not None:
            self._backend.enable_truncation(max_tokens, direction=truncation_side)
            self._kept = slice(max_tokens) if truncation_side == "right" else slice(-max_tokens, None)

    @classmethod
    def from_folder(cls, folder: Path) -> "BatchTokenizer":
        """Opens the tokenizer of a saved model."""
        settings, path = dict[str, Any](), folder / "tokenizer_config.json"
        if path.is_file():
            settings = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            (folder / "tokenizer.json").read_text(encoding="utf-8"),
            settings.get("split_special_tokens", False),
            token_limit(settings.get("model_max_length", UNLIMITED)),
            settings.get("truncation_side", "right"),
        )

    @classmethod
    def from_transformers(cls, tokenizer: "PreTrainedTokenizerFast", max_tokens: int | None) -> "BatchTokenizer":
        """Copies a tokenizer of transformers, because truncation and padding are settings of the object."""
        definition = tokenizer.backend_tokenizer.to_str()
        return cls(definition, tokenizer.split_special_tokens, max_tokens, tokenizer.truncation_side)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles what it is made from: kitoken cannot be pickled, and tokenizers forgets `encode_special_tokens`."""
        return BatchTokenizer, self._source

    @functools.cached_property
    def _ascii(self) -> Any:
        definition, split_special_tokens, *_ = self._source
        if not split_special_tokens or self._adds_tokens:
            return None
        return _ascii_tokenizer(json.loads(definition), _whole_texts(definition, split_special_tokens))

    def __call__(self, texts: list[str]) -> list[list[int]]:
        """Returns the token ids of each text.

        Raises:
            Exception: An item is not a string of Unicode text; tokenizers raises bare exceptions, too.
        """
        if len(texts) <= FEW or self._ascii is None:
            return self._tokenize_any(texts)
        rows = [row for row, text in enumerate(texts) if not text.isascii()]
        if not rows:
            return self._tokenize_ascii(texts)
        ids = self._tokenize_ascii([text if text.isascii() else "" for text in texts])
        for row, others in zip(rows, self._tokenize_any([texts[row] for row in rows]), strict=True):
            ids[row] = others
        return ids

    def _tokenize_any(self, texts: list[str]) -> list[list[int]]:
        encodings = self._backend.encode_batch_fast(texts, add_special_tokens=self._adds_tokens)
        ids = [encoding.ids for encoding in encodings]
        if any(len(each) == self._max_tokens and encodings[row].overflowing for row, each in enumerate(ids)):
            _warn_once(self._max_tokens)
        return ids

    def _tokenize_ascii(self, texts: list[str]) -> list[list[int]]:
        assert self._ascii is not None
        ids = self._ascii.encode_all(texts)
        if self._max_tokens is None:
            return ids
        if any(len(each) > self._max_tokens for each in ids):
            _warn_once(self._max_tokens)
        return [each[self._kept] for each in ids]


@functools.cache
def _warn_once(max_tokens: int) -> None:
    logger.warning("some texts are longer than %d tokens and were truncated", max_tokens)


def _whole_texts(definition: str, split_special_tokens: bool) -> Any:
    """A `tokenizers.Tokenizer` that neither pads nor truncates."""
    backend = Tokenizer.from_str(definition)
    backend.encode_special_tokens = split_special_tokens  # it is not part of the definition
    backend.no_padding()
    backend.no_truncation()
    return backend


def _ascii_tokenizer(definition: dict[str, Any], backend: Any) -> Any:
    """kitoken's tokenizer, if it gives the same ids to ASCII texts; None for most tokenizers of others.

    Args:
        definition: The content of tokenizer.json.
        backend: The `tokenizers.Tokenizer`, without truncation.
    """
    model = definition["model"]
    if definition["normalizer"] != NORMALIZER or definition["pre_tokenizer"] not in PRE_TOKENIZERS:
        return None
    if not all(token["special"] for token in definition["added_tokens"]):  # others are tokens in a text, too
        return None
    if model["type"] not in MODELS:
        return None
    if model["type"] == "WordLevel":  # kitoken has WordPiece only; without continuations, a word is known or not
        model |= {"type": "WordPiece", "continuing_subword_prefix": UNUSED_PREFIX, "max_input_chars_per_word": MAX_WORD}
    # NFKC leaves ASCII as it is. Truncation and padding are those of the last texts before the tokenizer was saved.
    content = json.dumps(
        definition | dict.fromkeys(["post_processor", "decoder", "truncation", "padding"]) | {"normalizer": LOWERCASE}
    )
    # ASCII texts with every character, after a word and between spaces, known words, and a long one.
    texts = [f"the{character}Cat {character} " for character in map(chr, range(128))]
    words = list(model["vocab"])
    texts += [" ".join(word for word in words[:: max(1, len(words) // 500)] if word.isascii()), "x" * 200]
    try:
        tokenizer = Kitoken.from_tokenizers(content.encode())
        # One by one: the batched call starts threads, which a process that opens a model and forks should not have.
        expected = [backend.encode(text, add_special_tokens=False).ids for text in texts]
        return tokenizer if tokenizer.encode_all(texts) == expected else None
    except Exception:  # kitoken lacks a part of the definition; or the vocabulary lacks [UNK], which may not be needed
        return None


def token_limit(model_max_length: float) -> int | None:
    """The number of tokens that a tokenizer truncates to; None if it has no limit below `UNLIMITED`."""
    return int(model_max_length) if model_max_length < UNLIMITED else None
