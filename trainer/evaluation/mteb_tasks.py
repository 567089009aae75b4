"""Evaluate a model with MTEB's code, compare with our scores where there are any, and write results in MTEB's format.

On local data: MTEB's STSBenchmark, response prediction as a retrieval task, with the queries and candidates of
`python -m trainer.evaluation`, and the intents of messages. From the Hub, any text task of MTEB, by name. MTEB loads
the folder with sentence-transformers.

Examples: python -m trainer.evaluation.mteb_tasks MODEL --intents data/intents --shots 1 5
          python -m trainer.evaluation.mteb_tasks MODEL --tasks Banking77Classification.v2 --shots 1 5
          python -m trainer.evaluation.mteb_tasks MODEL --tasks LoCoMo LongMemEval REALTALK TMD MemBench ConvoMem

The last line names LMEB's tasks on dialogs (Zhao et al., 2026, arXiv:2603.12572).
"""

from __future__ import annotations

import copy
import json
import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from data_scripts.files.command_line import ArgumentParser, disk_path, run_stoppable, whole_number
from data_scripts.files.datasets import load_columns
from data_scripts.files.errors import InputError, one_line
from data_scripts.files.extras import import_extra
from data_scripts.files.hub import hub_errors
from trainer.evaluation.registry import load_kind
from trainer.evaluation.response_prediction import ResponseQueries, evaluate_response_prediction, queries_of
from trainer.evaluation.stsb import evaluate_stsb

# Libraries that take seconds to import are imported in the functions that need them, so that `--help` is fast.
if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

SPLITS = {"dev": "validation", "test": "test"}
REPLIES, INTENTS = "ConvSimReplies", "ConvSimIntents"
# MTEB's name of a score -> ours. An input has a single true reply, so that P@N is a hit rate.
SCORES = {
    "cosine_pearson": "pearson",
    "cosine_spearman": "spearman",
    "hit_rate_at_1": "p_at_1",
    "hit_rate_at_3": "p_at_3",
    "hit_rate_at_10": "p_at_10",
}


class ComparedScore(NamedTuple):
    """One score, computed by MTEB, and by us if we have it."""

    task: str
    name: str
    mteb: float
    ours: float | None = None


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

    replies = [f"reply{number}" for number in range(len(queries.responses))]
    inputs = [f"input{number}" for number in range(len(queries.inputs))]
    candidates = [[replies[number] for number in row] for row in queries.candidates.tolist()]
    data: Any = {
        "corpus": Dataset.from_dict({"id": replies, "text": queries.responses}),
        "queries": Dataset.from_dict({"id": inputs, "text": queries.inputs}),
        "relevant_docs": {name: {row[0]: 1} for name, row in zip(inputs, candidates, strict=True)},
        "top_ranked": dict(zip(inputs, candidates, strict=True)),
    }
    return _local_task(
        AbsTaskRetrieval, {"default": {split: data}}, split, name=REPLIES, type="Retrieval", category="t2t",
        description="The true response to an input of a conversation among 99 random ones (Yang et al. 2018, 4.1).",
        reference="https://aclanthology.org/W18-3022", main_score="hit_rate_at_1",
    )  # fmt: skip


def intents_task(intents: DatasetDict, split: str) -> Any:
    """Messages and their intents as a classification task of MTEB: logistic regression on few messages of each intent.

    Args:
        intents: the splits `train`, of whose messages it samples ten times, and `split`; columns `text` and `label`.
        split: what the accuracy is that of.
    """
    import_mteb()
    from mteb.abstasks import AbsTaskClassification

    return _local_task(
        AbsTaskClassification, intents, split, name=INTENTS, type="Classification", category="t2c",
        description="The intents of messages, from few examples of each.", main_score="accuracy",
    )  # fmt: skip


def _local_task(kind: type, data: Any, split: str, **metadata: Any) -> Any:
    from mteb.abstasks.task_metadata import TaskMetadata

    about = TaskMetadata(
        **metadata, dataset={"path": "local", "revision": "1"}, modalities=["text"], eval_splits=[split],
        eval_langs=["eng-Latn"],
    )  # fmt: skip
    task = type(about.name, (kind,), {"metadata": about})()
    task.dataset, task.data_loaded = data, True
    return task


def find_tasks(names: Sequence[str]) -> list[Any]:
    """Tasks of MTEB by their names, still without data.

    Raises:
        InputError: there is no such task, or it is not on texts.
    """
    mteb, tasks = import_mteb(), []
    for name in names:
        try:
            task = mteb.get_task(name)
        except KeyError as error:
            reason = str(error.args[0]).removeprefix("KeyError: ")
            raise InputError(f"--tasks {name}: MTEB has no such task ({reason})") from error
        if list(task.modalities) != ["text"]:
            raise InputError(f"--tasks {name}: reads {', '.join(task.modalities)}; expected a task on texts alone")
        tasks.append(task)
    return tasks


def load_tasks(tasks: Sequence[Any], shots: Sequence[int]) -> list[Any]:
    """Tasks with their data, from the Hub where needed; each classification once for each number of examples.

    Raises:
        InputError: there are numbers, but no classification; or data cannot be downloaded.
    """
    from mteb.abstasks import AbsTaskClassification

    if shots and not any(isinstance(task, AbsTaskClassification) for task in tasks):
        raise InputError("--shots: no task is a classification; add --intents or one of --tasks, or drop --shots")
    loaded = []
    for task in tasks:
        with hub_errors(task.metadata.dataset["path"]):
            task.load_data()  # unless it has them
        if not shots or not isinstance(task, AbsTaskClassification):
            loaded.append(task)
            continue
        for count in shots:
            few = copy.copy(task)
            few.samples_per_label = count
            few.metadata = task.metadata.model_copy(update={"name": f"{task.metadata.name}.{count}-shot"})
            loaded.append(few)
    return loaded


