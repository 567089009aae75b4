"""Write the papers' tables and figures, from our runs beside the published figures: README.md, report.json and plots.

python -m trainer.report RUNS... -o report/         of runs and saved models that are there
python -m trainer.report --plan PLAN.yaml -o report/   trains first what the plan lists, or what is left of it

RUNS are folders of runs (results.json, model/), of word vectors (trainer.embeddings), of sweeps, or saved models. What
their results.json has is taken from there; what it lacks is measured, and kept in the report's folder.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from data_scripts.errors import InputError
from trainer.report.plan import carry_out, read_plan

SETS = ("stsb", "snli", "cqa", "sts")
PUBLISHED = Path(__file__).with_name("published.yaml")


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help="folders of runs, sweeps or models")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="the report's folder")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="YAML of runs to train first; trainer/report has one")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs of the plan at a time (default: 1)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("data"),
        metavar="FOLDER",
        help=f"where {', '.join(SETS)} are, as `python -m data_scripts` writes them; tables of a set that is not there "
        "are left out (default: data)",
    )
    parser.add_argument("--pairs", metavar="FOLDER", help="the conversation pairs (default: reddit in --data)")
    return parser


def report(args: argparse.Namespace) -> int:
    """Write the report; the exit code is 0, or 1 where a run of the plan went wrong.

    Raises:
        InputError: a mistake in the options, the plan or the runs.
    """
    if args.jobs < 1:
        raise InputError(f"--jobs {args.jobs}: expected 1 or more")
    if not args.runs and not args.plan:
        raise InputError("name RUNS, or a --plan that trains them")
    failures: dict[str, str] = {}
    folders = list(args.runs)
    if args.plan:
        plan = read_plan(args.plan)
        failures = carry_out(plan, args.jobs)
        folders += [folder for folder in plan.folders if folder.name not in failures]
    _write(args, folders, failures)
    print(f"report in {args.output / 'README.md'}")
    return int(bool(failures))


def _write(args: argparse.Namespace, folders: list[Path], failures: dict[str, str]) -> None:
    # Imported here: these take seconds, in which a mistake on the command line should have shown.
    from transformers.utils.logging import disable_progress_bar

    from trainer.data.datasets import load_judged_on
    from trainer.report import claims, siamese, yang
    from trainer.report.page import Page
    from trainer.report.runs import write_runs
    from trainer.report.systems import Judge, open_folders

    disable_progress_bar()
    systems, studies = open_folders(folders)
    sources: dict[str, Any] = {name: str(args.data / name) for name in SETS if (args.data / name).is_dir()}
    pairs = args.pairs or str(args.data / "reddit")
    if args.pairs or Path(pairs).is_dir():
        sources["pairs"] = pairs
    data = load_judged_on(sources)
    if "pairs" in sources:
        sources["pairs"] = [pairs]  # as the trainer's option has it
    page, judge = Page(args.output), Judge(data, sources, args.output / ".measured")
    published = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    page.heading(1, "The papers, and what our runs make of them")
    write_runs(page, systems, studies, failures)
    yang.write(page, judge, systems, studies, published["yang2018"])
    siamese.write(page, judge, systems, studies, published["kenter2016"])
    claims.write(page)
    page.save()


def main(argv: list[str]) -> int:
    """Run the command; a mistake is one line on stderr and exit code 2."""
    try:
        return report(build_parser().parse_args(argv))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
