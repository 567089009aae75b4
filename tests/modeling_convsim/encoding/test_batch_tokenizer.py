"""Token ids of `BatchTokenizer` against those of transformers."""

import copy

import pytest
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer

TEXTS = ["", " ", "The CAT\tsees\r\nthe dog", "a\x00b", "naïve ﬁne İ", "[PAD] the [UNK] cat", "we eat . " * 50]


@pytest.fixture
def tokenizer(tiny_tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    return copy.deepcopy(tiny_tokenizer)


def ids(tokenizer: PreTrainedTokenizerFast, texts: list[str], max_tokens: int | None) -> list[list[int]]:
    return tokenizer(texts, truncation=max_tokens is not None, max_length=max_tokens)["input_ids"]


@pytest.mark.parametrize("max_tokens", [None, 3])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("split", [False, True])
def test_the_ids_are_those_of_the_tokenizer(tokenizer, max_tokens, side, split):
    """A copy of the tokenizer's backend forgets whether a special token in a text is text (`split`)."""
    tokenizer.truncation_side, tokenizer.split_special_tokens = side, split
    expected = ids(tokenizer, TEXTS, max_tokens)
    assert (0 in expected[5]) != split or side == "left"
    for one in (tokenizer, copy.deepcopy(tokenizer)):
        assert BatchTokenizer(one, max_tokens)(TEXTS) == expected


def test_special_tokens_are_added_as_the_tokenizer_says(tokenizer):
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="[UNK] $A", special_tokens=[("[UNK]", 1)])
    expected = ids(tokenizer, TEXTS, 3)
    assert expected[0] == [1]
    assert BatchTokenizer(tokenizer, 3)(TEXTS) == expected


def test_settings_of_the_tokenizer_are_not_those_of_its_copy(tokenizer):
    expected = ids(tokenizer, TEXTS, None)
    tokenizer.backend_tokenizer.enable_padding(pad_id=0)
    tokenizer.backend_tokenizer.enable_truncation(2)
    assert BatchTokenizer(tokenizer, None)(TEXTS) == expected
    assert tokenizer.backend_tokenizer.padding and tokenizer.backend_tokenizer.truncation
