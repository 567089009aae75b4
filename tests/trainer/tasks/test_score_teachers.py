"""`score_teachers`: a share of the loss is the divergence from the mean scores of other models."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, rel_entr, softmax

from data_scripts.errors import InputError
from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimDanModel, ConvSimForMultitask
from tests.trainer.tasks.test_tasks import (
    ROWS,
    build_model,
    build_task,
    column,
    loss_and_gradients,
    positive_pairs,
    vectors_of,
)
from trainer.tasks.losses import in_batch_softmax
from trainer.tasks.response_prediction import ResponsePrediction
from trainer.tasks.score_teachers import ScoreTeachers, load_score_teachers

ALL = np.arange(ROWS)


def models() -> list[ConvSimForMultitask]:
    return [build_model("dan_input_network", seed=1), build_model("dan", seed=2)]


def response_scores(model: ConvSimForMultitask) -> np.ndarray:
    """The score of every response for every input, (ROWS, ROWS), one pair at a time."""
    scores = np.empty((ROWS, ROWS))
    for i in ALL:
        for j in ALL:
            ids, response_ids = (
                torch.from_numpy(texts.ids[texts.offsets[row] : texts.offsets[row + 1]])
                for texts, row in ((column(0), i), (column(1), j))
            )
            with torch.no_grad():
                output = model.eval()(
                    ids, cu_seqlens=torch.tensor([0, len(ids)]), response_input_ids=response_ids,
                    response_cu_seqlens=torch.tensor([0, len(response_ids)]),
                )  # fmt: skip
            query = output.pooler_output if output.query_embeds is None else output.query_embeds
            scale = 1 if output.response_scale is None else output.response_scale
            scores[i, j] = (scale * query * output.response_embeds).sum()
    return scores


def divergence(scores: np.ndarray, teacher: np.ndarray) -> float:
    return float(rel_entr(softmax(teacher, axis=1), softmax(scores, axis=1)).sum(axis=1).mean())


def test_response_prediction_mixes_the_loss_with_the_divergence_from_the_teachers_mean_scores():
    student = build_model("dan").eval()
    scores, teacher = response_scores(student), np.mean([response_scores(model) for model in models()], axis=0)
    expected = 0.0
    masked = scores.copy()
    others = column(0).keys[:, None] == column(0).keys
    others |= column(1).keys[:, None] == column(1).keys
    masked[others & ~np.eye(ROWS, dtype=bool)] = -np.inf
    for own, without_false_negatives, given in ((scores, masked, teacher), (scores.T, masked.T, teacher.T)):
        hard = -log_softmax(without_false_negatives, axis=1)[ALL, ALL].mean()
        expected += (0.3 * hard + 0.7 * divergence(own, given)) / 2
    task = build_task("response_prediction_with_teachers", None)
    loss, metrics = task.loss(student, task.batch(ALL))
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)
    assert metrics["accuracy"].item() == pytest.approx((scores.argmax(axis=1) == ALL).mean())


def test_only_one_direction_is_distilled_unless_the_loss_is_symmetric():
    student = build_model("dan").eval()
    teacher = np.mean([response_scores(model) for model in models()], axis=0)
    task = ResponsePrediction(column(0), column(1), teachers=ScoreTeachers(models(), share=1))
    loss, _ = task.loss(student, task.batch(ALL))
    np.testing.assert_allclose(loss.item(), divergence(response_scores(student), teacher), rtol=1e-5)


def test_contrastive_tasks_compare_scaled_cosines_of_pairs_and_hard_negatives():
    student, pairs = build_model("dan").eval(), positive_pairs()
    hard = pairs.negative[pairs.negative >= 0]

    def cosines(model: ConvSimForMultitask) -> tuple[np.ndarray, np.ndarray]:
        first, second, negatives = (vectors_of(model.eval(), rows) for rows in (pairs.first, pairs.second, hard))
        return first @ np.concatenate([second, negatives]).T, second @ first.T

    plain, _ = build_task("contrastive", None).loss(student, build_task("contrastive", None).batch(ALL))
    taught, _ = build_task("contrastive_with_teachers", None).loss(student, build_task("contrastive", None).batch(ALL))
    means = [np.mean(both, axis=0) for both in zip(*map(cosines, models()), strict=True)]
    divergences = [divergence(20 * own, 20 * given) for own, given in zip(cosines(student), means, strict=True)]
    np.testing.assert_allclose(taught.item(), 0.3 * plain.item() + 0.7 * np.mean(divergences), rtol=1e-5)


def test_a_model_that_is_its_own_teacher_has_nothing_to_learn_from_it():
    model = build_model("dan").eval()
    task = ResponsePrediction(column(0), column(1), True, True, teachers=ScoreTeachers([build_model("dan")], share=1))
    loss, gradients = loss_and_gradients(model, task)
    assert abs(loss.item()) < 1e-6 and max(value.abs().max().item() for value in gradients.values()) < 1e-6


def test_teachers_are_not_trained_and_have_no_dropout():
    teacher = build_model("dan", dropout=0.5, seed=3)
    task = ResponsePrediction(column(0), column(1), teachers=ScoreTeachers([teacher], share=1))
    losses = [loss_and_gradients(build_model("dan"), task)[0] for _ in range(2)]
    torch.manual_seed(9)
    assert torch.equal(task.loss(build_model("dan"), task.batch(ALL))[0].detach(), losses[0])
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in teacher.parameters())


def test_truncated_embeddings_are_compared_with_the_teachers_full_ones():
    student = build_model("dan").eval()
    tasks = [
        ResponsePrediction(column(0), column(1), matryoshka_dims=dims, teachers=ScoreTeachers(models(), share=1))
        for dims in ([], [5])
    ]
    full, both = (task.loss(student, task.batch(ALL))[0].item() for task in tasks)
    scores = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    assert in_batch_softmax(scores, torch.arange(4), None, scores, 1.0).item() == pytest.approx(0, abs=1e-6)
    assert both > full > 0


def saved(folder, tokenizer, model_class=ConvSimDanForMultitask) -> str:
    config = ConvSimDanConfig(vocab_size=len(tokenizer), word_embedding_size=8, embedding_size=8, hidden_sizes=[8])
    model_class(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_saved_models_are_loaded_as_teachers(tiny_tokenizer, tmp_path):
    sources = [saved(tmp_path / name, tiny_tokenizer) for name in "ab"]
    teachers = load_score_teachers(sources, tiny_tokenizer, 0.4)
    ids = torch.tensor([2, 3, 4, 5])
    vectors = teachers.embed_batch({"input_ids": ids, "cu_seqlens": torch.tensor([0, 1, 4])}, None)
    assert teachers.share == 0.4 and vectors.shape == (2, 16)
    torch.testing.assert_close(vectors.square().sum(dim=1), torch.ones(2))


def test_a_teacher_with_another_tokenizer_is_refused(tiny_tokenizer, tmp_path):
    other = tiny_tokenizer.train_new_from_iterator(["other words"], vocab_size=20)
    source = saved(tmp_path / "a", other)
    with pytest.raises(InputError, match=rf"the tokenizer of {source} .* is not that of this run .* --tokenizer"):
        load_score_teachers([source], tiny_tokenizer, 0.4)


def test_a_teacher_without_a_response_network_is_refused(tiny_tokenizer, tmp_path):
    source = saved(tmp_path / "a", tiny_tokenizer, ConvSimDanModel)
    with pytest.raises(InputError, match=rf"score_teachers: {source} is not a multitask model"):
        load_score_teachers([source], tiny_tokenizer, 0.4)


def test_a_teacher_that_is_not_there_is_named(tiny_tokenizer, tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        load_score_teachers([str(tmp_path / "nowhere")], tiny_tokenizer, 0.4)
