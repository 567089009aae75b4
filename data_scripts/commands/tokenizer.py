"""Train a tokenizer on the train split of pairs, and save it so that AutoTokenizer loads it.

Large libraries are imported where they are used, so that the options are printed at once.
"""

import argparse
from collections.abc import Iterable
from typing import get_args

from tqdm import tqdm

from data_scripts.files.command_line import add_output_argument
from data_scripts.files.datasets import load_pairs
from data_scripts.files.errors import InputError
from data_scripts.files.folders import check_replaceable
from data_scripts.public.nli import load_nli
from data_scripts.tokenizer import OUTPUT_KIND, Kind, Texts, check_options, save_tokenizer, train_tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
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
        type=int,
        default=30000,
        metavar="N",
        help="maximum number of ids, including [PAD] and [UNK] (default: %(default)s)",
    )
    parser.add_argument(
        "--min_count",
        type=int,
        default=2,
        metavar="N",
        help="words that occur less often are unknown (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> None:
    """Train on the train splits, save the tokenizer, and print its size."""
    check_options(args.kind, args.vocab_size, args.min_count)
    check_replaceable(args.output, overwrite=True, kind=OUTPUT_KIND)
    sources = [(load_pairs(source), ["input", "response"], source) for source in args.pairs]
    if args.snli is not None:
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
