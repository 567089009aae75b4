"""A teacher's scores of responses: their scale, and the divergence from them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from data_scripts.errors import InputError
from tests.trainer.tasks.test_score_teachers import divergence, response_scores
from tests.trainer.tasks.test_task_options import FIRST, SECOND, build, outcome, token_column
from tests.trainer.tasks.test_tasks import ROWS, build_model, column, teacher_vectors
from trainer.tasks import response_distillation
from trainer.tasks.response_distillation import ResponseDistillation, calibrated_scale

ALL = np.arange(ROWS)


@pytest.mark.parametrize("kind", ["dan", "dan_input_network"])
def test_the_loss_is_the_mean_divergence_from_the_teachers_scores_in_both_directions(kind):
    student, vectors = build_model(kind).eval(), teacher_vectors()
    task = ResponseDistillation(column(0), column(1), *vectors, 9.0)
    loss, metrics = task.loss(student, task.batch(ALL))
    u, v = vectors.astype(np.float64)
    scores, teacher = response_scores(student), 9 * u @ v.T
    expected = (divergence(scores, teacher) + divergence(scores.T, teacher.T)) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert metrics["accuracy"].item() == pytest.approx((scores.argmax(axis=1) == ALL).mean())
    assert metrics["teacher_accuracy"].item() == pytest.approx((teacher.argmax(axis=1) == ALL).mean())


def test_a_batch_has_the_texts_and_the_teachers_vectors_of_its_rows():
    inputs, responses = teacher_vectors()
    rows = np.array([4, 0, 9])
    batch = ResponseDistillation(column(0), column(1), inputs, responses, 9.0).batch(rows)
    np.testing.assert_array_equal(batch["teacher_inputs"], inputs[rows].astype(np.float32))
    np.testing.assert_array_equal(batch["teacher_responses"], responses[rows].astype(np.float32))
    for prefix, texts in (("", column(0)), ("response_", column(1))):
        ids, cu_seqlens = texts.gather(rows)
        np.testing.assert_array_equal(batch[f"{prefix}input_ids"], ids)
        np.testing.assert_array_equal(batch[f"{prefix}cu_seqlens"], cu_seqlens)


def noisy_pairs(pairs: int, noise: float) -> np.ndarray:
    """L2-normalized vectors of inputs, and those of responses that are near them, (2, pairs, 40)."""
    generator = np.random.default_rng(3)
    inputs = generator.normal(size=(pairs, 40))
    vectors = np.stack([inputs, inputs + noise * generator.normal(size=inputs.shape)])
    return vectors / np.linalg.norm(vectors, axis=2, keepdims=True)


@pytest.mark.parametrize("noise", [1.5, 3.0])
@pytest.mark.parametrize("pairs", [70, 250])
def test_the_scale_minimizes_the_loss_of_the_true_responses(noise, pairs, monkeypatch):
    monkeypatch.setattr(response_distillation, "CANDIDATES", 100)
    vectors = noisy_pairs(pairs, noise)

    def info_nce(scale: float) -> float:
        total = 0.0
        for start in range(0, pairs, 100):
            u, v = vectors[:, start : start + 100]
            total -= np.trace(log_softmax(scale * u @ v.T, axis=1))
        return total

    best = minimize_scalar(info_nce, bounds=(1, 100), method="bounded").x
    assert 1.5 < best < 50
    assert calibrated_scale(*vectors) == pytest.approx(best, rel=0.13)  # steps of 12 %


def test_the_scale_of_a_teacher_that_says_nothing_is_the_smallest():
    unrelated = np.stack([noisy_pairs(200, 0)[0], noisy_pairs(200, 0)[0][::-1]])
    assert calibrated_scale(*unrelated) == 1


def test_the_scale_is_fitted_on_the_first_pairs_alone(monkeypatch):
    monkeypatch.setattr(response_distillation, "CALIBRATION_PAIRS", 100)
    vectors = noisy_pairs(300, 1.5)
    changed = vectors.copy()
    changed[1, 100:] = changed[1, 100:][::-1]
    assert calibrated_scale(*changed) == calibrated_scale(*vectors[:, :100]) > 1


ROWS_OF_PAIRS = Dataset.from_dict({"input": FIRST, "response": SECOND})
VECTORS = noisy_pairs(30, 1.0).astype(np.float16)
TRAINING = {"pairs/one": ROWS_OF_PAIRS, "pairs/two": ROWS_OF_PAIRS.select(range(20)), "texts/t": ROWS_OF_PAIRS}


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

    monkeypatch.setattr("trainer.data.teacher.sample_rows", sample_rows)
    monkeypatch.setattr("trainer.data.teacher.encode_columns", encode_columns)
    monkeypatch.setattr(response_distillation, "calibrated_scale", lambda u, v: len(u) / 10 if len(u) == len(v) else 0)
    return calls


def test_every_dataset_of_pairs_has_its_own_sample_and_scale(asked, tmp_path):
    options = {"teacher": "t", "teacher_pairs": 40, "cache_dir": str(tmp_path), "pairs": ["a/one", "a/two"]}
    tasks = build(ResponseDistillation, TRAINING, **options)
    assert asked == [(80, ["pairs/one", "pairs/two"]), ("t", tmp_path)]
    assert list(tasks) == ["response_distillation/one", "response_distillation/two"]
    for name, size in (("one", 30), ("two", 20)):
        explicit = ResponseDistillation(
            token_column(FIRST[:size]), token_column(SECOND[:size]), *VECTORS[:, :size], size / 10, 8
        )
        task = tasks[f"response_distillation/{name}"]
        assert len(task) == size and outcome(task) == outcome(explicit)


def test_the_teacher_scores_the_responses_of_the_datasets_that_are_named(asked):
    options = {"teacher": "t", "teacher_pairs": 40, "pairs": ["a/one", "a/two@main"], "distilled_pairs": ["a/two@main"]}
    assert list(build(ResponseDistillation, TRAINING, **options)) == ["response_distillation/two"]
    assert asked[0] == (80, ["pairs/two"])
    single = {"teacher": "t", "pairs": ["a/one"], "distilled_pairs": ["a/one"]}
    assert list(build(ResponseDistillation, {"pairs": ROWS_OF_PAIRS}, **single)) == ["response_distillation"]


@pytest.mark.parametrize(
    ("pairs", "distilled", "message"),
    [
        (["a/one", "a/two"], ["a/three"], r"distilled_pairs has a/three, which is not in pairs \(a/one, a/two\): name"),
        ([], ["a/one"], r"distilled_pairs has a/one, which is not in pairs \(none\)"),
        (
            ["a/one", "a/untrained"],
            ["a/untrained"],
            "pairs: no training split of pairs/untrained, which the task ",
        ),
        (["a/untrained"], [], "pairs: no training split, which the task response_distillation needs"),
    ],
)
def test_pairs_that_cannot_be_distilled_are_refused(pairs, distilled, message):
    training = {name: rows for name, rows in TRAINING.items() if name.startswith("pairs") and len(pairs) > 1}
    with pytest.raises(InputError, match=message):
        build(ResponseDistillation, training, teacher="t", pairs=pairs, distilled_pairs=distilled)
