"""Which tasks a run trains, and with which weights."""

import re
from typing import Any

import pytest

from data_scripts.files.errors import InputError
from trainer.command_line import arguments_class
from trainer.tasks import sampling_weights, trained_tasks, validate_tasks


def arguments(tasks: dict[str, Any], **options: Any) -> Any:
    return arguments_class()(tasks=tasks, **options)


def test_tasks_are_trained_in_the_order_of_the_option_unless_they_have_no_weight_or_no_data():
    every = {"snli": 0.5, "entailment": 0, "response_prediction": 1}
    assert trained_tasks(arguments(every)) == ["snli", "response_prediction"]
    assert trained_tasks(arguments(every, snli_share=0.0)) == ["response_prediction"]


@pytest.mark.parametrize(
    ("tasks", "options"),
    [
        ({"response_prediction": 0.1, "snli": 0}, {"pairs": ["p"]}),  # a task of weight 0 needs no data
        ({"response_prediction": 0, "snli": 2}, {"snli": "s", "symmetric_loss": True}),  # and its options have effect
        ({"response_prediction": 1}, {"pairs": ["p"], "snli": "s"}),  # for the removal of its sentences
        ({"distillation": 1}, {"teacher": "t", "pairs": ["p"], "captions": ["c"]}),  # trains on every dataset
        ({"response_prediction": 1, "snli": 1}, {"pairs": ["p"], "snli": "s", "snli_share": 0.0}),
    ],
)
def test_tasks_with_their_data_are_accepted(tasks, options):
    validate_tasks(arguments(tasks, **options))


@pytest.mark.parametrize(
    ("tasks", "options", "message"),
    [
        ({"respond": 1}, {}, "tasks has 'respond'; expected one of captions, "),
        ({"response_predictions": 1}, {}, "did you mean 'response_prediction'?"),
        ({"snli": -0.5}, {"snli": "s"}, "tasks gives 'snli' the sampling weight -0.5; expected a number from 0 to"),
        ({"snli": float("nan")}, {"snli": "s"}, "the sampling weight nan; expected"),
        ({"snli": True}, {"snli": "s"}, "the sampling weight True; expected"),
        ({"snli": "1"}, {"snli": "s"}, "the sampling weight '1'; expected"),
        ({"snli": 1}, {}, "tasks trains on 'snli', so snli is needed: name its folder with --snli"),
        ({"snli": 0, "response_prediction": 0}, {}, "tasks gives no task a sampling weight above 0"),
        ({}, {}, "tasks gives no task a sampling weight above 0"),
        ({"snli": 1}, {"snli": "s", "snli_share": 0.0}, "snli_share is 0, but the run trains on snli alone"),
        (
            {"snli": 1},
            {"snli": "s", "symmetric_loss": True},
            "symmetric_loss has no effect with tasks: snli: give response_prediction a sampling weight in tasks",
        ),
        (
            {"snli": 1, "response_prediction": 1},
            {"snli": "s", "pairs": ["p"], "similarity_scale": 3.0},
            "similarity_scale has no effect with tasks: snli, response_prediction: give one of captions, "
            "distillation, entailment, neighbors, paraphrases a sampling weight",
        ),
        ({"snli": 1}, {"snli": "s", "captions": ["c"]}, "captions has no effect with tasks: snli: give captions a"),
        (
            {"response_prediction": 1},
            {"pairs": ["p"], "score_teacher_share": 0.5},
            "score_teacher_share has no effect with score_teachers: none: name models in score_teachers",
        ),
    ],
)
def test_tasks_and_options_that_cannot_have_an_effect_are_refused(tasks, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        validate_tasks(arguments(tasks, **options))


def test_weights_are_divided_among_the_datasets_of_a_task_by_the_roots_of_their_sizes():
    tasks = {"nli/a": range(900), "nli/b": range(100), "nlis/c": range(16), "plain": range(5), "plain/x": range(20)}
    weights = sampling_weights({"nli": 2, "nlis": 3.0, "plain": 1, "absent": 7}, tasks)
    assert weights == pytest.approx({"nli/a": 1.5, "nli/b": 0.5, "nlis/c": 3.0, "plain": 1 / 3, "plain/x": 2 / 3})
    assert sampling_weights({"snli": 0.5}, {"snli": range(0)}) == {"snli": 0.5}  # so that the run refuses it
