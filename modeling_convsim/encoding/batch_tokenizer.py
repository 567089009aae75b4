"""Token ids of many texts."""

from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_base import LARGE_INTEGER


class BatchTokenizer:
    """Converts texts to the token ids that their tokenizer gives, in the fastest call of its library."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, max_tokens: int | None) -> None:
        """Copies a tokenizer, because truncation and padding are settings of the object.

        Args:
            tokenizer: A tokenizer.
            max_tokens: Truncate texts to this many tokens; None keeps all.
        """
        self._backend = type(tokenizer.backend_tokenizer).from_str(tokenizer.backend_tokenizer.to_str())
        self._backend.encode_special_tokens = tokenizer.split_special_tokens  # it is not part of the string
        self._backend.no_padding()
        if max_tokens is None:
            self._backend.no_truncation()
        else:
            self._backend.enable_truncation(max_tokens, direction=tokenizer.truncation_side)
        # The batched call that adds special tokens is slower even if there are none to add.
        self._adds_tokens = tokenizer.num_special_tokens_to_add() > 0

    def __call__(self, texts: list[str]) -> list[list[int]]:
        """Returns the token ids of each text.

        Raises:
            Exception: An item is not a string of Unicode text; tokenizers raises bare exceptions, too.
        """
        encodings = self._backend.encode_batch_fast(texts, add_special_tokens=self._adds_tokens)
        return [encoding.ids for encoding in encodings]


def token_limit(tokenizer: PreTrainedTokenizerFast) -> int | None:
    """Returns the number of tokens that a tokenizer truncates to; None if it was saved without a limit."""
    return tokenizer.model_max_length if tokenizer.model_max_length < LARGE_INTEGER else None
