"""Train a tokenizer on the train split of pairs, and save it so that AutoTokenizer loads it.

`python -m trainer.data.tokenizer PAIRS --output FOLDER` does so for several runs; a run without one trains its own.
Large libraries are imported where they are used, so that the options are printed at once.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tqdm import tqdm

from data_scripts.files.command_line import ArgumentParser, add_output_argument, run_stoppable, whole_number
from data_scripts.files.errors import InputError
from data_scripts.files.folders import check_replaceable, new_folder
from data_scripts.loading import load_pairs

if TYPE_CHECKING:
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

Kind = Literal["word", "bare_word", "wordpiece"]
OUTPUT_KIND = "tokenizer"
SPECIAL_TOKENS = ["[PAD]", "[UNK]"]  # their order is their ids
MAX_ALPHABET = 1000  # characters in a WordPiece vocabulary, as in BERT's trainer


class Texts:
    """The texts of columns of datasets, which can be read more than once and are not kept in memory."""

    def __init__(self, columns: Sequence[Dataset]) -> None:
        self.columns = columns

    def __iter__(self) -> Iterator[str]:
        batches = itertools.chain.from_iterable(dataset.iter(batch_size=1000) for dataset in self.columns)
        return _require_strings(text for batch in batches for column in batch.values() for text in column)


def train_tokenizer(
    texts: Iterable[str], kind: Kind, vocab_size: int, min_count: int = 2, max_length: int = 64
) -> PreTrainedTokenizerFast:
    """Train a lowercasing (NFKC) tokenizer that splits off punctuation and adds no special token to a text.

    `word` keeps the most frequent words, ties in alphabetical order; `bare_word` also drops punctuation and symbols;
    `wordpiece` learns subwords (Schuster and Nakajima, 2012) from at most the 1,000 most frequent characters. The same
    texts in any order give the same tokenizer, bit for bit.

    Args:
        texts: the texts to train on. `wordpiece` keeps them in memory, unless they are `Texts`.
        kind: "word", "bare_word" or "wordpiece".
        vocab_size: the number of ids, including `[PAD]` (0) and `[UNK]` (1); fewer if the texts have fewer words.
        min_count: a word (or a merge of two subwords) that is less frequent gets no id.
        max_length: the number of tokens to which a text is truncated, if truncation is enabled (`model_max_length`).

    Raises:
        InputError: an option is out of range, a text is not a string, or no word occurs `min_count` times.
    """
    from transformers import PreTrainedTokenizerFast

    check_options(kind, vocab_size, min_count, max_length)
    strings = _require_strings(texts)
    tokenizer = (
        # Read twice: characters, then merges.
        _train_subwords(texts if isinstance(texts, Texts) else list(strings), vocab_size, min_count)
        if kind == "wordpiece"
        else _train_words(strings, vocab_size, min_count, bare=kind == "bare_word")
    )
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise InputError(
            f"tokenizer: no word occurs {min_count} times or more in the texts: use more text or a lower --min_count"
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_max_length=max_length,
        padding_side="right",
        truncation_side="right",
        # With token types, `AutoModelForSequenceClassification` tells the two sentences of a pair apart.
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        # "[PAD]" in a text is three ordinary tokens, never padding.
        split_special_tokens=True,
    )


def check_options(kind: str, vocab_size: int, min_count: int, max_length: int = 1) -> None:
    """Raise an InputError if an option of `train_tokenizer` is out of range."""
    if kind not in get_args(Kind):
        raise InputError(f"--kind {kind}: expected one of {', '.join(get_args(Kind))}")
    if vocab_size <= len(SPECIAL_TOKENS):
        raise InputError(f"--vocab_size {vocab_size}: expected 3 or more ([PAD] and [UNK] take two)")
    for option, value in (("--min_count", min_count), ("max_length", max_length)):
        if value < 1:
            raise InputError(f"{option} {value}: expected 1 or more")


def _require_strings(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(
                f"tokenizer: text {number} is a {type(text).__name__}, expected a string: drop empty rows first"
            )
        yield text


def _untrained_tokenizer(model: models.Model) -> Tokenizer:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _train_words(texts: Iterable[str], vocab_size: int, min_count: int, bare: bool) -> Tokenizer:
    from tokenizers import Regex, models, pre_tokenizers, trainers

    tokenizer = _untrained_tokenizer(models.WordLevel(unk_token="[UNK]"))
    if bare:
        leave_out = pre_tokenizers.Split(Regex(r"[^\p{L}\p{M}\p{N}]+"), "removed")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([tokenizer.pre_tokenizer, leave_out])
    trainer = trainers.WordLevelTrainer(
        vocab_size=vocab_size, min_frequency=min_count, special_tokens=SPECIAL_TOKENS, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _train_subwords(texts: Texts | list[str], vocab_size: int, min_count: int) -> Tokenizer:
    from tokenizers import decoders, models, trainers

    tokenizer = _untrained_tokenizer(models.WordPiece(unk_token="[UNK]"))
    # The trainer numbers characters in the order of a hash table, which differs from run to run, and breaks ties
    # between merges by these numbers. Passing every character as a special token fixes the numbers; afterwards the
    # model is rebuilt without these special tokens.
    alphabet = _alphabet(texts, tokenizer, limit=min(MAX_ALPHABET, vocab_size // 4), min_count=min_count)
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


def _alphabet(texts: Iterable[str], tokenizer: Tokenizer, limit: int, min_count: int) -> list[str]:
    """The `limit` most frequent characters after normalization, sorted by code point."""
    counts: Counter[str] = Counter()
    for text in tqdm(texts, desc="counting characters", unit=" texts", unit_scale=True):
        counts.update(tokenizer.normalizer.normalize_str(text))
    frequent = sorted(
        (character for character, count in counts.items() if count >= min_count and not character.isspace()),
        key=lambda character: (-counts[character], character),
    )
    return sorted(frequent[:limit])


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, output: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json into the folder `output`, replacing an earlier tokenizer.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    with new_folder(output, overwrite=True, kind=OUTPUT_KIND) as (folder, _):
        tokenizer.save_pretrained(folder)


def build_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="python -m trainer.data.tokenizer", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "pairs", nargs="+", metavar="PAIRS", help="folders of pairs or Hub ids; only their train split is read"
    )
    parser.add_argument("--snli", metavar="SOURCE", help="also train on SNLI's train split (folder or Hub id)")
    add_output_argument(parser, "folder to which the tokenizer is saved, for example data/tokenizer")
    parser.add_argument(
        "--kind",
        choices=get_args(Kind),
        default="word",
        help="words and punctuation marks, words only, or subwords (default: %(default)s)",
    )
    parser.add_argument(
        "--vocab_size",
        type=whole_number(1),
        default=30000,
        metavar="N",
        help="maximum number of ids, including [PAD] and [UNK] (default: %(default)s)",
    )
    parser.add_argument(
        "--min_count",
        type=whole_number(1),
        default=2,
        metavar="N",
        help="words that occur less often are unknown (default: %(default)s)",
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Train on the train splits, save the tokenizer, and print its size; returns the exit code.

    Raises:
        InputError: an option is out of range, or pairs cannot be read or have no train split.
    """
    check_options(args.kind, args.vocab_size, args.min_count)
    check_replaceable(args.output, overwrite=True, kind=OUTPUT_KIND)
    sources = [(load_pairs(source), ["input", "response"], source) for source in args.pairs]
    if args.snli is not None:
        from data_scripts.public.nli import load_nli

        sources.append((load_nli(args.snli), ["premise", "hypothesis"], args.snli))
    for splits, _, source in sources:
        if "train" not in splits:
            raise InputError(
                f"{source}: has no train split (it has {', '.join(splits)}); a tokenizer is trained on train only"
            )
    columns = [splits["train"].select_columns(names) for splits, names, _ in sources]
    total = sum(column.num_rows * column.num_columns for column in columns)
    texts: Iterable[str] = Texts(columns)
    if args.kind != "wordpiece":  # which shows its own progress
        texts = tqdm(texts, desc="reading", total=total, unit=" texts", unit_scale=True)
    tokenizer = train_tokenizer(texts, args.kind, args.vocab_size, args.min_count)
    save_tokenizer(tokenizer, args.output)
    print(f"{len(tokenizer):,} {args.kind} tokens, including [PAD] and [UNK], saved in {args.output}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())
