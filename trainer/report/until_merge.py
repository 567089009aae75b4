"""TEMPORARY: the interfaces of other folders as they will be, over what these folders have now. Delete at the merge.

Replace each import of this module by the one of the right-hand column, and delete this file:

    TASKS                                      trainer.tasks
    ENCODERS                                   modeling_convsim
    EvaluationData, load_evaluation_data       trainer.data.datasets
    EVALUATORS, evaluate_encoder,
    evaluate_baseline                          trainer.evaluation.evaluators
    PvDbowEncoder                              trainer.evaluation.pv_dbow
    summarize_cqa                              trainer.evaluation.cqa (summarize)
"""

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from trainer.data.datasets import Corpora, load_judged_on
from trainer.evaluation import evaluators
from trainer.evaluation.cqa import summarise as summarize_cqa
from trainer.evaluation.encoders import PvDbowEncoder, SentenceEncoder
from trainer.evaluation.evaluators import Split

__all__ = ["ENCODERS", "EVALUATORS", "TASKS", "EvaluationData", "PvDbowEncoder", "summarize_cqa"]

EvaluationData = dict[str, Any]

TASKS: dict[str, Any] = {
    name: SimpleNamespace(label=label, evaluator=evaluator)
    for name, label, evaluator in (
        ("response_prediction", "conversations", "response_prediction"),
        ("snli", "SNLI", "snli"),
        ("entailment", "entailment", None),
        ("captions", "captions", None),
        ("paraphrases", "paraphrases", None),
        ("ranking", "rated pairs", None),
        ("distillation", "a teacher", None),
        ("neighbors", "neighboring sentences", None),
        ("neighbours", "neighboring sentences", None),
    )
}
ENCODERS: dict[str, Any] = {
    name: SimpleNamespace(config_class=SimpleNamespace(label=label))
    for name, label in (("dan", "DAN"), ("transformer", "Transformer"), ("cbow", "averages"), ("bilstm", "BiLSTM"))
}
EVALUATORS: dict[str, Any] = {name: SimpleNamespace(dataset=dataset) for name, dataset in evaluators.TASKS.items()}


def load_evaluation_data(sources: Mapping[str, str]) -> EvaluationData:
    """The datasets of the sources, by their names."""
    data = load_judged_on(sources)
    return {name: getattr(data, name) for name in sources}


def evaluate_encoder(
    encoder: SentenceEncoder, data: EvaluationData, split: Split, names: Iterable[str], intervals: bool = False
) -> dict[str, dict]:
    """As `evaluators.evaluate_encoder`."""
    return evaluators.evaluate_encoder(encoder, Corpora(**data), split, names, intervals=intervals)


def evaluate_baseline(
    baseline: str, data: EvaluationData, split: Split, names: Iterable[str], intervals: bool = False
) -> dict[str, dict]:
    """As `evaluators.evaluate_baseline`."""
    return evaluators.evaluate_baseline(baseline, Corpora(**data), split, names, intervals=intervals)
