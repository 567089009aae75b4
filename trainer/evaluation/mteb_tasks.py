"""Judge a model with MTEB's own code on local data, beside our own figures, and write results in MTEB's form.

Two tasks: MTEB's STSBenchmark, and response prediction as one of its retrieval tasks, on the queries and candidates
that `python -m trainer.evaluation` ranks. MTEB reads the folder with sentence-transformers, which knows no
`input_network`: a model that has one gets other figures for replies there than here.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer

from data_scripts.errors import InputError
from data_scripts.read.hub_datasets import load_pairs
from data_scripts.sources.stsb import load_stsb
from trainer.evaluation.encoders import load_encoder
from trainer.evaluation.response_prediction import ResponseQueries, build_queries, evaluate_response_prediction
from trainer.evaluation.stsb import evaluate_stsb

SPLITS = {"dev": "validation", "test": "test"}
REPLIES = "ConvSimReplies"
# MTEB's name of a figure -> ours. An input has one true reply, so that it is found or not: P@N is a hit rate.
STSB_FIGURES = {"cosine_pearson": "pearson", "cosine_spearman": "spearman"}
REPLIES_FIGURES = {"hit_rate_at_1": "p_at_1", "hit_rate_at_3": "p_at_3", "hit_rate_at_10": "p_at_10"}


class Figure(NamedTuple):
    """One figure, measured twice."""

    task: str
    name: str
    mteb: float
    ours: float


def import_mteb() -> Any:
    """The package.

    Raises:
        InputError: it is not installed.
    """
    try:
        import mteb
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error}: install the extra mteb, with pip install -c constraints.txt -e '.[mteb]'"
        ) from error
    return mteb


def stsb_task(pairs: Dataset, split: str) -> Any:
    """MTEB's STSBenchmark, its data these `pairs` and not the Hub's."""
    task = import_mteb().get_task("STSBenchmark", eval_splits=[split])
    task.dataset, task.data_loaded = DatasetDict({split: pairs}), True
    return task


def replies_task(queries: ResponseQueries, split: str) -> Any:
    """The queries as a retrieval task of MTEB: of each one's candidates, `top_ranked` there, the first is relevant."""
    import_mteb()
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
            date=None,
            domains=None,
            task_subtypes=None,
            license=None,
            annotations_creators=None,
            dialect=None,
            sample_creation=None,
            bibtex_citation=None,
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
) -> list[Figure]:
    """Run MTEB on a model, write TASK.json of every task and model_meta.json into `output`; its figures beside ours.

    Args:
        model: what sentence-transformers opens; a folder that `trainer.publish` made.
        output: a folder; its files of the same names are written anew.
        stsb: pairs of STS-B, or None to leave that out.
        queries: those of response prediction, or None to leave that out.
        split: MTEB's name of the split that they come from, "validation" or "test".

    Raises:
        InputError: no MTEB, or no model.
    """
    mteb, ours = import_mteb(), load_encoder(model)
    tasks, figures, own = [], {}, {}
    if stsb is not None:
        tasks.append(stsb_task(stsb, split))
        figures["STSBenchmark"] = STSB_FIGURES
        own["STSBenchmark"] = evaluate_stsb(ours, {split: stsb}, "cosine")[split]["all"]
    if queries is not None:
        tasks.append(replies_task(queries, split))
        figures[REPLIES] = REPLIES_FIGURES
        own[REPLIES] = evaluate_response_prediction(ours, queries, split)
    judged = mteb.models.SentenceTransformerEncoderWrapper(SentenceTransformer(model))
    results = mteb.evaluate(judged, tasks, cache=None, co2_tracker=False).task_results
    output.mkdir(parents=True, exist_ok=True)
    meta = json.dumps(judged.mteb_model_meta.to_dict(), default=str, indent=2)
    (output / "model_meta.json").write_text(meta + "\n", encoding="utf-8")
    compared = []
    for result in results:
        result.to_disk(output / f"{result.task_name}.json")
        (scores,) = result.scores[split]
        compared += [
            Figure(result.task_name, name, scores[name], own[result.task_name][our_name])
            for name, our_name in figures[result.task_name].items()
            if our_name in own[result.task_name]
        ]
    return compared


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.evaluation.mteb_tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", help="folder of a published model, for example runs/quickstart/model")
    parser.add_argument("--stsb", metavar="SOURCE", help="folder or Hub id of STS-B")
    parser.add_argument("--pairs", metavar="SOURCE", help="folder or Hub id of conversation pairs")
    parser.add_argument("--split", choices=list(SPLITS), default="test", help="default: %(default)s")
    parser.add_argument("--queries", type=int, default=10_000, help="reply queries, at most (default: %(default)s)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where the results go (default: mteb in MODEL, which trainer.publish uploads with the model)",
    )
    return parser


def run(args: argparse.Namespace) -> list[Figure]:
    """Do what the command line asks for; returns the figures.

    Raises:
        InputError: a package, a model or a set is missing.
    """
    import_mteb()  # before any work is done
    if not (args.stsb or args.pairs):
        raise InputError("nothing to judge the model on: name STS-B with --stsb, conversation pairs with --pairs")
    if args.queries < 1:
        raise InputError(f"--queries: {args.queries}; expected 1 or more")
    if args.output is None and not Path(args.model).is_dir():
        raise InputError(f"{args.model} is no folder here: name one for the results with -o")
    split = SPLITS[args.split]
    pairs = _split(load_pairs(args.pairs), split, args.pairs) if args.pairs else None
    queries = build_queries(pairs["input"][:], pairs["response"][:], args.queries) if pairs is not None else None
    stsb = _split(load_stsb(args.stsb), split, args.stsb) if args.stsb else None
    output = args.output or Path(args.model, "mteb")
    figures = evaluate(args.model, output, stsb=stsb, queries=queries, split=split)
    print(format_figures(figures))
    print(f"saved in {output}")
    return figures


def _split(splits: DatasetDict, split: str, source: str) -> Dataset:
    if split not in splits:
        raise InputError(f"{source}: has no {split} split; it has {', '.join(splits)}")
    return splits[split]


def format_figures(figures: Sequence[Figure]) -> str:
    """A line for each figure."""
    lines = [f"{'task':<16}{'figure':<18}{'mteb':>10}{'ours':>10}"]
    lines += [f"{one.task:<16}{one.name:<18}{one.mteb:>10.6f}{one.ours:>10.6f}" for one in figures]
    return "\n".join(lines)


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
