"""A study: many short runs that differ in what is varied, judged on dev and compared with one of them.

python -m trainer.sweep PRESET --vary KEY=A,B [--vary KEY2=X,Y] [--key value ...] -o FOLDER
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from data_scripts.errors import InputError
from trainer.sweep.comparison import draw, format_table, make_rows, measured_as_text, try_scores
from trainer.sweep.process_pool import Job, run_jobs, threads_each
from trainer.sweep.study import Run, as_options, check_agreement, parse_variation, plan

TRAINER = Path(__file__).resolve().parents[1] / "run.py"


def execute(preset: str, runs: Iterable[Run], jobs: int, threads: int) -> dict[str, str]:
    """Train runs, `jobs` at a time with so many threads each, and score each on dev; name -> what went wrong."""
    named = {run.name: run for run in runs}

    def ended(job: Job, failed: str) -> str:
        run = named[job.name]
        failed = failed or try_scores(run, threads)
        tqdm.write(f"{run.name}: {failed or measured_as_text(run)}")
        return failed

    return run_jobs([_job(preset, run) for run in named.values()], jobs, threads, ended, "runs")


def _job(preset: str, run: Run) -> Job:
    go_on = run.can_resume
    if not go_on:
        run.log.unlink(missing_ok=True)
    how = {"resume": str(go_on).lower(), "overwrite": str(not go_on).lower()}
    return Job(run.name, [sys.executable, str(TRAINER), preset, *run.options, *as_options(how)], run.log)


def build_parser() -> argparse.ArgumentParser:
    """The command line, but for the options of the trainer."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.sweep",
        description=__doc__,
        epilog="Any other --key value is an option of all runs; python trainer/run.py --help lists them. Called again, "
        "a sweep goes on where it was stopped.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("preset", metavar="PRESET", help="YAML file of options, as for trainer/run.py")
    parser.add_argument(
        "--vary",
        type=parse_variation,
        action="append",
        required=True,
        metavar="KEY=A,B",
        help="values of an option, or of a place in a mapping (tasks.snli=0,0.1); JSON may hold commas. Again for more "
        "keys: the runs are the preset as it is (base), and each value alone",
    )
    parser.add_argument("--grid", action="store_true", help="run every combination of the values instead")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="the study's folder")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at a time, which share the cores")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="of N machines, this is the Ith: do its runs only")
    parser.add_argument("--reference", metavar="RUN", help="the run that others are compared with (default: the first)")
    parser.add_argument("--table-only", action="store_true", help="run nothing; make the table of what is there")
    return parser


def sweep(argv: list[str]) -> int:
    """Do what the command line asks; the exit code is 0, or 1 where a run went wrong.

    Raises:
        InputError: before anything runs, for a mistake in the options or in any run's settings.
    """
    args, overrides = build_parser().parse_known_args(argv)
    part = re.fullmatch(r"(\d+)/(\d+)", args.part)
    if not part or not 1 <= int(part[1]) <= int(part[2]):
        raise InputError(f"--part {args.part}: expected I/N with I from 1 to N, for example 1/2")
    if args.jobs < 1:
        raise InputError(f"--jobs {args.jobs}: expected 1 or more")
    runs = plan(args.preset, overrides, args.vary, args.output, args.grid)
    named = {run.name: run for run in runs}
    if args.reference and args.reference not in named:
        raise InputError(f"--reference {args.reference}: there is no such run; there are {', '.join(named)}")
    reference = named[args.reference] if args.reference else runs[0]
    for run in runs:
        check_agreement(run)
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"-o {args.output}: the folder cannot be made ({error})") from error
    own = [] if args.table_only else runs[int(part[1]) - 1 :: int(part[2])]
    threads = threads_each(args.jobs)
    failures = execute(args.preset, [run for run in own if not run.is_finished], args.jobs, threads)

    rows = make_rows(runs, reference, failures, threads)
    (args.output / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    table = format_table(rows, reference.name)
    (args.output / "table.md").write_text(
        f"`python -m trainer.sweep {shlex.join(argv)}`\n\n{table}\nJudged on dev. Differences with 95 % intervals by "
        "paired bootstrap (1,000 resamples of the items, seed 0); * where the interval excludes zero.\n",
        encoding="utf-8",
    )
    draw(rows, reference.name, args.output / "sweep.png")
    print(table, end="")
    return int(any(row["run"] in [run.name for run in own] and "note" in row for row in rows))


def main(argv: list[str]) -> int:
    """Run the command; a mistake is one line on stderr and exit code 2."""
    try:
        return sweep(argv)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
