"""Judge a saved model: python -m trainer.evaluation MODEL --tasks stsb,snli …"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_scripts.cqa import load_cqa
from data_scripts.errors import InputError
from data_scripts.nli import load_snli
from data_scripts.pairs import load_pairs
from data_scripts.sts import load_stsb
from trainer.data import Corpora
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.encoders import load_encoder
from trainer.evaluation.judging import TASKS, evaluate_baseline, evaluate_encoder
from trainer.evaluation.sample import evaluate_sample
from trainer.evaluation.stsb import evaluate_stsb

ALL_TASKS = [*TASKS, "sample"]
DEFAULT_DATA = os.environ.get("CONVSIM_DATA", "../shared/data")


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.evaluation",
        description="Judge a saved model. Prints a table; --output or --update keep the numbers as results.json.",
        epilog="example: python -m trainer.evaluation runs/quickstart/model --tasks stsb,stsb_tuned --stsb data/stsb",
    )
    parser.add_argument(
        "model", help="a saved folder, a Hub id, or any SentenceTransformer; all-MiniLM-L6-v2 is read from its package"
    )
    parser.add_argument("--tasks", required=True, help=f"comma separated: {', '.join(ALL_TASKS)}")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(DEFAULT_DATA),
        help=f"folder that has snli/, stsb/ and cqa/; for the task sample, the sample itself (default: {DEFAULT_DATA})",
    )
    parser.add_argument("--pairs", help="folder or Hub id of conversation pairs, for response_prediction")
    parser.add_argument("--snli", help="folder or Hub id of SNLI (default: DATA/snli)")
    parser.add_argument("--stsb", help="folder or Hub id of the STS Benchmark (default: DATA/stsb)")
    parser.add_argument("--cqa", help="folder of SemEval CQA subtask B (default: DATA/cqa)")
    parser.add_argument("--split", choices=("dev", "test", "both"), default="both", help="default: %(default)s")
    parser.add_argument(
        "--similarity",
        choices=("angular", "cosine"),
        default="angular",
        help="score of the task stsb: the paper's angle, or the cosine (default: %(default)s)",
    )
    parser.add_argument("--queries", type=int, help="response prediction queries, at most (default: 10,000)")
    parser.add_argument(
        "--baselines", default="", help=f"comma separated, on the same queries: {', '.join(BASELINES)} (default: none)"
    )
    keep = parser.add_mutually_exclusive_group()
    keep.add_argument("--output", type=Path, help="write the results to this JSON file")
    keep.add_argument("--update", type=Path, help="put the results into this JSON file, beside what it has")
    return parser


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Judge what the command line names; returns the parts of results.json."""
    tasks, baselines = _listed(args.tasks, ALL_TASKS, "tasks"), _listed(args.baselines, list(BASELINES), "baselines")
    kept = {}
    if args.update is not None:
        try:
            kept = json.loads(args.update.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"--update {args.update}: not a readable JSON file ({error}); use --output") from error
    data = Corpora()
    if "response_prediction" in tasks:
        if args.pairs is None:
            raise InputError("task response_prediction: name the folder of pairs with --pairs")
        data.pairs = load_pairs(args.pairs)
    if "snli" in tasks:
        data.snli = load_snli(args.snli or str(args.data / "snli"))
    if {"stsb", "stsb_tuned"} & set(tasks):
        data.stsb = load_stsb(args.stsb or str(args.data / "stsb"))
    if "cqa" in tasks:
        data.cqa = load_cqa(args.cqa or str(args.data / "cqa"))
    encoder = load_encoder(args.model)
    judged = [task for task in tasks if task != "sample"]
    results: dict[str, Any] = {}
    if judged:
        results = evaluate_encoder(encoder, data, args.split, judged, args.queries)
    if "stsb" in tasks and args.similarity == "cosine" and data.stsb is not None:
        names = {"dev": {"validation": "dev"}, "test": {"test": "test"}}.get(
            args.split, {"validation": "dev", "test": "test"}
        )
        results["stsb"] = evaluate_stsb(encoder, {new: data.stsb[old] for old, new in names.items()}, "cosine")
    if "sample" in tasks:
        results["sample"] = evaluate_sample(encoder, args.data)
    for baseline in baselines:
        results.setdefault("baselines", {})[baseline] = evaluate_baseline(
            baseline, data, args.split, judged, args.queries
        )
    print(_table(results))
    output = args.output or args.update
    if output is not None:
        temporary = output.with_name(f".{output.name}.partial")
        temporary.write_text(json.dumps({**kept, **results}, indent=2) + "\n", encoding="utf-8")
        temporary.replace(output)
        print(f"written: {output}")
    return results


def _listed(text: str, known: list[str], option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise InputError(f"--{option}: '{name}' is unknown; expected some of {', '.join(known)}")
    return names


def _table(results: dict[str, Any]) -> str:
    return "\n".join(f"{name:<44}{value}" for name, value in _rows(results))


def _rows(part: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in part.items():
        if isinstance(value, dict):
            yield from _rows(value, f"{prefix}{name} ")
        else:
            yield prefix + name, f"{value:.4f}" if isinstance(value, float) else str(value)


def main(argv: list[str] | None = None) -> int:
    """Judge; returns the exit code: 0, or 2 for a mistake that one line on stderr explains."""
    args = build_parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        run(args)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
