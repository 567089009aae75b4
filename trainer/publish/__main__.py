"""Publish a model: verify its folder, which transformers, convsim and sentence-transformers load, and upload it.

Or publish a demo page for a published model with an index of replies, or a metric, as a Space.

python -m trainer.publish runs/NAME --hub_model_id ORG/NAME
python -m trainer.publish --index runs/replies --hub_model_id ORG/NAME --space_id ORG/SPACE
python -m trainer.publish --metric precision_at_n --space_id ORG/precision_at_n
"""

import argparse
import sys
from pathlib import Path

from data_scripts.errors import InputError
from trainer.publish.spaces import push_metric, push_page
from trainer.publish.upload import publish


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit code is 0, or 2 after a user error."""
    parser = argparse.ArgumentParser(prog="python -m trainer.publish", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, help="folder of a finished run, for example runs/quickstart")
    parser.add_argument("--hub_model_id", help="repository to publish to, ORG/NAME; created if it does not exist")
    parser.add_argument(
        "--index",
        type=Path,
        help="publish a page instead, with this index, which `modeling_convsim.suggestion build` wrote with the model",
    )
    parser.add_argument("--metric", help="publish a metric instead, a folder of trainer/evaluation/metrics")
    parser.add_argument("--space_id", help="Space of the page or the metric (ORG/METRIC), created if needed")
    parser.add_argument("--private", action="store_true", help="create a private repository (default: public)")
    parser.add_argument(
        "--dry-run", action="store_true", help="write the run's card and verify its folder, but upload nothing"
    )
    args = parser.parse_args(argv)
    try:
        match (args.run, args.index, args.metric, args.hub_model_id, args.space_id):
            case (Path() as run, None, None, str() as model_id, None):
                done = publish(run, model_id, private=args.private, dry_run=args.dry_run)
            case (None, Path() as index, None, str() as model_id, str() as space_id) if not args.dry_run:
                done = push_page(index, model_id, space_id, private=args.private)
            case (None, None, str() as metric, None, str() as space_id) if not args.dry_run:
                done = push_metric(metric, space_id, private=args.private)
            case _:
                raise InputError(
                    "expected RUN --hub_model_id ORG/NAME [--dry-run], or --index FOLDER --hub_model_id ORG/NAME "
                    "--space_id ORG/SPACE, or --metric NAME --space_id ORG/NAME"
                )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"verified, not uploaded: {done}" if args.dry_run else f"published: {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
