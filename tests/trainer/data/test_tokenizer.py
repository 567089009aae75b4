"""The tokenizer: its vocabulary compared with a plain count, its folder loaded by AutoTokenizer, its errors."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from datasets import Dataset
from transformers import AutoTokenizer

from modeling_convsim.files.errors import InputError
from trainer.data.tokenizer import Texts, train_tokenizer

TEXTS = [
    "Where did the cat go?",
    "The cat went home, the dog didn't.",
    "DOGS and cats: friends?",
    "the ﬁne ﬁsh",  # NFKC resolves the ligature fi
    "",
]


def brute_force_words(texts: list[str]) -> Counter[str]:
    """Words of plain ASCII text: runs of letters and digits, and each punctuation mark."""
    return Counter(word for text in texts for word in re.findall(r"[a-z0-9]+|[^a-z0-9\s]", text.lower()))


def random_texts(seed: int, texts: int = 400) -> list[str]:
    generator = random.Random(seed)
    words = ["".join(generator.choices("abcdefgé漢字😀", k=generator.randint(1, 6))) for _ in range(300)]
    return [" ".join(generator.choices(words, k=8)) for _ in range(texts)]


def test_word_vocabulary_is_the_most_frequent_words_with_ties_in_alphabetical_order() -> None:
    texts = [text for text in TEXTS if text.isascii()]
    counts = brute_force_words(texts)
    expected = sorted(counts, key=lambda word: (-counts[word], word))[:10]
    tokenizer = train_tokenizer(texts, "word", vocab_size=12, min_count=1)
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == ["[PAD]", "[UNK]", *expected]


def test_text_is_lowercased_nfkc_normalized_and_split_at_punctuation() -> None:
    tokenizer = train_tokenizer(TEXTS, "word", vocab_size=100, min_count=1)
    assert tokenizer.tokenize("FINE ﬁsh,cat?") == ["fine", "fish", ",", "cat", "?"]


def test_bare_words_are_the_same_words_without_punctuation_and_symbols() -> None:
    tokenizer = train_tokenizer([*TEXTS, "it's 5 é_x (Ωμ) — «oui»…"], "bare_word", vocab_size=200, min_count=1)
    assert tokenizer.tokenize('"FINE ﬁsh", It\'s 5_é—«oui»… ☺') == ["fine", "fish", "it", "s", "5", "é", "oui"]
    words = set(train_tokenizer(TEXTS, "word", vocab_size=200, min_count=1).get_vocab())
    bare = set(train_tokenizer(TEXTS, "bare_word", vocab_size=200, min_count=1).get_vocab())
    assert bare == {word for word in words if word.isalnum()} | {"[PAD]", "[UNK]"}


@pytest.mark.parametrize("kind", ["word", "wordpiece"])
def test_a_text_that_spells_a_special_token_is_ordinary_words(kind: str, tmp_path: Path) -> None:
    train_tokenizer([*TEXTS, "[pad] [unk]"], kind, vocab_size=200, min_count=1).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("[PAD]")[0] == "["
    assert 0 not in tokenizer("the [PAD] cat")["input_ids"]


def test_wordpiece_splits_an_unseen_word_into_known_pieces_that_spell_it() -> None:
    tokenizer = train_tokenizer(TEXTS * 5, "wordpiece", vocab_size=200)
    pieces = tokenizer.tokenize("dogcats")
    assert len(pieces) > 1 and "[UNK]" not in pieces
    assert "".join(piece.removeprefix("##") for piece in pieces) == "dogcats"
    assert tokenizer.decode(tokenizer("dogcats")["input_ids"]) == "dogcats"


@pytest.mark.parametrize("kind", ["word", "bare_word", "wordpiece"])
def test_retraining_gives_the_same_tokenizer_for_any_order_of_the_texts(kind: str) -> None:
    """The library's own WordPiece trainer gives another vocabulary each time, within one process too."""
    texts = random_texts(3)
    orders = [texts, texts[::-1], sorted(texts), texts]
    trained = {train_tokenizer(order, kind, vocab_size=400).backend_tokenizer.to_str() for order in orders}
    assert len(trained) == 1


def test_a_saved_folder_loads_with_auto_tokenizer(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS, "wordpiece", vocab_size=100, min_count=1)
    tokenizer.model_max_length = 7
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert (loaded.pad_token_id, loaded.unk_token_id, loaded.model_max_length) == (0, 1, 7)
    batch = loaded(["The cat", "the dog " * 20], padding=True, truncation=True)
    assert batch["attention_mask"][0] == [1, 1, 0, 0, 0, 0, 0] and batch["input_ids"][0][2:] == [0] * 5
    assert batch["input_ids"][1] == tokenizer("the dog " * 20, truncation=True)["input_ids"]


def test_texts_without_a_frequent_word_are_refused() -> None:
    with pytest.raises(InputError, match="no word occurs 2 times"):
        train_tokenizer(["", "  "], "word", vocab_size=100)


def test_texts_of_columns_are_read_again_and_give_the_tokenizer_of_a_list():
    columns = Dataset.from_dict({"input": TEXTS, "response": list(reversed(TEXTS))})
    texts = Texts([columns, columns.select([0])])
    assert list(texts) == list(texts) == [*TEXTS, *reversed(TEXTS), TEXTS[0], TEXTS[-1]]
    own, of_list = (train_tokenizer(each, "wordpiece", vocab_size=100, min_count=1) for each in (texts, list(texts)))
    assert own.backend_tokenizer.to_str() == of_list.backend_tokenizer.to_str()
    with pytest.raises(InputError, match="text 2 is a NoneType"):
        train_tokenizer(Texts([Dataset.from_dict({"a": ["b", None]})]), "wordpiece", vocab_size=100)
