"""The batches and the loss of every task, against loops over its texts."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from scipy.special import log_softmax, rel_entr, softmax
from torch import Tensor, nn

from modeling_convsim import ConvSimMultitaskOutput
from tests.trainer.tasks.tiny_tasks import (
    ALL,
    ROWS,
    build_model,
    build_task,
    column,
    neighbors,
    packed,
    positive_pairs,
    teacher_vectors,
    texts_of,
    vectors_of,
)
from trainer.data.examples import Neighbors, PositivePairs
from trainer.data.token_cache import TokenColumn
from trainer.settings import Settings
from trainer.tasks.contrastive import Captions
from trainer.tasks.distillation import Distillation
from trainer.tasks.neighbors import NeighboringSentences

SCALE = 5.0
SOME = np.array([5, 2, 9, 14])


class Answer(nn.Module):
    """A model that returns an output that was made before."""

    def __init__(self, **fields: Tensor) -> None:
        super().__init__()
        self.output = ConvSimMultitaskOutput(**fields)

    def forward(self, **_: Tensor) -> ConvSimMultitaskOutput:
        return self.output


def letters_column(texts: list[str]) -> TokenColumn:
    """Each letter is a token; equal texts have equal keys."""
    ids = np.array([ord(letter) % 50 + 2 for text in texts for letter in text])
    keys = np.unique(texts, return_inverse=True)[1].astype(np.int64)
    return TokenColumn(ids, np.cumsum([0, *map(len, texts)]), keys)


def names(generator: np.random.Generator, count: int) -> list[str]:
    return ["".join(generator.choice(list("abcdefgh"), 3)) for _ in range(count)]


# -- contrastive tasks ------------------------------------------------------------------------------------------------


def test_a_batch_of_positive_pairs_has_both_texts_the_hard_negatives_and_their_groups():
    pairs = positive_pairs()
    hard = pairs.negative[SOME][pairs.negative[SOME] >= 0]
    assert 0 < len(hard) < len(SOME)
    batch = build_task("captions").batch(SOME)
    assert packed(batch) == texts_of(column(0), [*pairs.first[SOME], *pairs.second[SOME], *hard])
    assert batch["groups"].tolist() == pairs.groups[pairs.first[SOME]].tolist()
    assert batch["negative_groups"].tolist() == pairs.groups[hard].tolist()


def test_a_hard_negative_that_is_nearer_than_the_pair_counts_as_wrong():
    texts = TokenColumn(np.arange(9) + 2, np.arange(10), np.arange(9))
    pairs = PositivePairs(Dataset.from_dict({}), np.arange(3), np.arange(3, 6), np.array([6, -1, 0]), np.arange(9))
    # First texts, then second ones at an angle, then hard negatives: that of the first text is equal to it.
    vectors = torch.eye(5)[[0, 1, 2, 0, 1, 2, 0, 3]]
    vectors[3:6] = (vectors[3:6] + torch.eye(5)[4]) / 2**0.5
    task = Captions(Settings(), texts, pairs)
    batch = task.batch(np.arange(3))
    assert packed(batch)[6:] == [[8], [2]]  # the first text of all may be a hard negative
    assert task.loss(Answer(pooler_output=vectors), batch)[1]["accuracy"].item() == pytest.approx(2 / 3)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def cross_entropy(scores: np.ndarray, masked: np.ndarray) -> float:
    return float(np.mean(np.log(np.where(masked, 0, np.exp(scores)).sum(axis=1)) - np.diag(scores)))


@pytest.mark.parametrize("input_network", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_response_prediction_is_infonce_in_both_directions(normalize, input_network):
    kind = "dan_input_network" if input_network else "dan"
    model = build_model(kind, normalize_response=normalize, logit_scale_init=7.0)
    task = build_task("response_prediction")
    batch = task.batch(ALL)
    masked = (batch["input_keys"][:, None] == batch["input_keys"]).numpy()
    masked |= (batch["response_keys"][:, None] == batch["response_keys"]).numpy()
    masked &= ~np.eye(ROWS, dtype=bool)
    loss, metrics = task.loss(model, batch)
    with torch.no_grad():
        output = model(**{key: value for key, value in batch.items() if not key.endswith("_keys")})
    inputs = (output.query_embeds if input_network else output.pooler_output).numpy()
    u, v = inputs, output.response_embeds.numpy()
    # u is L2-normalized; the networks' outputs are only with normalize_response, which also scales scores.
    u = unit(u) if normalize or not input_network else u
    scores = u @ (7.0 * unit(v) if normalize else v).T
    expected = (cross_entropy(scores, masked) + cross_entropy(scores.T, masked)) / 2
    np.testing.assert_allclose(metrics["accuracy"].item(), (scores.argmax(axis=1) == ALL).mean(), rtol=1e-6)
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)


def test_contrastive_tasks_are_infonce_in_both_directions_with_hard_negatives():
    model, pairs, task = build_model("dan").eval(), positive_pairs(), build_task("captions")
    loss, metrics = task.loss(model, task.batch(ALL))
    hard = pairs.negative[pairs.negative >= 0]
    first, second, negatives = (vectors_of(model, rows) for rows in (pairs.first, pairs.second, hard))
    masked = (pairs.groups[:, None] == pairs.groups) & ~np.eye(ROWS, dtype=bool)
    masked_hard = np.concatenate([masked, pairs.groups[:, None] == pairs.groups[hard]], axis=1)
    u, v, others = (unit(vectors) for vectors in (first, second, negatives))
    forth = cross_entropy(20 * u @ np.concatenate([v, others]).T, masked_hard)
    expected = (forth + cross_entropy(20 * v @ u.T, masked)) / 2
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)
    assert set(metrics) == {"accuracy"}


# -- SNLI, distillation -----------------------------------------------------------------------------------------------


def test_inference_is_the_mean_cross_entropy_of_the_labels_in_float32():
    logits = torch.tensor(np.random.default_rng(1).normal(size=(ROWS, 3)) * 3).bfloat16()
    task = build_task("snli")
    batch = task.batch(ALL)
    assert packed(batch, "hypothesis_") == texts_of(column(1), ALL)
    labels = batch["labels"].numpy()
    loss, metrics = task.loss(Answer(nli_logits=logits), batch)
    probabilities = log_softmax(logits.double().numpy(), axis=1)
    assert loss.dtype == torch.float32
    np.testing.assert_allclose(loss.item(), -probabilities[ALL, labels].mean(), rtol=1e-6)
    assert metrics["accuracy"].item() == pytest.approx((probabilities.argmax(axis=1) == labels).mean())


def test_distillation_is_the_mean_relative_entropy_of_the_students_similarities_from_the_teachers():
    model, teacher = build_model("dan").eval(), teacher_vectors()[0].astype(np.float64)
    task = Distillation(Settings(similarity_scale=SCALE), column(0), teacher)
    batch = task.batch(SOME)
    assert batch["teacher"].dtype == torch.float32 and packed(batch) == texts_of(column(0), SOME)
    loss, metrics = task.loss(model, batch)
    student = vectors_of(model, SOME)
    cosines, target = student @ student.T, teacher[SOME] @ teacher[SOME].T
    expected = []
    for row in range(len(SOME)):
        others = np.arange(len(SOME)) != row
        expected.append(rel_entr(softmax(SCALE * target[row, others]), softmax(SCALE * cosines[row, others])).sum())
    np.testing.assert_allclose(loss.item(), np.mean(expected), rtol=1e-4)
    np.testing.assert_allclose(metrics["difference"].item(), np.sqrt(np.mean((cosines - target) ** 2)), rtol=1e-4)


# -- neighboring sentences --------------------------------------------------------------------------------------------


def test_the_loss_of_neighboring_sentences_is_equation_1_over_cosines_of_averages():
    model, rows, scale = build_model("cbow"), neighbors(column(0).keys), 3.0
    task = build_task("neighbors", negatives=4, similarity_scale=scale)
    chosen = np.array([0, 1, 2, 8, 14, 20])
    torch.manual_seed(3)
    loss, metrics = task.loss(model, task.batch(chosen))
    torch.manual_seed(3)  # repeats the random negatives
    drawn = rows.others[torch.randint(len(rows.others), (len(chosen), 4)).numpy()]
    table, texts = model.get_parameter("encoder.embed_tokens.weight").detach().numpy(), column(0)

    def average(index: int) -> np.ndarray:
        words = table[texts.ids[texts.offsets[index] : texts.offsets[index + 1]]]
        return words.mean(axis=0) if len(words) else np.zeros(table.shape[1])

    def cosine(index: int, other: int) -> float:
        u, v = average(index), average(other)
        return u @ v / max(np.linalg.norm(u) * np.linalg.norm(v), 1e-9)

    losses, right = [], 0
    for row, negatives in zip(chosen, drawn, strict=True):
        sentence = rows.sentences[row]
        around = [index for index in (rows.before[row], rows.after[row]) if index >= 0]
        known = texts.keys[[sentence, *around]]
        same = [i for i, each in enumerate(rows.sentences) if texts.keys[each] == texts.keys[sentence]]
        observed = texts.keys[[index for index in (*rows.before[same], *rows.after[same]) if index >= 0]]
        others = [index for index in negatives if texts.keys[index] not in {*known, *observed}]
        scores = [scale * cosine(sentence, index) for index in [*around, *others]]
        total = np.exp(scores).sum()
        losses.append(-np.mean([np.log(np.exp(score) / total) for score in scores[: len(around)]]))
        right += int(np.argmax(scores)) < len(around)
    np.testing.assert_allclose(loss.item(), np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(metrics["accuracy"].item(), right / len(chosen), rtol=1e-6)


def test_candidates_are_both_neighbors_and_random_sentences_that_were_never_next_to_the_text():
    # One document; two texts come again, the first sentence has no neighbor before it, and 3 is not a negative.
    texts = ["a", "b", "c", "a", "b", "d", "e", "c"]
    rows = np.arange(len(texts))
    column = letters_column(texts)
    order = Neighbors(rows, rows - 1, np.append(rows[1:], -1), np.delete(rows, 3), column.keys)
    torch.manual_seed(0)
    task = NeighboringSentences(Settings(negatives=60), column, order)
    batch = task.batch(rows)
    letter = {tuple(texts_of(letters_column([text]), [0])[0]): text for text in texts}
    found = [letter[tuple(tokens)] for tokens in packed(batch)]
    assert found[: len(texts)] == texts
    candidates = np.array(found[len(texts) :]).reshape(len(texts), -1)
    for row, text in enumerate(texts):
        around = [texts[row - 1] if row else None, texts[row + 1] if row + 1 < len(texts) else None]
        assert batch["is_neighbor"][row].tolist() == [each is not None for each in around] + [False] * 60
        assert all(each in (None, candidate) for each, candidate in zip(around, candidates[row], strict=False))
        counts = batch["is_candidate"][row].tolist()
        assert counts[:2] == [each is not None for each in around]
        # "a" is next to "b" and "c", "b" to "a", "c" and "d", whatever its occurrence; "c" also ends the document.
        ever = {"a": "bc", "b": "acd", "c": "abe", "d": "be", "e": "cd"}[text]
        assert counts[2:] == [candidate not in {text, *ever} for candidate in candidates[row, 2:]]
        assert set(candidates[row, 2:]) == set("abcde")
    assert len({tuple(row) for row in candidates[:, 2:].tolist()}) == len(texts)  # every sentence has its own
