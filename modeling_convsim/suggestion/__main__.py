"""The command that suggests replies to a message; in Python, use `ReplyIndex`."""

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.loading import MODEL_HELP, add_hardware_arguments
from modeling_convsim.encoding.text_files import TABLE_SUFFIXES, is_table, read_contexts, read_texts
from modeling_convsim.files.command_line import (
    ArgumentParser,
    add_output_argument,
    number,
    run_stoppable,
    whole_number,
)
from modeling_convsim.files.errors import InputError, one_line
from modeling_convsim.suggestion.calibration import choose_examples
from modeling_convsim.suggestion.reply_index import DIVERSITY, ReplyIndex
from modeling_convsim.suggestion.storage import check_index_folder, lock_index

RUN = "  convsim suggest"
EXAMPLES = {
    "build": f"""{RUN} build runs/quickstart/model data/sample/train*.parquet --messages input -o runs/replies
{RUN} build runs/quickstart/model replies.txt -o runs/replies
{RUN} build runs/quickstart/model faq.csv --replies answer --messages question --by_messages -o runs/faq""",
    "suggest": f"""{RUN} suggest runs/replies "Is the shop open on Friday?" --k 3
{RUN} suggest runs/replies --allowed approved.txt < messages.txt""",
    "calibrate": f"{RUN} calibrate runs/replies data/sample/test*.parquet",
}


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses and validates the command line."""
    parser = ArgumentParser(
        prog="convsim suggest",
        description="Suggest replies with a saved model.",
        epilog="\n".join(["examples:", *EXAMPLES.values()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_build(commands)
    _add_suggest(commands)
    _add_calibrate(commands)
    options, rest = parser.parse_known_args(arguments)
    if options.command == "suggest" and not any(word.startswith("-") for word in rest):
        options.texts += rest  # argparse takes no more TEXT after an option in between
    elif rest:
        parser.parse_args(arguments)  # exits with a message
    if options.command == "build":
        _check_columns(parser, options)
    return options


def _check_columns(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuses names of columns that `build` would ignore."""
    texts = [file for file in options.files if not is_table(file)]
    for name in ("replies", "messages"):
        column = getattr(options, name)
        if column and texts and (name == "messages" or len(texts) == len(options.files)):
            parser.error(f"--{name} {column}: {texts[0]} has no columns, expected tables ({TABLE_SUFFIXES})")
    if options.by_messages and not options.messages:
        parser.error("--by_messages: expected the column of the messages, --messages COLUMN")


def _add_command(commands: Any, name: str, help: str) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=help,
        description=help,
        epilog=f"examples:\n{EXAMPLES[name]}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_build(commands: Any) -> None:
    build = _add_command(commands, "build", "Build an index of replies, and save it.")
    build.add_argument("model", help=MODEL_HELP)
    build.add_argument(
        "files", nargs="+", metavar="FILE", help=f"replies: one per line, UTF-8, or a table ({TABLE_SUFFIXES})"
    )
    group = build.add_argument_group("input and output")
    group.add_argument("--replies", metavar="COLUMN", help="column of tables with the replies (default: response)")
    group.add_argument(
        "--messages",
        metavar="COLUMN",
        help="column of tables with the messages that the replies answered: a reply also scores by the similarity of "
        "such a message to the one that is answered, and is shown with it (default: none)",
    )
    group.add_argument(
        "--by_messages",
        action="store_true",
        help="score replies only by the messages that they answered, for an FAQ: its questions are the messages, and "
        "its answers the replies",
    )
    add_output_argument(group, "folder of the index")
    add_hardware_arguments(build)


def _add_suggest(commands: Any) -> None:
    suggest = _add_command(commands, "suggest", "Suggest replies to messages.")
    suggest.add_argument("index", type=Path, help="folder of an index")
    suggest.add_argument(
        "texts", nargs="*", metavar="TEXT", help="messages to answer (default: lines of standard input)"
    )
    group = suggest.add_argument_group("suggestions")
    group.add_argument(
        "--context",
        metavar="FILE",
        help="earlier turns of the conversation of the one TEXT: a text file, one per line, the oldest first (default: "
        "none; they count for a model with context_weights)",
    )
    group.add_argument(
        "--k", type=whole_number(1), default=3, help="maximum number of suggestions per text (default: 3)"
    )
    group.add_argument(
        "--min_score", type=_score, default=-math.inf, help="lowest score of a suggestion (default: any)"
    )
    group.add_argument(
        "--diversity",
        type=number(0, 1),
        default=DIVERSITY,
        help=f"0 suggests the replies with the highest scores; up to 1, they differ more (default: {DIVERSITY:g})",
    )
    group.add_argument(
        "--allowed",
        metavar="FILE",
        help="suggest only these replies: a text file, one per line, all of them in the index (default: the whole "
        "index)",
    )
    _add_model(suggest)
    add_hardware_arguments(suggest)


