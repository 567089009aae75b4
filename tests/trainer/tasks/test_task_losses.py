"""Every task: its gradient is the slope of its loss, and its batches hold the rows that are asked for."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from datasets import Dataset
from scipy.special import log_softmax, rel_entr, softmax
from torch import Tensor, nn

from modeling_convsim import ConvSimMultitaskOutput
from tests.trainer.tasks.test_tasks import (
    ROWS,
    TASKS,
    build_model,
    build_task,
    column,
    loss_and_gradients,
    neighbors,
    positive_pairs,
    scored_pairs,
    vectors_of,
)
from trainer.data.positive_pairs import PositivePairs, ScoredPairs
from trainer.data.sentence_order import Neighbors
from trainer.data.token_cache import TokenColumn
from trainer.tasks.captions import Captions
from trainer.tasks.distillation import Distillation
from trainer.tasks.neighbors import NeighboringSentences
from trainer.tasks.ranking import Ranking
from trainer.tasks.snli import Snli

SOME = np.array([5, 2, 9, 14])


@pytest.mark.parametrize("name", TASKS)
def test_the_gradient_is_the_slope_of_the_loss(name):
    # A term that is detached changes the gradient and not the loss.
    model, task, step = build_model("dan"), build_task(name, None), 1e-4
    model.set_sparse_gradients(False)
    with torch.no_grad():
        for parameter in model.parameters():  # with biases of zero, an empty text has the vector zero
            parameter.add_(0.1 * torch.randn_like(parameter))
    _, gradients = loss_and_gradients(model, task)
    length = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    losses = []
    for sign in (1, -2):  # to one side, and over to the other
        with torch.no_grad():
            for parameter_name, gradient in gradients.items():
                model.get_parameter(parameter_name).add_(sign * step * gradient / length)
        losses.append(loss_and_gradients(model, task)[0].double())
    slope = (losses[0] - losses[1]) / (2 * step)
    assert slope.item() == pytest.approx(length.item(), rel=0.02)


def texts_of(texts: TokenColumn, rows: np.ndarray) -> list[list[int]]:
    return [texts.ids[texts.offsets[row] : texts.offsets[row + 1]].tolist() for row in rows]


def packed(batch: dict[str, Tensor], prefix: str = "") -> list[list[int]]:
    ends = batch[f"{prefix}cu_seqlens"].tolist()
    return [batch[f"{prefix}input_ids"][a:b].tolist() for a, b in pairwise(ends)]


@pytest.mark.parametrize("name", TASKS)
def test_metrics_have_no_gradient_and_columns_are_those_of_the_texts(name):
    task = build_task(name, None)
    _, metrics = task.loss(build_model("dan"), task.batch(SOME))
    assert metrics and not any(value.requires_grad for value in metrics.values())
    expected = [column(0), column(1)] if name.startswith(("response", "snli")) else [column(0)]
    assert [one.ids.tolist() for one in task.columns] == [one.ids.tolist() for one in expected]


def test_the_accuracy_of_a_single_pair_of_pairs_is_zero_or_one():
    pairs = ScoredPairs(Dataset.from_dict({}), np.array([0, 1]), np.array([2, 3]), np.array([0.5, 1.0]))
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])  # cosines 0 and 0.6

    def accuracy(scores: list[float]) -> float:
        batch = Ranking(column(0), replace(pairs, scores=np.array(scores)), 20).batch(np.arange(2))
        return Ranking(column(0), pairs, 20).loss(Answer(pooler_output=vectors), batch)[1]["accuracy"].item()

    assert [accuracy([0.5, 1.0]), accuracy([1.0, 0.5]), accuracy([1.0, 1.0])] == [1, 0, 0]


def test_a_batch_of_pairs_has_the_texts_and_the_keys_of_its_rows():
    batch = build_task("response_prediction", None).batch(SOME)
    assert packed(batch) == texts_of(column(0), SOME)
    assert packed(batch, "response_") == texts_of(column(1), SOME)
    assert batch["input_keys"].tolist() == column(0).keys[SOME].tolist()
    assert batch["response_keys"].tolist() == column(1).keys[SOME].tolist()


def test_a_batch_of_inference_has_the_sentences_and_the_labels_of_its_rows():
    labels = np.arange(ROWS)
    batch = Snli(column(0), column(1), labels).batch(SOME)
    assert packed(batch) == texts_of(column(0), SOME)
    assert packed(batch, "hypothesis_") == texts_of(column(1), SOME)
    assert batch["labels"].tolist() == SOME.tolist()


def test_a_batch_of_positive_pairs_has_both_texts_the_hard_negatives_and_their_groups():
    pairs = positive_pairs()
    hard = pairs.negative[SOME][pairs.negative[SOME] >= 0]
    assert 0 < len(hard) < len(SOME)
    batch = build_task("contrastive", None).batch(SOME)
    rows = [*pairs.first[SOME], *pairs.second[SOME], *hard]
    assert packed(batch) == texts_of(column(0), rows)
    assert batch["groups"].tolist() == pairs.groups[pairs.first[SOME]].tolist()
    assert batch["negative_groups"].tolist() == pairs.groups[hard].tolist()


def test_the_first_text_may_be_a_hard_negative():
    pairs = positive_pairs()
    (row,) = np.flatnonzero(pairs.negative >= 0)[:1]
    pairs.negative[row] = 0
    batch = type(build_task("contrastive", None))(column(0), pairs, 20).batch(np.array([row]))
    assert packed(batch)[2:] == texts_of(column(0), [0])


def test_a_batch_of_scored_pairs_has_both_texts_and_the_scores_of_its_rows():
    pairs = scored_pairs()
    batch = Ranking(column(0), pairs, 20).batch(SOME)
    assert packed(batch) == texts_of(column(0), [*pairs.first[SOME], *pairs.second[SOME]])
    assert batch["scores"].tolist() == pairs.scores[SOME].tolist()


def test_a_batch_of_texts_to_distill_has_the_teachers_vectors_in_float32():
    vectors = np.arange(ROWS * 2).reshape(ROWS, 2).astype(np.float16)
    batch = Distillation(column(0), vectors, 20).batch(SOME)
    assert packed(batch) == texts_of(column(0), SOME)
    assert batch["teacher"].dtype == torch.float32 and batch["teacher"].tolist() == vectors[SOME].tolist()


def test_every_sentence_has_its_own_random_candidates():
    task = build_task("neighbors", None)
    torch.manual_seed(0)
    texts = packed(task.batch(np.arange(6)))
    sampled = [tuple(map(tuple, texts[6 + 5 * row + 2 : 6 + 5 * row + 5])) for row in range(6)]
    assert len(set(sampled)) > 3
    assert texts[:6] == texts_of(column(0), neighbors().sentences[:6])


def test_distillation_is_the_mean_relative_entropy_of_the_students_similarities_from_the_teachers():
    model, scale = build_model("dan").eval(), 5.0
    teacher = np.random.default_rng(6).normal(size=(ROWS, 7))
    teacher /= np.linalg.norm(teacher, axis=1, keepdims=True)
    task = Distillation(column(0), teacher, scale)
    loss, metrics = task.loss(model, task.batch(SOME))
    student = vectors_of(model, SOME)
    cosines, target = student @ student.T, teacher[SOME] @ teacher[SOME].T
    expected = []
    for row in range(len(SOME)):
        others = np.arange(len(SOME)) != row
        expected.append(rel_entr(softmax(scale * target[row, others]), softmax(scale * cosines[row, others])).sum())
    np.testing.assert_allclose(loss.item(), np.mean(expected), rtol=1e-4)
    np.testing.assert_allclose(metrics["difference"].item(), np.sqrt(np.mean((cosines - target) ** 2)), rtol=1e-4)


class Answer(nn.Module):
    """A model that returns an output that was made before."""

    def __init__(self, **fields: Tensor) -> None:
        super().__init__()
        self.output = ConvSimMultitaskOutput(**fields)

    def forward(self, **_: Tensor) -> ConvSimMultitaskOutput:
        return self.output


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_inference_is_the_mean_cross_entropy_of_the_labels_in_float32(dtype):
    logits = torch.tensor(np.random.default_rng(1).normal(size=(ROWS, 3)) * 3).to(dtype)
    task = build_task("snli", None)
    batch = task.batch(np.arange(ROWS))
    labels = batch["labels"].numpy()
    loss, metrics = task.loss(Answer(nli_logits=logits), batch)
    probabilities = log_softmax(logits.double().numpy(), axis=1)
    assert loss.dtype == torch.float32
    np.testing.assert_allclose(loss.item(), -probabilities[np.arange(ROWS), labels].mean(), rtol=1e-6)
    assert metrics["accuracy"].item() == pytest.approx((probabilities.argmax(axis=1) == labels).mean())


def test_a_hard_negative_that_is_nearer_than_the_pair_counts_as_wrong():
    texts = TokenColumn(np.arange(9) + 2, np.arange(10), np.arange(9))
    pairs = PositivePairs(Dataset.from_dict({}), np.arange(3), np.arange(3, 6), np.array([6, -1, 8]), np.arange(9))
    # First texts, then second ones at an angle, then hard negatives: that of the first text is equal to it.
    vectors = torch.eye(5)[[0, 1, 2, 0, 1, 2, 0, 3]]
    vectors[3:6] = (vectors[3:6] + torch.eye(5)[4]) / 2**0.5
    task = Captions(texts, pairs, 4.0)
    loss, metrics = task.loss(Answer(pooler_output=vectors), task.batch(np.arange(3)))
    assert metrics["accuracy"].item() == pytest.approx(2 / 3)
    scores = vectors[:3] @ torch.cat([vectors[3:6], vectors[6:]]).T * 4
    back = vectors[3:6] @ vectors[:3].T * 4
    expected = [each.logsumexp(1).mean() - each.diagonal().mean() for each in (scores, back)]
    assert loss.item() == pytest.approx(sum(expected).item() / 2)


def test_ranking_counts_pairs_with_equal_cosines_as_wrong():
    pairs, vectors = scored_pairs(), torch.ones(2 * ROWS, 3)
    task = Ranking(column(0), pairs, 4.0)
    loss, metrics = task.loss(Answer(pooler_output=vectors), task.batch(np.arange(ROWS)))
    ordered = sum(a < b for a in pairs.scores for b in pairs.scores)
    assert metrics["accuracy"].item() == 0
    assert loss.item() == pytest.approx(np.log(1 + ordered))


def test_ranking_multiplies_differences_of_cosines_by_its_scale():
    pairs, vectors = scored_pairs(), torch.randn(2 * ROWS, 3, generator=torch.Generator().manual_seed(0))
    cosines = (vectors[:ROWS] * vectors[ROWS:]).sum(1).double().numpy()
    terms = [
        np.exp(0.5 * (cosines[i] - cosines[j]))
        for i in range(ROWS)
        for j in range(ROWS)
        if pairs.scores[i] < pairs.scores[j]
    ]
    task = Ranking(column(0), pairs, 0.5)
    loss, _ = task.loss(Answer(pooler_output=vectors), task.batch(np.arange(ROWS)))
    assert loss.item() == pytest.approx(np.log(1 + sum(terms)), rel=1e-5)


@pytest.mark.parametrize(("mini_batch_size", "calls"), [(None, 1), (ROWS, 1), (ROWS + 1, 1), (ROWS - 1, 4)])
def test_a_batch_that_fits_in_memory_is_encoded_once(mini_batch_size, calls):
    model, task, counted = build_model("dan"), build_task("distillation", mini_batch_size), []
    model.register_forward_pre_hook(lambda *_: counted.append(1))
    loss_and_gradients(model, task)
    assert len(counted) == calls  # with mini-batches, every part is encoded again in the backward pass


def test_ranking_of_equal_scores_has_no_accuracy_to_divide_by():
    pairs = scored_pairs()
    pairs.scores[:] = 0.5
    task = Ranking(column(0), pairs, 4.0)
    loss, metrics = task.loss(Answer(pooler_output=torch.ones(2 * ROWS, 3)), task.batch(np.arange(ROWS)))
    assert loss.item() == 0 and metrics["accuracy"].item() == 0


def test_random_candidates_are_sentences_with_known_words_alone():
    rows = neighbors()
    others = Neighbors(rows.sentences, rows.before, rows.after, np.array([7, 9, 20]))
    texts = TokenColumn(np.arange(ROWS), np.arange(ROWS + 1), np.arange(ROWS))
    batch = NeighboringSentences(texts, others, 50, 1).batch(np.arange(4))
    candidates = batch["input_ids"][4:].view(4, 52)[:, 2:]
    assert set(candidates.flatten().tolist()) == {7, 9, 20}


def test_a_missing_neighbor_is_not_the_nearest_candidate():
    task = build_task("neighbors", None)
    batch = task.batch(np.array([0]))
    assert batch["is_candidate"][0, :2].tolist() == [False, True]
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert task.loss(Answer(pooler_output=vectors), batch)[1]["accuracy"].item() == 1
