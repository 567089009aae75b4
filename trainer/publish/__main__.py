"""Publish a model: one folder for transformers, convsim and sentence-transformers, checked, uploaded in one commit.

Or, as a Space, a page on a published model with an index of its replies; or a metric.

python -m trainer.publish runs/NAME --hub_model_id ORG/NAME
python -m trainer.publish --index runs/replies --hub_model_id ORG/NAME --space_id ORG/SPACE
python -m trainer.publish --metric precision_at_n --space_id ORG/precision_at_n
"""

import argparse
import sys
from pathlib import Path

from data_scripts.errors import InputError
from trainer.publish.folder import publish
from trainer.publish.spaces import push_metric, push_page


def main(argv: list[str] | None = None) -> int:
    """Publish as the command line says; 0, or 2 for a mistake of the user's."""
    parser = argparse.ArgumentParser(prog="python -m trainer.publish", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("run", nargs="?", type=Path, help="folder of a finished run, for example runs/quickstart")
    parser.add_argument("--hub_model_id", help="repository to publish to, ORG/NAME; made if it is not there")
    parser.add_argument(
        "--index",
        type=Path,
        help="publish a page instead, with this index: what `modeling_convsim.suggestion build` wrote with the model",
    )
    parser.add_argument("--metric", help="publish a metric instead, by its folder's name in trainer/evaluation/metrics")
    parser.add_argument("--space_id", help="Space to publish page or metric (ORG/METRIC) to; made if it is not there")
    parser.add_argument("--private", action="store_true", help="make the repository a private one (default: public)")
    parser.add_argument(
        "--dry-run", action="store_true", help="write the run's card and check its folder, upload nothing"
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
    print(f"checked, not uploaded: {done}" if args.dry_run else f"published: {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