def _add_calibrate(commands: Any) -> None:
    calibrate = _add_command(
        commands, "calibrate", "Measure on held-out pairs how often the best suggestion is right, by its score."
    )
    calibrate.add_argument("index", type=Path, help="folder of an index")
    calibrate.add_argument(
        "pairs",
        nargs="+",
        metavar="PAIRS",
        help=f"tables ({TABLE_SUFFIXES}) of pairs that neither the model nor the index has seen, with the columns "
        "input and response; a suggestion is right if it answers to the same effect as the pair's own reply",
    )
    group = calibrate.add_argument_group("input")
    group.add_argument(
        "--context",
        metavar="COLUMN",
        help="column of the pairs with the earlier turns of the conversation, a list with the newest first (default: "
        "none)",
    )
    _add_model(calibrate)
    add_hardware_arguments(calibrate)


def _add_model(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("model")
    group.add_argument("--model", help="where the index's model is now (default: the folder or name in the index)")


def _score(value: str) -> float:
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise argparse.ArgumentTypeError(f"{value}: expected a number")
    return score


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, 2 after an error message, or 128 + signal."""
    return run_stoppable(lambda: _run(parse_arguments(arguments)))


def _run(options: argparse.Namespace) -> int:
    try:
        {"build": _build, "suggest": _suggest, "calibrate": _calibrate}[options.command](options)
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
    return 0


def _build(options: argparse.Namespace) -> None:
    check_index_folder(options.output)
    replies, messages = (
        _texts(options.files, column, f": choose one with --{name}") if column else None
        for name, column in (("replies", options.replies or "response"), ("messages", options.messages))
    )
    with lock_index(options.output):  # a second process should not find out only when it has encoded everything
        encoder = Encoder.from_pretrained(options.model, options.device, options.dtype)
        index = ReplyIndex.build(encoder, replies or (), messages, by_messages=options.by_messages, show_progress=True)
        index.save(options.output)
    print(f"{options.output}: {len(index):,} distinct replies of {index.total:,}")


def _suggest(options: argparse.Namespace) -> None:
    index = _load(options)
    if options.allowed:
        index = index.only(read_texts(options.allowed))
    context: list[str] = []
    if options.context:
        if len(options.texts) != 1:
            raise ValueError(f"--context {options.context}: expected one TEXT, whose conversation it is")
        _require_weights(index, options.context)
        context = list(read_texts(options.context))[::-1]
    for text in options.texts or read_texts("-"):
        suggestions = index.suggest(text, options.k, options.min_score, options.diversity, context)
        print(one_line(text))
        for each in suggestions:
            details = [f"{each.count:,} times"] if each.count > 1 else []
            details += [] if each.precision is None else [f"precision {each.precision:.0%}"]
            print(f"  {each.score:8.3f}  {one_line(each.text)}" + f"  ({'; '.join(details)})" * bool(details))
            if each.message is not None:
                print(f"            in reply to: {one_line(each.message)}")
        if not suggestions:
            print("  no suggestion")
        sys.stdout.flush()


def _calibrate(options: argparse.Namespace) -> None:
    for file in options.pairs:
        if not is_table(file):
            raise ValueError(f"{file}: expected a table ({TABLE_SUFFIXES}) with the columns input, response")
    messages, replies = (
        list(_texts(options.pairs, column, ", expected input and response")) for column in ("input", "response")
    )
    index, contexts = _load(options), None
    if options.context:
        _require_weights(index, options.context)
        contexts = [context for file in options.pairs for context in read_contexts(file, options.context)]
    calibration = index.calibrate(messages, replies, show_progress=True, contexts=contexts)
    index.settings = replace(index.settings, examples=choose_examples(messages))
    index.save_settings(options.index)
    print("threshold  precision  coverage")
    for row in calibration.table:
        print(f"{row.threshold:9.3f}  {row.precision:9.1%}  {row.coverage:8.1%}")
    print(f"{options.index}: measured on {calibration.pairs:,} pairs")


def _require_weights(index: ReplyIndex, context: str) -> None:
    if not index.encoder.uses_context:
        raise ValueError(f"--context {context}: the model has no context_weights, so it would ignore earlier turns")


def _load(options: argparse.Namespace) -> ReplyIndex:
    encoder = Encoder.from_pretrained(options.model, options.device, options.dtype) if options.model else None
    return ReplyIndex.load(options.index, encoder, options.device, options.dtype)


def _texts(files: list[str], column: str, remedy: str) -> Iterator[str]:
    """Yields the texts of several files; `remedy` is as in `read_texts`."""
    return chain.from_iterable(read_texts(file, column, remedy) for file in files)


if __name__ == "__main__":
    sys.exit(main())
