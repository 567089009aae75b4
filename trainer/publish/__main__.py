"""Publish a model: verify that transformers, convsim and sentence-transformers load its folder, and upload it.

Or publish a Space: a demo page for a published model, with an index of replies.

convsim publish runs/NAME --hub_model_id ORG/NAME [--seeds runs/NAME-1 runs/NAME-2]
convsim publish --index runs/replies --hub_model_id ORG/NAME --space_id ORG/SPACE
"""

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from modeling_convsim.files.command_line import ArgumentParser, run_stoppable
from modeling_convsim.files.errors import InputError


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(prog="convsim publish", description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="folder of a finished run, for example runs/quickstart"
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUN",
        help="finished runs that differ from RUN only in the seed; their test scores are added to its results and card",
    )
    parser.add_argument(
        "--index",
        type=Path,
        metavar="FOLDER",
        help="publish a demo page instead, with this index or the index of this run",
    )
    hub = parser.add_argument_group("Hub")
    hub.add_argument("--hub_model_id", metavar="ORG/NAME", help="model repository, created if it does not exist")
    hub.add_argument("--space_id", metavar="ORG/NAME", help="Space for the page, created if it does not exist")
    hub.add_argument("--public", action="store_true", help="create a public repository (default: a private one)")
    hub.add_argument("--revision", metavar="BRANCH", help="branch to commit to, created if it does not exist")
    hub.add_argument("--create_pr", action="store_true", help="open a pull request instead of committing")
    hub.add_argument(
        "--dry_run",
        action="store_true",
        help="upload nothing: write the run's card, verify its folder, and print the address, visibility, license "
        "and files (with sizes)",
    )
    return parser


def run(args: Namespace) -> int:
    """Publish what the command line names, and print the URL of the commit; returns the exit code.

    Raises:
        InputError: the options do not fit together, a folder is incomplete, or the upload failed.
    """
    # Imported here because they take seconds, which `--help` should not.
    from trainer.publish.seeds import add_seeds
    from trainer.publish.upload import Destination, publish, publish_page

    options = {"public": args.public, "revision": args.revision, "create_pr": args.create_pr}
    if args.run and args.hub_model_id and not (args.index or args.space_id):
        if args.seeds:
            add_seeds([args.run, *args.seeds])
        published = publish(args.run, Destination(args.hub_model_id, **options), dry_run=args.dry_run)
    elif args.index and args.hub_model_id and args.space_id and not (args.run or args.seeds):
        space = Destination(args.space_id, **options)
        published = publish_page(args.index, args.hub_model_id, space, dry_run=args.dry_run)
    else:
        raise InputError(
            "expected RUN --hub_model_id ORG/NAME, or --index FOLDER --hub_model_id ORG/NAME --space_id ORG/SPACE"
        )
    print(f"verified, not uploaded\n{published}" if args.dry_run else f"published: {published}")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
