"""Run a sweep: many short runs with varied settings, evaluated on dev and compared with the first of them.

python -m trainer.sweep PRESET --vary KEY=A,B [--vary KEY2=X,Y] [--key value ...] -o FOLDER
"""

import json
import shlex
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_scripts.files.command_line import ArgumentParser, disk_path, run_stoppable, whole_number
from data_scripts.files.storage import check_own_text, make_folder, write_text
from trainer.evaluation.results import read_run_results
from trainer.sweep.plan import PlannedRun, expand_variations
from trainer.sweep.runs import Job, run_jobs, threads_per_job
from trainer.sweep.table import check_run, format_metrics, format_table, make_rows, plot_differences, read_metrics

COMMAND = "python -m trainer.sweep"
TRAINER = Path(__file__).resolve().parents[1] / "run.py"


def build_parser() -> ArgumentParser:
    """The command line, without the options of the trainer."""
    parser = ArgumentParser(
        prog="python -m trainer.sweep",
        description=__doc__,
        epilog="Any other --key value is an option of all runs; python trainer/run.py --help lists them. After an "
        "interruption, the same command resumes the sweep.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("preset", metavar="PRESET", help="YAML file of options, as for trainer/run.py")
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="KEY=A,B",
        help="values of an option, or of an entry of a mapping (tasks.snli=0,0.1); JSON may hold commas. Repeat it for "
        "more keys: the runs are the unchanged preset (base), and each value alone",
    )
    parser.add_argument("--grid", action="store_true", help="run every combination of the values instead")
    parser.add_argument(
        "--jobs",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="runs at a time, which share the cores (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", type=disk_path, required=True, metavar="FOLDER", help="the sweep's folder")
    return parser


def sweep(argv: list[str]) -> int:
    """Run the sweep of the command line; the exit code is 0, or 1 where a run failed.

    Raises:
        InputError: an option or a setting of any run is wrong; raised before anything runs.
    """
    args, overrides = build_parser().parse_known_args(argv)
    runs = expand_variations(args.preset, overrides, args.vary, args.output, args.grid)
    for run in runs:
        run.check_settings()
    make_folder(args.output)
    check_own_text(args.output / "table.md", f"`{COMMAND} ")
    threads = threads_per_job(args.jobs)
    failures = train_runs(args.preset, [run for run in runs if not run.is_finished], args.jobs, threads)
    rows = make_rows(runs, failures, threads)
    write_comparison(args.output, rows, f"{COMMAND} {shlex.join(argv)}")
    return int(any("note" in row for row in rows))


def train_runs(preset: str, runs: Iterable[PlannedRun], at_a_time: int, threads: int) -> dict[str, str]:
    """Train runs, `at_a_time` side by side with `threads` each, and score each on dev; name -> error message."""
    named = {run.name: run for run in runs}

    def score_and_report(job: Job, error: str) -> str:
        run = named[job.name]
        error = error or check_run(run, threads)
        metrics = {} if error else read_metrics(read_run_results(run.folder / "results.json"))
        tqdm.write(f"{run.name}: {error or format_metrics(metrics)}")
        return error

    jobs = [Job(run.name, [sys.executable, *run.command(TRAINER, preset)], run.log) for run in named.values()]
    return run_jobs(jobs, at_a_time, threads, score_and_report, "runs")


def write_comparison(folder: Path, rows: Sequence[Mapping[str, Any]], command: str) -> None:
    """Write rows.jsonl, table.md and sweep.png, and print the table."""
    write_text(folder / "rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    table = format_table(rows)
    write_text(
        folder / "table.md",
        f"`{command}`\n\n{table}\nEvaluated on dev. Differences with 95 % intervals by paired bootstrap (1,000 "
        "resamples of the items, seed 0); * where the interval excludes zero.\n",
    )
    plot_differences(rows, folder / "sweep.png")
    print(table, end="")


def main(argv: list[str]) -> int:
    """Run the command; the exit code is 0, 1 where a run failed, 2 after a user error, or 128 + signal."""
    return run_stoppable(lambda: sweep(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
