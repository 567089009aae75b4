"""The commands `convsim suggest` and `convsim index`; in Python, use `ReplyIndex`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from modeling_convsim.encoding.loading import MODEL_HELP, add_hardware_arguments
from modeling_convsim.encoding.text_files import TABLE_SUFFIXES, is_table, read_texts
from modeling_convsim.files.command_line import (
    ArgumentParser,
    add_output_argument,
    number,
    run_stoppable,
    whole_number,
)
from modeling_convsim.files.errors import InputError, one_line
from modeling_convsim.files.storage import locked, make_folder, resolve_links

if TYPE_CHECKING:
    from modeling_convsim.suggestion.reply_index import Suggestion

INDEX_EXAMPLES = """examples:
  convsim index pairs.csv -o runs/replies
  convsim index faq.csv --messages question --replies answer --by_messages -o runs/faq
  convsim index replies.txt --model runs/quickstart/model -o runs/replies"""
SUGGEST_EXAMPLES = """examples:
  convsim suggest runs/support "Is the shop open on Friday?"
  convsim suggest runs/support --allowed approved.txt < messages.txt"""


def main(arguments: list[str] | None = None) -> int:
    """Suggests replies; returns the exit code: 0, 2 after an error message, or 128 + signal."""
    return run_stoppable(lambda: _run(_suggest, _parse_suggest(arguments)))


def index(arguments: list[str] | None = None) -> int:
    """Builds an index; returns the exit code."""
    return run_stoppable(lambda: _run(_index, _parse_index(arguments)))


def _run(command: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> int:
    try:
        command(options)
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
    return 0


def _parse_suggest(arguments: list[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(
        prog="convsim suggest",
        description="Suggest three replies to a message, each with the probability that it can be sent.",
        epilog=SUGGEST_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, help="folder of a `convsim adapt` run or of an index")
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="messages to answer (default: lines of standard input)"
    )
    group = parser.add_argument_group("suggestions")
    group.add_argument(
        "--context",
        metavar="FILE",
        help="text file with the earlier turns of the conversation, one per line, the oldest first; needs a single "
        "TEXT and a model with context_weights (default: none)",
    )
    group.add_argument("--k", type=whole_number(1), default=3, help="number of suggestions per text (default: 3)")
    group.add_argument(
        "--min_probability",
        type=number(0, 1),
        default=0.0,
        help="leave out suggestions with a lower probability (default: 0)",
    )
    group.add_argument("--name", help='name of the author of TEXT, which replaces "[name]" in replies (default: none)')
    group.add_argument(
        "--allowed",
        metavar="FILE",
        help="text file with the replies that may be suggested, one per line; the index must contain all of them "
        "(default: all replies of the index)",
    )
    group = parser.add_argument_group("model")
    group.add_argument("--model", help="folder or Hub id of the model, if it has moved (default: that in the index)")
    add_hardware_arguments(parser)
    options, rest = parser.parse_known_args(arguments)
    if any(word.startswith("-") for word in rest):
        parser.parse_args(arguments)  # exits with a message
    options.texts += rest  # argparse takes no more TEXT after an option in between
    return options


def _parse_index(arguments: list[str] | None) -> argparse.Namespace:
    parser = ArgumentParser(
        prog="convsim index",
        description="Index replies without adapting a model. Some pairs are held out to estimate probabilities.",
        epilog=INDEX_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="PAIRS",
        help=f"tables ({TABLE_SUFFIXES}) of messages and their replies, or text files with one reply per line",
    )
    group = parser.add_argument_group("input and output")
    group.add_argument("--replies", metavar="COLUMN", help="column of the replies (default: response)")
    group.add_argument("--messages", metavar="COLUMN", help="column of the messages (default: input)")
    group.add_argument(
        "--by_messages",
        action="store_true",
        help="score replies only by the messages that they answered; for an FAQ, whose questions are the messages and "
        "whose answers are the replies",
    )
    add_output_argument(group, "folder of the index")
    group = parser.add_argument_group("model")
    group.add_argument("--model", default="base", help=f"{MODEL_HELP} (default: base, which ships with convsim)")
    add_hardware_arguments(parser)
    options = parser.parse_args(arguments)
    texts = [file for file in options.files if not is_table(file)]
    if texts and len(texts) < len(options.files):
        parser.error(f"{texts[0]} has no columns: expected tables ({TABLE_SUFFIXES}) only, or text files only")
    for name in ("replies", "messages", "by_messages"):
        if texts and getattr(options, name):
            parser.error(f"--{name}: {texts[0]} has no columns, expected tables ({TABLE_SUFFIXES})")
    return options


def _index(options: argparse.Namespace) -> None:
    from modeling_convsim.encoding import Encoder
    from modeling_convsim.suggestion.estimate import review_pairs
    from modeling_convsim.suggestion.reply_index import ReplyIndex
    from modeling_convsim.suggestion.storage import check_index_folder

    check_index_folder(options.output)
    replies = _texts(options.files, options.replies or "response", "replies")
    messages = _texts(options.files, options.messages or "input", "messages") if is_table(options.files[0]) else None
    folder = resolve_links(options.output)
    make_folder(folder.parent)
    with locked(folder):  # so that a second process fails before it encodes everything
        encoder = Encoder.from_pretrained(options.model, options.device, options.dtype)
        built = ReplyIndex.build(encoder, replies, messages, by_messages=options.by_messages, show_progress=True)
        review_pairs(built)
        built.save(options.output)
    following = f"; next: convsim review {options.output}" if built.review else ""
    blank = f"; empty replies left out: {built.replies.blank:,}" if built.replies.blank else ""
    print(f"{options.output}: {len(built):,} distinct replies of {built.total:,}{blank}{following}")


def _suggest(options: argparse.Namespace) -> None:
    from modeling_convsim.encoding import Encoder
    from modeling_convsim.suggestion.probability import LEAST
    from modeling_convsim.suggestion.reply_index import ReplyIndex

    encoder = Encoder.from_pretrained(options.model, options.device, options.dtype) if options.model else None
    index = ReplyIndex.load(options.run, encoder, device=options.device, dtype=options.dtype)
    if options.allowed:
        index = index.only(read_texts(options.allowed))
    context: list[str] = []
    if options.context:
        if len(options.texts) != 1:
            raise ValueError(f"--context {options.context}: expected exactly one TEXT")
        if not index.encoder.uses_context:
            raise ValueError(f"--context {options.context}: the model has no context_weights, so it ignores contexts")
        context = list(read_texts(options.context))[::-1]
    note = "  (estimated probabilities)" if index.is_estimated else ""
    note = note if index.settings.curve else f"  (no probabilities before {LEAST} ratings)"
    for text in options.texts or read_texts("-"):
        print(f"{one_line(text)}{note}")
        for each in index.suggest(text, options.k, context, options.min_probability, options.name):
            print(format_suggestion(each))
        sys.stdout.flush()


def format_suggestion(suggestion: Suggestion) -> str:
    """A suggestion as a line: its probability, the reply, the parts to change, and the message that it answered."""
    chance = "?" if suggestion.probability is None else f"{suggestion.probability:.0%}"
    parts = dict.fromkeys(one_line(suggestion.text[slice(*span)]) for span in suggestion.spans)
    details = [f"change: {', '.join(parts)}"] if parts else []
    details += [f"answered: {one_line(suggestion.message)}"] if suggestion.message is not None else []
    details += [f"given {suggestion.count:,} times"] if suggestion.count > 1 else []
    return f"  {chance:>4}  {one_line(suggestion.text)}" + f"  ({'; '.join(details)})" * bool(details)


def _texts(files: list[str], column: str, option: str) -> Iterator[str]:
    return chain.from_iterable(read_texts(file, column, f": choose one with --{option}", "") for file in files)


if __name__ == "__main__":
    sys.exit(main())
