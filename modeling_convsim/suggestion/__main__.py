"""The command that suggests replies to a message; in Python, use `ReplyIndex`."""

import argparse
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from modeling_convsim.encoding.options import Dtype
from modeling_convsim.encoding.text_files import read_texts
from modeling_convsim.suggestion.extra import import_extra
from modeling_convsim.suggestion.options import DUPLICATE_COSINE, IndexSide

if TYPE_CHECKING:
    from modeling_convsim.suggestion import ReplyIndex

RUN = "  python -m modeling_convsim.suggestion"
EXAMPLES = {
    "build": f"""{RUN} build runs/quickstart/model data/sample/*.parquet -o runs/replies
{RUN} build runs/quickstart/model replies.txt -o runs/replies
{RUN} build runs/quickstart/model faq.parquet --side input --column question --answers answer -o runs/faq""",
    "suggest": f"""{RUN} suggest runs/replies "Is the shop open on Friday?" --k 3
{RUN} suggest runs/replies --allowed approved.txt < messages.txt""",
    "calibrate": f"{RUN} calibrate runs/replies data/sample/test*.parquet --precision 0.8",
}


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses and validates the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m modeling_convsim.suggestion",
        description="Suggest replies, or find questions (FAQ), with a saved model.",
        epilog="\n".join(["examples:", *EXAMPLES.values()]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_build(commands)
    _add_suggest(commands)
    _add_calibrate(commands)
    options, rest = parser.parse_known_args(arguments)
    # argparse takes no more TEXT after an option in between.
    if rest and (options.command != "suggest" or any(text.startswith("-") for text in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.texts += rest
    return options


def _add_command(commands: Any, name: str, help: str) -> argparse.ArgumentParser:
    """A parser with the options that all commands share."""
    command = commands.add_parser(
        name,
        help=help,
        description=help,
        epilog=f"examples:\n{EXAMPLES[name]}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--device", help="cpu, cuda, cuda:1 … (default: a GPU if there is one)")
    command.add_argument(
        "--dtype",
        choices=get_args(Dtype),
        default="float32",
        help="precision of the model; auto: bfloat16 if this device has instructions for it (default: float32)",
    )
    return command


def _add_build(commands: Any) -> None:
    build = _add_command(commands, "build", "Build an index of replies, or of questions, and save it.")
    build.add_argument("model", help="folder of a saved model and its tokenizer, or its name on the Hub")
    build.add_argument("files", nargs="+", metavar="FILE", help="texts: one per line, UTF-8, or a .parquet file")
    build.add_argument("-o", "--output", type=Path, required=True, help="folder of the index")
    build.add_argument(
        "--side",
        choices=get_args(IndexSide),
        default="response",
        help="response: replies, scored by the model; input: questions, scored by cosine (default: response)",
    )
    build.add_argument("--column", help="column of .parquet files with the texts (default: the value of --side)")
    build.add_argument("--answers", metavar="COLUMN", help="column of .parquet files to show with each text found")
    build.add_argument(
        "--duplicate-cosine",
        type=float,
        default=DUPLICATE_COSINE,
        help="near-duplicates are texts whose sentence embeddings have this cosine or more; only the best of them is "
        f"suggested; 1 turns this off (default: {DUPLICATE_COSINE})",
    )
    build.add_argument(
        "--truncate-dim",
        type=int,
        metavar="N",
        help="truncate vectors to N dimensions, for Matryoshka embeddings: a model trained with matryoshka_dims "
        "(default: no truncation)",
    )
    build.add_argument("--processes", type=int, default=1, help="number of encoding processes (default: 1)")


def _add_suggest(commands: Any) -> None:
    suggest = _add_command(
        commands, "suggest", "Suggest replies to texts; none if none reaches the threshold that calibrate set."
    )
    suggest.add_argument("index", type=Path, help="folder of an index")
    suggest.add_argument("texts", nargs="*", metavar="TEXT", help="texts to answer (default: lines of standard input)")
    suggest.add_argument("--k", type=int, default=3, help="replies per text (default: 3)")
    suggest.add_argument(
        "--threshold", type=float, help="lowest score, instead of the index's threshold; --threshold=-inf for none"
    )
    suggest.add_argument(
        "--allowed", metavar="FILE", help="suggest only these replies, which must be in the index; see FILE of build"
    )
    suggest.add_argument("--column", default="response", help="column of --allowed, if .parquet (default: response)")
    _add_model(suggest)


def _add_calibrate(commands: Any) -> None:
    calibrate = _add_command(
        commands, "calibrate", "Set the threshold, the score below which nothing is suggested, from held-out pairs."
    )
    calibrate.add_argument("index", type=Path, help="folder of an index")
    calibrate.add_argument("pairs", nargs="+", help=".parquet files of pairs that model and index have not seen")
    calibrate.add_argument(
        "--precision",
        type=float,
        default=0.9,
        help="required precision: the share of suggestions that are right, which means that the pair's own reply, or a "
        "near-duplicate of it, scores above all other candidates (default: 0.9)",
    )
    calibrate.add_argument(
        "--candidates",
        type=_candidates,
        default=100,
        help="number of candidates: the pair's own reply and others sampled from the index; all: the whole index "
        "(default: 100)",
    )
    calibrate.add_argument("--input", default="input", help="column of the texts to answer (default: input)")
    calibrate.add_argument("--response", default="response", help="column of the right replies (default: response)")
    _add_model(calibrate)


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", help="where the index's model is, if it has been moved")


def _candidates(value: str) -> int | None:
    try:
        return None if value == "all" else int(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r}, expected a number or all") from None


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, or 2 after an error message."""
    options = parse_arguments(arguments)
    try:
        {"build": _build, "suggest": _suggest, "calibrate": _calibrate}[options.command](options)
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


# The functions below import what needs torch, which takes seconds, after the arguments are parsed.


def _build(options: argparse.Namespace) -> None:
    from modeling_convsim.encoding.encoder import Encoder
    from modeling_convsim.suggestion.reply_index import ReplyIndex
    from modeling_convsim.suggestion.storage import check_index_folder

    check_index_folder(options.output)
    import_extra("pyarrow.parquet", "saving an index")
    for file in options.files:
        if options.answers and not file.endswith(".parquet"):
            raise ValueError(f"--answers {options.answers}: {file} has no columns, expected .parquet files")
    index = ReplyIndex.build(
        Encoder.from_pretrained(options.model, options.device, options.dtype, options.truncate_dim),
        _texts(options.files, options.column or options.side, "--column"),
        options.side,
        _texts(options.files, options.answers, "--answers") if options.answers else None,
        options.duplicate_cosine,
        show_progress=True,
        processes=options.processes,
    )
    index.save(options.output)
    kind = "replies" if options.side == "response" else "questions"
    print(f"{options.output}: {len(index):,} distinct {kind} of {index.replies.counts.sum():,}")


def _suggest(options: argparse.Namespace) -> None:
    index = _load(options)
    if options.allowed:
        index = index.only(_texts([options.allowed], options.column, "--column"))
    for text in options.texts or read_texts("-", ""):
        suggestions = index.suggest(text, options.k, options.threshold)
        print(text)
        for suggestion in suggestions:
            times = f"  ({suggestion.count:,} times)" if suggestion.count > 1 else ""
            print(f"  {suggestion.score:8.3f}  {suggestion.text}{times}")
            if suggestion.answer is not None:
                print(f"            {suggestion.answer}")
        if not suggestions:
            print("  no suggestion")
        sys.stdout.flush()


def _calibrate(options: argparse.Namespace) -> None:
    for file in options.pairs:
        if not file.endswith(".parquet"):
            raise ValueError(f"{file}: expected a .parquet file with the columns {options.input}, {options.response}")
    inputs = list(_texts(options.pairs, options.input, "--input"))
    expected = list(_texts(options.pairs, options.response, "--response"))
    index = _load(options)
    result = index.calibrate(inputs, expected, options.precision, options.candidates, show_progress=True)
    index.save_settings(options.index)
    candidates = "all replies" if result.candidates is None else f"{result.candidates:,} candidates"
    print(
        f"{options.index}: threshold {result.threshold:.3f}; precision {result.precision:.1%} among {candidates} and "
        f"coverage {result.coverage:.1%} of {result.pairs:,} pairs"
    )


def _load(options: argparse.Namespace) -> "ReplyIndex":
    from modeling_convsim.encoding.encoder import Encoder
    from modeling_convsim.suggestion.reply_index import ReplyIndex

    encoder = Encoder.from_pretrained(options.model, options.device, options.dtype) if options.model else None
    return ReplyIndex.load(options.index, encoder, options.device, options.dtype)


def _texts(files: list[str], column: str, option: str) -> Iterator[str]:
    """Yields the texts of several files; `option` is the one that names their column."""
    try:
        yield from chain.from_iterable(read_texts(file, column) for file in files)
    except ValueError as error:
        raise ValueError(str(error).replace("--column", option)) from error


if __name__ == "__main__":
    sys.exit(main())
