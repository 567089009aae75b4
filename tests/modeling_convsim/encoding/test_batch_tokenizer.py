"""Token ids of `BatchTokenizer` against those of transformers."""

import copy
import pickle
import random

import pytest
from tokenizers import AddedToken, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import batch_tokenizer
from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer
from trainer.data.tokenizer import train_tokenizer

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
        assert BatchTokenizer.from_transformers(one, max_tokens)(TEXTS) == expected


@pytest.mark.parametrize("split", [False, True])  # by tokenizers alone, and by kitoken
def test_truncation_is_logged_once(tokenizer, split, caplog):
    batch_tokenizer._warn_once.cache_clear()
    tokenizer.split_special_tokens = split
    longest = max(map(len, BatchTokenizer.from_transformers(tokenizer, None)(TEXTS)))
    BatchTokenizer.from_transformers(tokenizer, longest)(TEXTS)
    assert not caplog.messages
    for _ in range(2):
        BatchTokenizer.from_transformers(tokenizer, longest - 1)(TEXTS)
    assert caplog.messages == [f"some texts are longer than {longest - 1} tokens and were truncated"]


def test_special_tokens_are_added_as_the_tokenizer_says(tokenizer):
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="[UNK] $A", special_tokens=[("[UNK]", 1)])
    expected = ids(tokenizer, TEXTS, 3)
    assert expected[0] == [1]
    assert BatchTokenizer.from_transformers(tokenizer, 3)(TEXTS) == expected


WORDS = [
    "the",
    "Cat",
    "don't",
    "unbelievably",
    "[PAD]",
    "[UNK]",
    "##s",
    "a" * 101,
    "ΣΑΣ",
    "naïve",
    "ﬁne",
    "İ",
    "\u058c",
    "中文",
    "😀",
]


def random_texts(count: int) -> list[str]:
    """Texts of words, ASCII characters and any others: about half are ASCII."""
    draw = random.Random(3)
    alphabet = [chr(code) for code in range(128)]
    texts = []
    for number in range(count):
        words = WORDS if number % 2 else WORDS[:8]
        parts = [draw.choice(words if draw.random() < 0.4 else alphabet) for _ in range(draw.randrange(30))]
        if number % 4 == 3:
            parts.append(chr(draw.randrange(0xE000, 0x110000)))
        texts.append("".join(parts))
    return texts


@pytest.fixture(scope="module", params=["word", "bare_word", "wordpiece"])
def trained(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    sentences = ["The cat doesn't like unbelievably big dogs!", "A naïve cat, the ΣΑΣ; [pad] costs $5.00?", "a b c d"]
    return train_tokenizer(sentences, request.param, 200, min_count=1)


@pytest.mark.parametrize("max_tokens", [None, 1, 5])
@pytest.mark.parametrize("side", ["left", "right"])
def test_the_faster_library_gives_the_same_ids(trained, max_tokens, side):
    tokenizer, texts = copy.deepcopy(trained), random_texts(2000)
    tokenizer.truncation_side = side
    ids(tokenizer, texts, 2)  # a tokenizer remembers, and saves, how it truncated
    batch = BatchTokenizer.from_transformers(tokenizer, max_tokens)
    assert batch._ascii is not None
    assert 800 < sum(text.isascii() for text in texts) < 1200
    assert batch(texts) == ids(tokenizer, texts, max_tokens)
    assert batch(texts[::2]) == ids(tokenizer, texts[::2], max_tokens)  # ASCII alone
    assert batch([]) == []


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))])
@pytest.mark.parametrize("split", [False, True])
def test_a_copy_gives_the_same_ids(trained, copy_of, split):
    """`datasets.map` and worker processes pickle the encoder that a function uses."""
    tokenizer, texts = copy.deepcopy(trained), random_texts(200)
    tokenizer.split_special_tokens, tokenizer.truncation_side = split, "left"
    batch = copy_of(BatchTokenizer.from_transformers(tokenizer, 5))
    assert (batch._ascii is not None) == split
    assert batch(texts) == ids(tokenizer, texts, 5)


def test_other_tokenizers_are_left_to_their_own_library(trained):
    """Of these, kitoken would give other ids, or its ids are not known to be the same."""

    def other(change) -> PreTrainedTokenizerFast:
        tokenizer = copy.deepcopy(trained)
        change(tokenizer.backend_tokenizer)
        return tokenizer

    def split(tokenizer) -> None:
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()

    def keep_case(tokenizer) -> None:
        tokenizer.normalizer = normalizers.NFKC()

    def add_token(tokenizer) -> None:
        tokenizer.add_tokens([AddedToken("big dogs", normalized=False)])

    def add_start(tokenizer) -> None:
        tokenizer.post_processor = TemplateProcessing(single="[UNK] $A", special_tokens=[("[UNK]", 1)])

    texts = ["The Cat's big dogs", "[PAD] the cat", "naïve"]
    for change in (split, keep_case, add_token, add_start):
        tokenizer = other(change)
        assert BatchTokenizer.from_transformers(tokenizer, None)._ascii is None, change
        assert BatchTokenizer.from_transformers(tokenizer, None)(texts) == ids(tokenizer, texts, None), change
    special = copy.deepcopy(trained)
    special.split_special_tokens = False
    assert BatchTokenizer.from_transformers(special, None)._ascii is None
    assert BatchTokenizer.from_transformers(special, None)(texts) == ids(special, texts, None)
