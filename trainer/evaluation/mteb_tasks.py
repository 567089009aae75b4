"""Evaluate a model with MTEB's code on local data, compare with our scores, and write results in MTEB's format.

There are two tasks: MTEB's STSBenchmark, and response prediction as a retrieval task, with the queries and candidates
of `python -m trainer.evaluation`. MTEB loads the folder with sentence-transformers.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from data_scripts.files.command_line import ArgumentParser, disk_path, run_stoppable
from data_scripts.files.errors import InputError, one_line
from data_scripts.files.extras import import_extra
from trainer.evaluation.registry import load_kind
from trainer.evaluation.response_prediction import ResponseQueries, evaluate_response_prediction, queries_of
from trainer.evaluation.stsb import evaluate_stsb

# Libraries that take seconds to import are imported in the functions that need them, so that `--help` is fast.
if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

SPLITS = {"dev": "validation", "test": "test"}
REPLIES = "ConvSimReplies"
# MTEB's name of a score -> ours. An input has a single true reply, so that P@N is a hit rate.
SCORES = {
    "cosine_pearson": "pearson",
    "cosine_spearman": "spearman",
    "hit_rate_at_1": "p_at_1",
    "hit_rate_at_3": "p_at_3",
    "hit_rate_at_10": "p_at_10",
}


class ComparedScore(NamedTuple):
    """One score, computed by MTEB and by us."""

    task: str
    name: str
    mteb: float
    ours: float


def import_mteb() -> Any:
    """Import the package.

    Raises:
        InputError: it is not installed.
    """
    return import_extra("mteb", "mteb", "this command")


def stsb_task(pairs: Dataset, split: str) -> Any:
    """MTEB's STSBenchmark with these `pairs` in place of the Hub's."""
    from datasets import DatasetDict

    task = import_mteb().get_task("STSBenchmark", eval_splits=[split])
    task.dataset, task.data_loaded = DatasetDict({split: pairs}), True
    return task


def replies_task(queries: ResponseQueries, split: str) -> Any:
    """The queries as a retrieval task of MTEB: `top_ranked` holds the candidates, of which the first is relevant."""
    import_mteb()
    from datasets import Dataset
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class Replies(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=REPLIES,
            description="The true response to an input of a conversation among 99 random ones (Yang et al. 2018, 4.1).",
            dataset={"path": "local", "revision": "1"},
            reference="https://aclanthology.org/W18-3022",
            type="Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=[split],
            eval_langs=["eng-Latn"],
            main_score="hit_rate_at_1",
        )

    task = Replies()
    replies = [f"reply{number}" for number in range(len(queries.responses))]
    inputs = [f"input{number}" for number in range(len(queries.inputs))]
    candidates = [[replies[number] for number in row] for row in queries.candidates.tolist()]
    data: Any = {
        "corpus": Dataset.from_dict({"id": replies, "text": queries.responses}),
        "queries": Dataset.from_dict({"id": inputs, "text": queries.inputs}),
        "relevant_docs": {name: {row[0]: 1} for name, row in zip(inputs, candidates, strict=True)},
        "top_ranked": dict(zip(inputs, candidates, strict=True)),
    }
    task.dataset, task.data_loaded = {"default": {split: data}}, True
    return task


def evaluate(
    model: str, output: Path, *, stsb: Dataset | None, queries: ResponseQueries | None, split: str
) -> list[ComparedScore]:
    """Run MTEB on a model, write TASK.json of every task and model_meta.json to `output`; compare its scores with ours.

    Args:
        model: a folder that `trainer.publish` wrote, or another that sentence-transformers loads.
        output: a folder; files of the same names are overwritten.
        stsb: pairs of STS-B, or None to skip it.
        queries: those of response prediction, or None to skip it.
        split: MTEB's name of the split that they come from, "validation" or "test".

    Raises:
        InputError: MTEB or the model is missing, or the model needs its own code.
    """
    from sentence_transformers import SentenceTransformer

    from trainer.encoders.loading import load_encoder

    mteb, encoder = import_mteb(), load_encoder(model)
    tasks, ours = [], {}
    if stsb is not None:
        tasks.append(stsb_task(stsb, split))
        ours["STSBenchmark"] = evaluate_stsb(encoder, {split: stsb}, "cosine")[split]["all"]
    if queries is not None:
        tasks.append(replies_task(queries, split))
        ours[REPLIES] = evaluate_response_prediction(encoder, queries, split)
    try:
        opened = SentenceTransformer(model, trust_remote_code=False)
    except ValueError as error:  # of the code of a lexical channel, among others
        raise InputError(
            f"{model}: sentence-transformers cannot open it without running its code ({one_line(str(error), 150)}); "
            "`python -m trainer.evaluation` evaluates it without MTEB"
        ) from error
    evaluated = mteb.models.SentenceTransformerEncoderWrapper(opened)
    results = mteb.evaluate(evaluated, tasks, cache=None, co2_tracker=False).task_results
    output.mkdir(parents=True, exist_ok=True)
    meta = json.dumps(evaluated.mteb_model_meta.to_dict(), default=str, indent=2)
    (output / "model_meta.json").write_text(meta + "\n", encoding="utf-8")
    compared = []
    for result in results:
        result.to_disk(output / f"{result.task_name}.json")
        (scores,) = result.scores[split]
        own = ours[result.task_name]
        compared += [
            ComparedScore(result.task_name, name, scores[name], own[our_name])
            for name, our_name in SCORES.items()
            if name in scores and our_name in own
        ]
    return compared


def build_parser() -> ArgumentParser:
    """The command line."""
    parser = ArgumentParser(
        prog="python -m trainer.evaluation.mteb_tasks",
        description=__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="folder of a published model, for example runs/quickstart/model")
    parser.add_argument("--stsb", metavar="SOURCE", help="folder or Hub id of STS-B, for the task STSBenchmark")
    parser.add_argument(
        "--pairs", metavar="SOURCE", help="folder or Hub id of conversation pairs, for response prediction"
    )
    parser.add_argument(
        "--split", choices=list(SPLITS), default="test", help="split of both datasets (default: %(default)s)"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=disk_path,
        metavar="FOLDER",
        help="folder for the results (default: mteb in MODEL, which trainer.publish uploads with the model)",
    )
    return parser


def run(args: Namespace) -> int:
    """Run the command; returns its exit code.

    Raises:
        InputError: a package, a model or a dataset is missing.
    """
    import_mteb()  # fails before any work is done
    if not (args.stsb or args.pairs):
        raise InputError("no data to evaluate on; name STS-B with --stsb or conversation pairs with --pairs")
    if args.output is None and not Path(args.model).is_dir():
        raise InputError(f"{args.model} is not a local folder; name a folder for the results with -o")
    split = SPLITS[args.split]
    pairs = _split(load_kind("pairs", args.pairs), split, args.pairs) if args.pairs else None
    queries = queries_of(pairs) if pairs is not None else None
    stsb = _split(load_kind("stsb", args.stsb), split, args.stsb) if args.stsb else None
    output = args.output or Path(args.model, "mteb")
    print(format_scores(evaluate(args.model, output, stsb=stsb, queries=queries, split=split)))
    print(f"saved in {output}")
    return 0


def _split(splits: DatasetDict, split: str, source: str) -> Dataset:
    if split not in splits:
        raise InputError(f"{source} has no {split} split; it has {', '.join(splits)}")
    return splits[split]


def format_scores(scores: Sequence[ComparedScore]) -> str:
    """A table with one line for each score."""
    lines = [f"{'task':<16}{'score':<18}{'mteb':>10}{'ours':>10}"]
    lines += [f"{one.task:<16}{one.name:<18}{one.mteb:>10.6f}{one.ours:>10.6f}" for one in scores]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
