"""Adapt the base model to your own chats: reads the logs, trains, compares, and builds an index of replies.

The logs are read as `python -m data_scripts conversations` reads them, with the same options. OUTPUT becomes a run's
folder with the adapted model in OUTPUT/model, the pairs in OUTPUT/pairs, and an index of the replies in OUTPUT/replies.
A tenth of the conversations is the test split, on which the model is compared with the base and with word overlap. What
is printed is also in OUTPUT/results.json.

Each step is also a command of its own: `data_scripts conversations`, `trainer/run.py trainer/presets/adapt.yaml`,
`trainer.evaluation`, and `modeling_convsim.suggestion`.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data_scripts.command_line import ArgumentParser, run_stoppable
from data_scripts.commands import find_commands
from data_scripts.errors import USER_ERRORS, InputError, refuse_options, user_message
from data_scripts.read.storage import is_url
from trainer.adapt.folder import BASE, FEWEST_PAIRS, choose_base, prepare_folder


def build_parser() -> ArgumentParser:
    """The command line: the options of `data_scripts conversations`, and those of the model."""
    parser = ArgumentParser(
        prog="python -m trainer.adapt",
        description=__doc__,
        epilog="example: python -m trainer.adapt support.csv --columns thread=ticket speaker=from time=at --mask "
        "-o runs/chats",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    find_commands()["conversations"].load().add_arguments(parser)
    # The output is a run here, not a dataset that can be published.
    helps = {
        "--output": "folder of the run",
        "--overwrite": "replace a finished run",
        "--license": "license of the model, for its card",
        "--push_to_hub": argparse.SUPPRESS,
    }
    for option, text in helps.items():
        parser._option_string_actions[option].help = text
    group = parser.add_argument_group("model")
    group.add_argument(
        "--base",
        metavar="MODEL",
        help="folder or Hub id of the multitask model to adapt (default: "
        f"{BASE.parent.name}/{BASE.name} of this clone)",
    )
    group.add_argument(
        "--precision",
        type=float,
        default=0.8,
        metavar="P",
        help="required precision of suggested replies, for which the index is calibrated; the highest one that is "
        "possible below it if it is not (default: %(default)s)",
    )
    return parser


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run all steps; returns the contents of results.json.

    Raises:
        InputError: a file, an option or the base is not usable, or there are too few pairs.
    """
    refuse_options(
        {"--push_to_hub": bool(args.push_to_hub)},
        "this would publish your texts; publish the model with `python -m trainer.publish`",
    )
    if is_url(args.output):
        raise InputError(f"--output {args.output}: a run is written to a disk; name a folder")
    if not 0 < args.precision <= 1:
        raise InputError(f"--precision is {args.precision:g}; expected a number above 0, at most 1")
    base, folder, seconds = choose_base(args.base), args.output, dict[str, float]()
    with _timed(seconds, "imports and checks"):
        import datasets

        from trainer.adapt.training import check_base, load_splits, train_model

        datasets.disable_progress_bars()  # reading the pairs again takes a moment
        prepare_folder(folder, args.overwrite)
        check_base(base)
    with _timed(seconds, "reading the logs"):
        report = read_logs(args, folder / "pairs")
    with _timed(seconds, "training"):
        arguments = train_model(base, folder, args.license)
        splits = load_splits(arguments)
    from trainer.adapt.comparison import compare, format_comparison
    from trainer.adapt.replies import build_index, format_calibration, format_examples, suggest_examples
    from trainer.evaluation.results import read_results, update_results

    with _timed(seconds, "comparison"):
        comparison = compare(base, folder / "model", splits.test)
        print(format_comparison(comparison), end="\n\n")
    with _timed(seconds, "index of replies"):
        index, calibration = build_index(folder, splits, args.precision)
        examples = suggest_examples(index, splits.test)
    print(format_calibration(calibration), format_examples(examples), sep="\n\n", end="\n\n")
    print(" · ".join(f"{step} {elapsed:.1f} s" for step, elapsed in seconds.items()), end="\n\n")
    print(next_commands(folder))
    results = {
        "baselines": {name: {"response_prediction": part} for name, part in comparison.baselines.items()},
        "chats": {"report": report, "calibration": calibration, "examples": examples, "seconds": seconds},
    }
    update_results(folder / "results.json", results)
    return read_results(folder / "results.json")


def read_logs(args: argparse.Namespace, output: Path) -> dict[str, Any]:
    """Write the pairs of the logs, and print the counts; returns the report.

    Raises:
        InputError: a log cannot be read, or has too few pairs.
    """
    command = find_commands()["conversations"].load()
    command.run(argparse.Namespace(**{**vars(args), "output": output, "overwrite": True}))
    report = json.loads((output / "report.json").read_text(encoding="utf-8"))
    if (written := report["pairs"]["written"]) < FEWEST_PAIRS:
        raise InputError(
            f"{', '.join(map(str, args.files))}: {written} pairs, expected {FEWEST_PAIRS} or more to adapt a model and "
            "to measure it; the counts above tell what was left out. Add more logs, or use the base as it is"
        )
    print()
    return report


def next_commands(folder: Path) -> str:
    """What to do with an adapted model."""
    return f"""Suggest replies in Python:
  from modeling_convsim.suggestion import ReplyIndex
  print(ReplyIndex.load("{folder / "replies"}").suggest("Is the shop open on Friday?"))
Compare and encode sentences:
  from modeling_convsim import Encoder
  print(Encoder.from_pretrained("{folder / "model"}").encode(["Is the shop open on Friday?"]))
Open the page:
  python model_cards/space/app.py {folder / "replies"}
Publish the model, without your texts:
  python -m trainer.publish {folder} --hub_model_id OWNER/NAME"""


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[step] = round(time.monotonic() - started, 1)


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0, or 2 after a user error, whose message goes to stderr."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for library in ("accelerate", "datasets", "httpx", "sentence_transformers"):
        logging.getLogger(library).setLevel(logging.WARNING)

    def execute() -> int:
        try:
            run(build_parser().parse_args(arguments))
        except USER_ERRORS as error:
            print(f"error: {user_message(error)}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as stopped:  # during training, a signal has a message and an exit code
            if not hasattr(stopped, "exit_code"):
                raise
            print(f"error: {stopped}", file=sys.stderr)
            return int(stopped.exit_code)
        return 0

    return run_stoppable(execute)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
