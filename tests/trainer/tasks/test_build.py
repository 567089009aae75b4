"""Every task is built from the run's options and datasets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from modeling_convsim.files.errors import InputError
from tests.modeling_convsim.tiny_models import build as build_model
from tests.trainer.tasks.test_task_losses import letters_column, names
from trainer.data.datasets import RunData
from trainer.data.examples import caption_pairs, entailment_pairs, paraphrase_pairs
from trainer.settings import FIELDS, Settings
from trainer.tasks import TASKS, Task, TaskInputs, response_distillation
from trainer.tasks.contrastive import Captions, Entailment, Paraphrases
from trainer.tasks.response_distillation import ResponseDistillation
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


class Tokenizer:
    unk_token_id = 1


def build(task: type[Task], training: dict[str, Dataset], **options: Any) -> dict[str, Task]:
    inputs = TaskInputs(
        RunData(training),
        Tokenizer(),  # type: ignore[arg-type]
        lambda rows, columns: {name: letters_column(rows[name][:]) for name in columns},
    )
    return task.build(Settings(seed=8, **options), inputs)


def loss_of(task: Task) -> float:
    return task.loss(build_model("dan").double(), task.batch(np.arange(len(task))))[0].item()


@pytest.mark.parametrize(
    ("task", "rows", "pairs"),
    [
        (Captions, CAPTIONS, caption_pairs),
        (Entailment, NLI, entailment_pairs),
        (Paraphrases, PARAPHRASES, paraphrase_pairs),
    ],
)
def test_contrastive_tasks_read_every_dataset_of_their_kind_and_the_seed(task, rows, pairs):
    kind = task.datasets[0]
    tasks = build(task, {f"{kind}/one": rows, f"{kind}/two": rows, "texts/one": PAIRS}, similarity_scale=3.0)
    assert list(tasks) == [f"{task.name}/one", f"{task.name}/two"]
    expected, other = pairs(rows, 8), pairs(rows, 0)
    assert (expected.second != other.second).any() or (expected.negative != other.negative).any()
    explicit = task(Settings(similarity_scale=3.0), letters_column(expected.texts["text"][:]), expected)
    assert len(tasks[f"{task.name}/two"]) == len(expected) and loss_of(tasks[f"{task.name}/two"]) == loss_of(explicit)


def test_response_prediction_is_one_task_for_each_of_several_datasets():
    training = {"pairs/one": PAIRS, "pairs/two": PAIRS.select(range(20)), "texts/one": PAIRS}
    tasks = build(ResponsePrediction, training)
    assert {name: len(task) for name, task in tasks.items()} == {
        "response_prediction/one": 30, "response_prediction/two": 20,
    }  # fmt: skip
    (alone,) = build(ResponsePrediction, {"pairs": PAIRS}).items()
    explicit = ResponsePrediction(Settings(), letters_column(FIRST), letters_column(SECOND))
    assert alone[0] == "response_prediction" and loss_of(alone[1]) == loss_of(explicit)


def test_inference_reads_premises_hypotheses_and_labels():
    tasks = build(Snli, {"snli": NLI})
    explicit = Snli(Settings(), letters_column(FIRST), letters_column(SECOND), np.array(LABELS))
    assert list(tasks) == ["snli"] and loss_of(tasks["snli"]) == loss_of(explicit)


VECTORS = np.random.default_rng(3).normal(size=(2, 30, 5)).astype(np.float16)
TRAINING = {"pairs/one": PAIRS, "pairs/two": PAIRS.select(range(20)), "texts/t": PAIRS}


@pytest.fixture
def asked(monkeypatch) -> list[Any]:
    """What was sampled and encoded; the sample of a dataset is all of it, and its scale a tenth of its size."""
    calls: list[Any] = []

    def sample_rows(data: Any, count: int, names: list[str]) -> dict[str, Dataset]:
        calls.append((count, names))
        return {name: data.training[name].select_columns(["input", "response"]) for name in names}

    def encode_columns(teacher: str, samples: Any, cache_dir: Path) -> dict[str, dict[str, np.ndarray]]:
        calls.append((teacher, cache_dir))
        parts = {name: VECTORS[:, : len(rows)] for name, rows in samples.items()}
        return {name: {"input": part[0], "response": part[1]} for name, part in parts.items()}

    monkeypatch.setattr("trainer.tasks.response_distillation.sample_rows", sample_rows)
    monkeypatch.setattr("trainer.tasks.response_distillation.encode_columns", encode_columns)
    monkeypatch.setattr(response_distillation, "calibrated_scale", lambda u, v: len(u) / 10 if len(u) == len(v) else 0)
    return calls


def test_response_distillation_has_a_sample_and_a_scale_for_every_dataset_of_pairs(asked, tmp_path):
    options = {"teacher": "t", "teacher_pairs": 40, "cache_dir": str(tmp_path), "pairs": ["a/one", "a/two"]}
    tasks = build(ResponseDistillation, TRAINING, **options)
    assert asked == [(80, ["pairs/one", "pairs/two"]), ("t", tmp_path)]
    assert list(tasks) == ["response_distillation/one", "response_distillation/two"]
    columns = letters_column(FIRST[:20]), letters_column(SECOND[:20])
    explicit = ResponseDistillation(Settings(), *columns, *VECTORS[:, :20], 2.0)
    assert loss_of(tasks["response_distillation/two"]) == loss_of(explicit)


def test_the_teacher_scores_the_responses_of_the_datasets_that_are_named(asked):
    options = {"teacher": "t", "teacher_pairs": 40, "pairs": ["a/one", "a/two@main"], "distilled_pairs": ["a/two@main"]}
    assert list(build(ResponseDistillation, TRAINING, **options)) == ["response_distillation/two"]
    assert asked[0] == (80, ["pairs/two"])
    single = {"teacher": "t", "pairs": ["a/one"], "distilled_pairs": ["a/one"]}
    assert list(build(ResponseDistillation, {"pairs": PAIRS}, **single)) == ["response_distillation"]


@pytest.mark.parametrize(
    ("pairs", "distilled", "message"),
    [
        (["a/one", "a/two"], ["a/three"], r"distilled_pairs has a/three, which is not in pairs \(a/one, a/two\): add"),
        (["a/one", "a/three"], ["a/three"], "pairs: no training split of pairs/three, which the task "),
    ],
)
def test_pairs_that_cannot_be_distilled_are_refused(pairs, distilled, message):
    training = {"pairs/one": PAIRS, "pairs/two": PAIRS}
    with pytest.raises(InputError, match=message):
        build(ResponseDistillation, training, teacher="t", pairs=pairs, distilled_pairs=distilled)


def test_every_task_declares_what_the_run_reads():
    for name, task in TASKS.items():
        assert task.name == name and task.required_option in FIELDS and FIELDS.keys() >= set(task.datasets)
    # The teacher's texts are those of the other datasets.
    assert [name for name, task in TASKS.items() if not task.adds_texts] == ["distillation", "response_distillation"]
