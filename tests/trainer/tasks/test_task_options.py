"""Every task is built from the run's options and datasets: each option reaches the loss."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import nn

from tests.trainer.tasks.test_false_negatives import dan, names, token_column
from trainer.data.datasets import RunData
from trainer.data.positive_pairs import (
    ScoredPairs,
    caption_pairs,
    entailment_pairs,
    paraphrase_pairs,
    scored_nli_pairs,
    scored_paraphrase_pairs,
)
from trainer.data.sentence_order import find_neighbors, order_sentences
from trainer.tasks import TASKS, Task, TaskInputs
from trainer.tasks.captions import Captions
from trainer.tasks.distillation import Distillation
from trainer.tasks.entailment import Entailment
from trainer.tasks.neighbors import NeighboringSentences
from trainer.tasks.paraphrases import Paraphrases
from trainer.tasks.ranking import Ranking
from trainer.tasks.response_prediction import ResponsePrediction
from trainer.tasks.snli import Snli

GENERATOR = np.random.default_rng(11)
FIRST, SECOND = (GENERATOR.choice(names(GENERATOR, 12), 30).tolist() for _ in range(2))
SCORES = GENERATOR.integers(0, 3, 30).astype(float).tolist()
LABELS = GENERATOR.integers(0, 3, 30).tolist()
CAPTIONS = Dataset.from_dict({"group": GENERATOR.integers(0, 6, 30), "caption": FIRST})
PARAPHRASES = Dataset.from_dict({"sentence1": FIRST, "sentence2": SECOND, "score": SCORES})
NLI = Dataset.from_dict({"premise": FIRST, "hypothesis": SECOND, "label": LABELS})
PAIRS = Dataset.from_dict({"input": FIRST, "response": SECOND})
UNKNOWN = 1


class Tokenizer:
    unk_token_id = UNKNOWN


def build(task: type[Task], training: dict[str, Dataset], **options: Any) -> dict[str, Task]:
    inputs = TaskInputs(
        RunData(training),
        Tokenizer(),  # type: ignore[arg-type]
        lambda rows, columns: {name: token_column(rows[name][:]) for name in columns},
    )
    return task.build(task.Options(seed=8, mini_batch_size=8, **options), inputs)


def outcome(task: Task) -> tuple[float, int, set[str]]:
    """The loss on all rows, the number of calls of the model, and the names of the metrics."""
    model, calls = dan().eval(), []
    model.register_forward_hook(lambda *_: calls.append(1))
    torch.manual_seed(0)
    loss, metrics = task.loss(model, task.batch(np.arange(len(task))))
    return loss.item(), len(calls), set(metrics)


@pytest.mark.parametrize(
    ("task", "rows", "pairs"),
    [
        (Captions, CAPTIONS, caption_pairs),
        (Entailment, NLI, entailment_pairs),
        (Paraphrases, PARAPHRASES, paraphrase_pairs),
    ],
)
def test_tasks_on_equivalent_texts_read_the_seed_the_scale_and_the_sizes(task, rows, pairs):
    training = {f"{task.dataset_kind}/one": rows, f"{task.dataset_kind}/two": rows, "texts/one": PAIRS}
    tasks = build(task, training, similarity_scale=3.0, matryoshka_dims=[2, 4])
    assert list(tasks) == [f"{task.name}/one", f"{task.name}/two"]
    expected = pairs(rows, 8)
    other = pairs(rows, 0)
    assert (expected.second != other.second).any() or (expected.negative != other.negative).any()
    explicit = task(token_column(expected.texts["text"][:]), expected, 3.0, 8, [2, 4])
    for built in tasks.values():
        assert len(built) == len(expected) and outcome(built) == outcome(explicit)
    assert outcome(explicit)[1:] == (-(-outcome_rows(explicit) // 8), {"accuracy", "accuracy_2", "accuracy_4"})


def outcome_rows(task: Task) -> int:
    return len(task.batch(np.arange(len(task)))["cu_seqlens"]) - 1


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_response_prediction_reads_its_options(mask, symmetric):
    options = {"mask_false_negatives": mask, "symmetric_loss": symmetric, "matryoshka_dims": [2]}
    tasks = build(ResponsePrediction, {"pairs": PAIRS}, **options)
    explicit = ResponsePrediction(token_column(FIRST), token_column(SECOND), mask, symmetric, 8, [2])
    assert list(tasks) == ["response_prediction"]
    built = tasks["response_prediction"]
    assert len(built) == 30 and outcome(built) == outcome(explicit)
    assert outcome(built)[1:] == (4, {"accuracy", "accuracy_2"})
    losses = {outcome(ResponsePrediction(token_column(FIRST), token_column(SECOND), *each))[0] for each in FLAGS}
    assert len(losses) == 4  # the options differ in the loss


def test_response_prediction_is_one_task_for_each_of_several_datasets():
    training = {"pairs/one": PAIRS, "pairs/two": PAIRS.select(range(20)), "texts/one": PAIRS}
    tasks = build(ResponsePrediction, training)
    assert {name: len(task) for name, task in tasks.items()} == {
        "response_prediction/one": 30,
        "response_prediction/two": 20,
    }


FLAGS = [(mask, symmetric) for mask in (False, True) for symmetric in (False, True)]


def test_inference_reads_premises_hypotheses_and_labels():
    tasks = build(Snli, {"snli": NLI})
    explicit = Snli(token_column(FIRST), token_column(SECOND), np.array(LABELS), 8)
    assert list(tasks) == ["snli"] and outcome(tasks["snli"]) == outcome(explicit)
    assert outcome(explicit)[1] == 4
    assert Snli.is_disabled(Snli.Options(snli_share=0)) and not Snli.is_disabled(Snli.Options(snli_share=0.01))


def test_ranking_has_a_task_for_each_dataset_with_different_scores():
    unscored = PARAPHRASES.map(lambda row: {"score": 1.0})
    training = {"nli/n": NLI, "paraphrases/p": PARAPHRASES, "paraphrases/unscored": unscored}
    tasks = build(Ranking, training, similarity_scale=3.0)
    assert list(tasks) == ["ranking/n", "ranking/p"]
    scored: dict[str, ScoredPairs | None] = {"n": scored_nli_pairs(NLI), "p": scored_paraphrase_pairs(PARAPHRASES)}
    for name, pairs in scored.items():
        assert pairs is not None
        explicit = Ranking(token_column(pairs.texts["text"][:]), pairs, 3.0, 8)
        assert outcome(tasks[f"ranking/{name}"]) == outcome(explicit) and outcome(explicit)[1] == 8


def test_neighboring_sentences_read_the_scale_and_the_number_of_negatives():
    tasks = build(NeighboringSentences, {"documents/d": PAIRS}, similarity_scale=3.0, negatives=4)
    sentences = order_sentences(PAIRS, "")
    texts = token_column(sentences.texts["text"][:])
    explicit = NeighboringSentences(texts, find_neighbors(sentences, texts, UNKNOWN, ""), 4, 3.0, 8)
    assert list(tasks) == ["neighbors/d"] and outcome(tasks["neighbors/d"]) == outcome(explicit)
    assert outcome_rows(explicit) == 60 * (1 + 2 + 4)


def test_distillation_encodes_the_sample_that_the_options_ask_for_and_each_text_once(monkeypatch, tmp_path):
    samples = {"pairs": PAIRS.select(range(20)), "captions/c": CAPTIONS.select_columns(["caption"])}
    texts = [*FIRST[:20], *SECOND[:20], *FIRST]
    vectors = np.random.default_rng(0).normal(size=(70, 5)).astype(np.float16)
    encoded = {"pairs": {"input": vectors[:20], "response": vectors[20:40]}, "captions/c": {"caption": vectors[40:]}}
    asked = []
    monkeypatch.setattr("trainer.data.teacher.sample_rows", lambda data, count: asked.append(count) or samples)
    monkeypatch.setattr("trainer.data.teacher.encode_columns", lambda *arguments: asked.append(arguments) or encoded)
    options = {"teacher": "one", "teacher_texts": 12, "cache_dir": str(tmp_path), "similarity_scale": 3.0}
    tasks = build(Distillation, {}, **options)
    assert asked == [12, ("one", samples, tmp_path)]
    rows = [row for row, text in enumerate(texts) if text not in texts[:row]]
    assert len(rows) < 70
    explicit = Distillation(token_column([texts[row] for row in rows]), vectors[rows], 3.0, 8)
    assert len(tasks["distillation"]) == len(rows) and outcome(tasks["distillation"]) == outcome(explicit)


def test_every_task_declares_what_the_run_reads():
    for name, task in TASKS.items():
        fields = {field.name for field in dataclasses.fields(task.Options)}
        assert task.name == name and task.required_option in fields and set(task.datasets) <= fields
    assert {name: task.evaluator for name, task in TASKS.items() if task.evaluator} == {
        "response_prediction": "response_prediction", "snli": "snli",
    }  # fmt: skip
    assert [name for name, task in TASKS.items() if not task.adds_texts] == ["distillation", "response_distillation"]
    assert [name for name, task in TASKS.items() if task.reads_all_datasets] == ["distillation"]
    assert [name for name, task in TASKS.items() if task.is_disabled(task.Options(**no_snli(task)))] == ["snli"]


def no_snli(task: type[Task]) -> dict[str, float]:
    return {"snli_share": 0.0} if task is Snli else {}


class Wrapped(nn.Module):
    """A model inside of another, as DistributedDataParallel has it."""

    def __init__(self) -> None:
        super().__init__()
        self.module = dan().eval()

    def forward(self, **batch: Any) -> Any:
        return self.module(**batch)


def test_a_wrapped_model_has_the_same_loss():
    for name in (False, True):
        task = ResponsePrediction(token_column(FIRST), token_column(SECOND), name, True, None, [3])
        losses = [task.loss(model, task.batch(np.arange(30)))[0] for model in (dan().eval(), Wrapped())]
        assert torch.equal(*losses)
