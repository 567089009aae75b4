"""Trains the tokenizer of a run on its texts."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from datasets import Dataset
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from modeling_convsim.files.errors import InputError

Kind = Literal["word", "bare_word", "wordpiece"]
SPECIAL_TOKENS = ["[PAD]", "[UNK]"]  # their order is their ids
MAX_ALPHABET = 1000  # characters in a WordPiece vocabulary, as in BERT's trainer


class Texts:
    """The texts of columns of datasets, which can be read more than once and are not kept in memory."""

    def __init__(self, columns: Sequence[Dataset]) -> None:
        self.columns = columns

    def __iter__(self) -> Iterator[str]:
        batches = itertools.chain.from_iterable(dataset.iter(batch_size=1000) for dataset in self.columns)
        texts = (text for batch in batches for column in batch.values() for text in column)
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                raise InputError(
                    f"tokenizer: text {number} is a {type(text).__name__}, expected a string: drop empty rows first"
                )
            yield text


def train_tokenizer(
    texts: Texts | Sequence[str], kind: Kind, vocab_size: int, min_count: int = 2
) -> PreTrainedTokenizerFast:
    """Train a lowercasing (NFKC) tokenizer that splits off punctuation and adds no special token to a text.

    `word` keeps the most frequent words, ties in alphabetical order; `bare_word` also drops punctuation and symbols;
    `wordpiece` learns subwords (Schuster and Nakajima, 2012) from at most the 1,000 most frequent characters. The same
    texts in any order give the same tokenizer, bit for bit.

    Args:
        texts: the texts to train on.
        kind: "word", "bare_word" or "wordpiece".
        vocab_size: the number of ids, including `[PAD]` (0) and `[UNK]` (1); fewer if the texts have fewer words.
        min_count: a word (or a merge of two subwords) that is less frequent gets no id.

    Raises:
        InputError: a text is not a string, or no word occurs `min_count` times.
    """
    if kind == "wordpiece":
        tokenizer = _train_subwords(texts, vocab_size, min_count)
    else:
        tokenizer = _train_words(texts, vocab_size, min_count, bare=kind == "bare_word")
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise InputError(
            f"tokenizer: no word occurs {min_count} times or more in the texts: use more text or a lower --min_count"
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        padding_side="right",
        truncation_side="right",
        # With token types, `AutoModelForSequenceClassification` tells the two sentences of a pair apart.
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        # "[PAD]" in a text is three ordinary tokens, never padding.
        split_special_tokens=True,
    )


def _untrained_tokenizer(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _train_words(texts: Iterable[str], vocab_size: int, min_count: int, bare: bool) -> Tokenizer:
    tokenizer = _untrained_tokenizer(models.WordLevel(unk_token="[UNK]"))
    if bare:
        leave_out = pre_tokenizers.Split(Regex(r"[^\p{L}\p{M}\p{N}]+"), "removed")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([tokenizer.pre_tokenizer, leave_out])
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=min_count, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _train_subwords(texts: Texts | Sequence[str], vocab_size: int, min_count: int) -> Tokenizer:
    tokenizer = _untrained_tokenizer(models.WordPiece(unk_token="[UNK]"))
    # The trainer numbers characters in the order of a hash table, which differs from run to run, and breaks ties
    # between merges by these numbers. Passing every character as a special token fixes the numbers; afterwards the
    # model is rebuilt without these special tokens.
    counts: Counter[str] = Counter()
    for text in tqdm(texts, desc="counting characters", unit=" texts", unit_scale=True):
        counts.update(tokenizer.normalizer.normalize_str(text))
    frequent = sorted(
        (character for character, count in counts.items() if count >= min_count and not character.isspace()),
        key=lambda character: (-counts[character], character),
    )
    alphabet = sorted(frequent[: min(MAX_ALPHABET, vocab_size // 4)])
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_count,
        special_tokens=SPECIAL_TOKENS + alphabet + [f"##{character}" for character in alphabet],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(tqdm(texts, desc="counting words", unit=" texts", unit_scale=True), trainer)
    rebuilt = _untrained_tokenizer(models.WordPiece(tokenizer.get_vocab(), unk_token="[UNK]"))
    rebuilt.decoder = decoders.WordPiece()
    return rebuilt