def evaluate(
    model: str,
    output: Path,
    *,
    stsb: Dataset | None = None,
    queries: ResponseQueries | None = None,
    split: str,
    others: Sequence[Any] = (),
) -> list[ComparedScore]:
    """Run MTEB on a model, write TASK.json of every task and model_meta.json to `output`; compare its scores with ours.

    Args:
        model: a folder that `trainer.publish` wrote, or another that sentence-transformers loads.
        output: a folder; files of the same names are overwritten.
        stsb: pairs of STS-B, or None to skip it.
        queries: those of response prediction, or None to skip it.
        split: MTEB's name of the split that they come from, "validation" or "test".
        others: further tasks, of which only MTEB's main score is returned, the mean over their splits and subsets.

    Raises:
        InputError: MTEB or the model is missing, or the model needs its own code.
    """
    from sentence_transformers import SentenceTransformer

    from trainer.encoders.loading import load_encoder

    mteb, encoder = import_mteb(), load_encoder(model)
    tasks: list[Any] = [*others]
    ours: dict[str, Any] = {}
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
    main_scores = {task.metadata.name: task.metadata.main_score for task in others}
    compared = []
    for result in results:
        result.to_disk(output / f"{result.task_name}.json")
        if result.task_name not in ours:
            compared.append(ComparedScore(result.task_name, main_scores[result.task_name], result.get_score()))
            continue
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
        "--intents", metavar="SOURCE", help="folder or Hub id of messages and their intents, in columns text and label"
    )
    parser.add_argument("--tasks", nargs="+", default=[], metavar="NAME", help="tasks of MTEB, with data from the Hub")
    parser.add_argument(
        "--shots",
        nargs="+",
        type=whole_number(1),
        default=[],
        metavar="N",
        help="examples of each label that a classification is trained on (default: MTEB's, 8); its name ends in N-shot",
    )
    parser.add_argument(
        "--split", choices=list(SPLITS), default="test", help="split of local datasets (default: %(default)s)"
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
    if not (args.stsb or args.pairs or args.intents or args.tasks):
        raise InputError(
            "no data to evaluate on; name STS-B with --stsb, conversation pairs with --pairs, messages and their "
            "intents with --intents, or MTEB's --tasks"
        )
    if args.output is None and not Path(args.model).is_dir():
        raise InputError(f"{args.model} is not a local folder; name a folder for the results with -o")
    split = SPLITS[args.split]
    pairs = _split(load_kind("pairs", args.pairs), split, args.pairs) if args.pairs else None
    queries = queries_of(pairs) if pairs is not None else None
    stsb = _split(load_kind("stsb", args.stsb), split, args.stsb) if args.stsb else None
    others = [intents_task(_load_intents(args.intents, split, args.shots), split)] if args.intents else []
    others = load_tasks([*others, *find_tasks(args.tasks)], args.shots)
    output = args.output or Path(args.model, "mteb")
    print(format_scores(evaluate(args.model, output, stsb=stsb, queries=queries, split=split, others=others)))
    print(f"saved in {output}")
    return 0


def _split(splits: DatasetDict, split: str, source: str) -> Dataset:
    if split not in splits:
        raise InputError(f"{source} has no {split} split; it has {', '.join(splits)}")
    return splits[split]


def _load_intents(source: str, split: str, shots: Sequence[int]) -> DatasetDict:
    """Load messages and their intents; each intent needs as many training messages as the largest number of shots."""
    from datasets import Dataset, DatasetDict

    splits = load_columns(source, ("text", "label"))
    columns = {}
    for name in ("train", split):
        rows = _split(splits, name, source)
        texts, labels = columns[name] = rows["text"][:], rows["label"][:]
        for number, row in enumerate(zip(texts, labels, strict=True), start=1):
            if None in row:
                raise InputError(f"{source}: split {name}: row {number:,} has no text or no label")
    counts = Counter(columns["train"][1])
    if len(counts) < 2:
        raise InputError(f"{source}: split train has {len(counts)} intents; expected two or more")
    if not columns[split][1] or set(columns[split][1]) - counts.keys():
        raise InputError(f"{source}: split {split} has no message, or an intent that split train does not have")
    rarest, count = min(counts.items(), key=itemgetter(1))
    if count < max(shots, default=1):
        messages = "message" if count == 1 else "messages"
        raise InputError(
            f"{source}: the intent {rarest!r} has {count} training {messages}, fewer than --shots {max(shots)}"
        )
    numbers = {label: number for number, label in enumerate(sorted(counts, key=str))}
    return DatasetDict(
        {
            name: Dataset.from_dict({"text": [*map(str, texts)], "label": [numbers[label] for label in labels]})
            for name, (texts, labels) in columns.items()
        }
    )


def format_scores(scores: Sequence[ComparedScore]) -> str:
    """A table with one line for each score."""
    width = max(len(one.task) for one in scores) + 2
    lines = [f"{'task':<{width}}{'score':<18}{'mteb':>10}{'ours':>10}"]
    for one in scores:
        ours = "" if one.ours is None else f"{one.ours:>10.6f}"
        lines.append(f"{one.task:<{width}}{one.name:<18}{one.mteb:>10.6f}{ours}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the command; the exit code is 0, 2 after a user error, whose message goes to stderr, or 128 + signal."""
    return run_stoppable(lambda: run(build_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
