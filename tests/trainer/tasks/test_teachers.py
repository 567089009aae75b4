"""Distillation: the mean scores of `score_teachers`, and a SentenceTransformer's scores of responses."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr, softmax

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimDanModel, ConvSimForMultitask
from modeling_convsim.files.errors import InputError
from tests.modeling_convsim.tiny_models import save
from tests.trainer.tasks.tiny_tasks import (
    ALL,
    ROWS,
    build_model,
    build_task,
    column,
    loss_and_gradients,
    packed,
    positive_pairs,
    teacher_vectors,
    teachers,
    texts_of,
    vectors_of,
)
from trainer.settings import Settings
from trainer.tasks.encoding import ScoreTeachers, load_score_teachers
from trainer.tasks.response_distillation import calibrated_scale
from trainer.tasks.response_prediction import ResponsePrediction


def response_scores(model: ConvSimForMultitask) -> np.ndarray:
    """The score of every response for every input, (ROWS, ROWS); every text is encoded alone."""
    queries, responses = [], []
    for row in ALL:
        ids, response_ids = (torch.tensor(texts_of(column(side), [row])[0]).long() for side in (0, 1))
        with torch.no_grad():
            output = model.eval()(
                ids, cu_seqlens=torch.tensor([0, len(ids)]), response_input_ids=response_ids,
                response_cu_seqlens=torch.tensor([0, len(response_ids)]),
            )  # fmt: skip
        queries.append(output.pooler_output if output.query_embeds is None else output.query_embeds)
        responses.append((1 if output.response_scale is None else output.response_scale) * output.response_embeds)
    return (torch.cat(queries) @ torch.cat(responses).T).numpy()


def divergence(scores: np.ndarray, teacher: np.ndarray) -> float:
    return float(rel_entr(softmax(teacher, axis=1), softmax(scores, axis=1)).sum(axis=1).mean())


def test_response_prediction_mixes_the_loss_with_the_divergence_from_the_teachers_mean_scores():
    student = build_model("dan").eval()
    scores, teacher = response_scores(student), np.mean([response_scores(model) for model in teachers()], axis=0)
    expected, masked = 0.0, scores.copy()
    others = column(0).keys[:, None] == column(0).keys
    others |= column(1).keys[:, None] == column(1).keys
    masked[others & ~np.eye(ROWS, dtype=bool)] = -np.inf
    for own, without_false_negatives, given in ((scores, masked, teacher), (scores.T, masked.T, teacher.T)):
        hard = -log_softmax(without_false_negatives, axis=1)[ALL, ALL].mean()
        expected += (0.3 * hard + 0.7 * divergence(own, given)) / 2
    task = build_task("response_prediction_with_teachers", score_teacher_share=0.7)
    np.testing.assert_allclose(task.loss(student, task.batch(ALL))[0].item(), expected, rtol=1e-5)
    one_direction = build_task("response_prediction_with_teachers", score_teacher_share=1, symmetric_loss=False)
    loss, _ = one_direction.loss(student, task.batch(ALL))
    np.testing.assert_allclose(loss.item(), divergence(scores, teacher), rtol=1e-5)


def test_contrastive_tasks_compare_scaled_cosines_of_pairs_and_hard_negatives():
    student, pairs = build_model("dan").eval(), positive_pairs()
    hard = pairs.negative[pairs.negative >= 0]

    def cosines(model: ConvSimForMultitask) -> tuple[np.ndarray, np.ndarray]:
        first, second, negatives = (vectors_of(model.eval(), rows) for rows in (pairs.first, pairs.second, hard))
        return first @ np.concatenate([second, negatives]).T, second @ first.T

    plain, distilled = (
        task.loss(student, task.batch(ALL))[0].item()
        for task in map(build_task, ("captions", "captions_with_teachers"))
    )
    means = [np.mean(both, axis=0) for both in zip(*map(cosines, teachers()), strict=True)]
    divergences = [divergence(20 * own, 20 * given) for own, given in zip(cosines(student), means, strict=True)]
    np.testing.assert_allclose(distilled, 0.3 * plain + 0.7 * np.mean(divergences), rtol=1e-5)


def test_teachers_are_not_trained_and_have_no_dropout():
    teacher = build_model("dan", dropout=0.5, seed=3)
    options = Settings(score_teacher_share=1)
    task = ResponsePrediction(options, column(0), column(1), ScoreTeachers([teacher]))
    loss, _ = loss_and_gradients(build_model("dan"), task)
    torch.manual_seed(9)
    assert torch.equal(task.loss(build_model("dan"), task.batch(ALL))[0].detach(), loss)
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in teacher.parameters())


def saved(folder, tokenizer, model_class=ConvSimDanForMultitask) -> str:
    config = ConvSimDanConfig(vocab_size=len(tokenizer), word_embedding_size=8, embedding_size=8, hidden_sizes=[8])
    return str(save(model_class(config), tokenizer, folder))


def test_teachers_that_do_not_fit_are_refused(tiny_tokenizer, tmp_path):
    other = saved(tmp_path / "a", tiny_tokenizer.train_new_from_iterator(["other words"], vocab_size=20))
    with pytest.raises(InputError, match=rf"the tokenizer of {other} .* differs from this run.s .* --tokenizer"):
        load_score_teachers([other], tiny_tokenizer)
    encoder = saved(tmp_path / "b", tiny_tokenizer, ConvSimDanModel)
    with pytest.raises(InputError, match=rf"score_teachers: {encoder} is not a multitask model"):
        load_score_teachers([encoder], tiny_tokenizer)


# -- a SentenceTransformer's scores of responses ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dan", "dan_input_network"])
def test_response_distillation_is_the_mean_divergence_from_the_teachers_scores_in_both_directions(kind):
    student, task = build_model(kind).eval(), build_task("response_distillation")
    loss, metrics = task.loss(student, task.batch(ALL))
    u, v = teacher_vectors().astype(np.float64)
    scores, teacher = response_scores(student), 9 * u @ v.T
    expected = (divergence(scores, teacher) + divergence(scores.T, teacher.T)) / 2
    assert loss.item() == pytest.approx(expected, rel=1e-4)
    assert metrics["accuracy"].item() == pytest.approx((scores.argmax(axis=1) == ALL).mean())
    assert metrics["teacher_accuracy"].item() == pytest.approx((teacher.argmax(axis=1) == ALL).mean())
    rows = np.array([4, 0, 9])
    batch = task.batch(rows)
    np.testing.assert_array_equal(batch["teacher_inputs"], u[rows].astype(np.float32))
    assert packed(batch, "response_") == texts_of(column(1), rows)


def test_each_pair_counts_the_same_in_the_calibrated_scale_also_in_a_short_last_part():
    """1,000 pairs and ten, which have perfect cosines and alone would want a large scale."""
    generator = np.random.default_rng(0)
    inputs, responses = generator.standard_normal((2, 1_010, 64))
    responses[1_000:] = inputs[1_000:]
    inputs, responses = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (inputs, responses))

    def losses(start: int, end: int, scale: float) -> np.ndarray:
        cosines = scale * inputs[start:end] @ responses[start:end].T
        return np.log(np.exp(cosines).sum(axis=1)) - np.diag(cosines)

    scales = np.geomspace(1, 100, 41)
    total = [losses(0, 1_000, scale).sum() + losses(1_000, 1_010, scale).sum() for scale in scales]
    assert calibrated_scale(inputs, responses) == scales[np.argmin(total)]
    of_means = [losses(0, 1_000, scale).mean() + losses(1_000, 1_010, scale).mean() for scale in scales]
    assert scales[np.argmin(of_means)] > 2 * scales[np.argmin(total)]
