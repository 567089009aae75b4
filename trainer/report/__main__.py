"""Reproduce the tables and figures of the papers, with our results next to the published ones.

python -m trainer.report --plan PLAN.yaml -o report/

trains the unfinished runs of the plan, then writes README.md, report.json and plots. Scores come from the results.json
of each run; missing scores are measured and cached in the report's folder.
"""

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from modeling_convsim.files.command_line import ArgumentParser, add_output_argument, run_stoppable, whole_number
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import check_own_text

if TYPE_CHECKING:
    from trainer.report.measurements import Measurements
    from trainer.report.page import Page
    from trainer.report.plan import PlannedRun

DATASETS = ("stsb", "snli", "cqa", "sts")
TITLE = "The papers' results beside ours"
DATA = Path("data")
RUN_COLUMNS = ("run", "system", "training rows", "removed", "training length", "rows seen", "total seconds")
PUBLISHED = Path(__file__).with_name("published.yaml")


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(
        prog="python -m trainer.report", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    add_output_argument(parser, "folder for the report")
    parser.add_argument(
        "--plan", type=Path, required=True, metavar="FILE", help="YAML file of runs, such as trainer/report/small.yaml"
    )
    parser.add_argument(
        "--jobs", type=whole_number(1), default=1, metavar="N", help="runs to train in parallel (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DATA,
        metavar="FOLDER",
        help=f"folder with the datasets {', '.join(DATASETS)}, as written by `convsim data`; tables of missing "
        "datasets are left out (default: %(default)s)",
    )
    parser.add_argument("--pairs", metavar="FOLDER", help="folder of conversation pairs (default: reddit in --data)")
    return parser


def report(args: Namespace) -> int:
    """Write the report; the exit code is 0, or 1 if a run of the plan failed.

    Raises:
        InputError: an error in the options, the plan or the runs.
    """
    from trainer.report.plan import read_plan, run_plan  # imports torch, which takes seconds

    if args.data != DATA and not args.data.is_dir():
        raise InputError(f"--data {args.data}: folder not found; expected a folder of evaluation datasets")
    check_own_text(args.output / "README.md", f"# {TITLE}\n")
    plan = read_plan(args.plan)
    failures = run_plan(plan, args.jobs)
    sources = {name: str(args.data / name) for name in DATASETS if (args.data / name).is_dir()}
    if args.pairs or (args.data / "reddit").is_dir():
        sources["pairs"] = args.pairs or str(args.data / "reddit")
    write_report(args.output, [run for run in plan if run.name not in failures], failures, sources)
    print(f"wrote {args.output / 'README.md'}")
    return int(bool(failures))


def write_report(output: Path, runs: list["PlannedRun"], failures: dict[str, str], sources: dict[str, str]) -> None:
    """Measure the systems of finished runs and write the report.

    Args:
        output: the report's folder.
        runs: the finished runs.
        failures: run -> error message, of runs that failed.
        sources: evaluation dataset -> folder or Hub id.

    Raises:
        InputError: a run or a dataset cannot be read.
    """
    # Imported here because they take seconds, which would delay `--help` and error messages.
    from trainer.data.datasets import load_evaluation_data
    from trainer.report.measurements import Measurements
    from trainer.report.page import Page
    from trainer.report.siamese import write_siamese
    from trainer.report.systems import open_system
    from trainer.report.yang import write_yang

    systems = [open_system(run) for run in runs]
    data = load_evaluation_data(sources)
    options: dict[str, Any] = {**sources}
    if "pairs" in sources:
        options["pairs"] = [sources["pairs"]]  # the trainer's option is a list
    page, measurements = Page(output), Measurements(data, options, output / ".measured", systems)
    published = yaml.safe_load(PUBLISHED.read_text(encoding="utf-8"))
    page.heading(1, TITLE)
    write_runs(page, measurements, failures)
    write_yang(page, measurements, published["yang2018"])
    write_siamese(page, measurements, published["kenter2016"])
    page.save()


def write_runs(page: "Page", measurements: "Measurements", failures: Mapping[str, str]) -> None:
    """Write the training rows, steps and seconds of each run, and the runs that failed."""
    page.heading(2, "The runs")
    page.text(
        'All results below come from these runs, except the published results, which are marked "the paper". Rows '
        "that contain an evaluation sentence are removed from the training data: `removed` is the number of these "
        "rows, `training rows` the number of remaining rows."
    )
    varied = [system for study in measurements.studies.values() for _, system in study]
    rows: list[list[Any]] = []
    values = []
    for system in [*measurements.systems, *varied]:
        run = system.results.get("run", {})
        removed = sum(part.get("removed", 0) for part in system.results.get("leakage", {}).values())
        values.append({"run": system.name, "system": system.label, "removed": removed, **run})
        counts = run.get("rows") or ({"sentences": run["sentences"]} if "sentences" in run else {})
        trained = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        length = f"epochs: {run['epochs']}" if "epochs" in run else f"{run.get('steps', 0):,} steps" if run else ""
        seconds = run.get("total_seconds", run.get("seconds"))
        total = round(seconds) if seconds else None
        rows.append([system.name, system.label, trained, removed, length, run.get("pairs"), total])
    page.table("runs", RUN_COLUMNS, rows, values)
    for name, error in failures.items():
        page.text(f"`{name}` is missing: {error}.")


def main(argv: list[str]) -> int:
    """Run the command; the exit code is 0, 1 if a run failed, 2 after a user error, or 128 + signal."""
    return run_stoppable(lambda: report(build_parser().parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
