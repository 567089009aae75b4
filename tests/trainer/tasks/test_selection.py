"""Which tasks a run trains, and with which weights."""

import re
from typing import Any

import pytest

from data_scripts.errors import InputError
from trainer.arguments import Arguments
from trainer.command_line import build_arguments
from trainer.tasks import TASKS, Task, sampling_weights, trained_tasks, validate_tasks


def arguments(tasks: dict[str, Any], **changes: Any) -> Any:
    """Options as they are before they are validated."""
    options = build_arguments(pairs=["p"], snli="s", tasks={"response_prediction": 1, "snli": 1})
    for name in ("pairs", "snli"):
        setattr(options, name, {"pairs": [], "snli": None}[name])
    for name, value in (changes | {"tasks": tasks}).items():
        assert hasattr(options, name)
        setattr(options, name, value)
    return options


def test_tasks_are_trained_in_the_order_of_the_option_unless_they_have_no_weight_or_no_data():
    every = {"snli": 0.5, "entailment": 0, "response_prediction": 1}
    assert trained_tasks(arguments(every, snli_share=1.0)) == ["snli", "response_prediction"]
    assert trained_tasks(arguments(every, snli_share=0.0)) == ["response_prediction"]


@pytest.mark.parametrize(
    ("tasks", "options"),
    [
        ({"response_prediction": 1}, {"pairs": ["p"]}),
        ({"response_prediction": 0.1, "snli": 0}, {"pairs": ["p"]}),  # a task of weight 0 needs no data
        ({"response_prediction": 0, "snli": 2}, {"snli": "s", "symmetric_loss": True}),  # and its options have effect
        ({"response_prediction": 1}, {"pairs": ["p"], "snli": "s"}),  # for the removal of its sentences
        ({"distillation": 1}, {"teacher": "t", "pairs": ["p"], "captions": ["c"]}),  # trains on every dataset
        ({"ranking": 1}, {"paraphrases": ["p"], "nli": ["n"]}),
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
        ({"snli": -0.5}, {"snli": "s"}, "tasks gives 'snli' the sampling weight -0.5; expected a number of 0 or more"),
        ({"snli": float("nan")}, {"snli": "s"}, "the sampling weight nan; expected"),
        ({"snli": True}, {"snli": "s"}, "the sampling weight True; expected"),
        ({"snli": "1"}, {"snli": "s"}, "the sampling weight '1'; expected"),
        ({"snli": 1}, {}, "tasks trains on 'snli', so snli is needed: name its folder with --snli"),
        ({"response_prediction": 1}, {"pairs": []}, "so pairs is needed: name its folder with --pairs"),
        ({"snli": 0, "response_prediction": 0}, {}, "tasks gives no task a sampling weight above 0"),
        ({}, {}, "tasks gives no task a sampling weight above 0"),
        ({"snli": 1}, {"snli": "s", "snli_share": 0.0}, "snli_share is 0, but the run trains on snli alone"),
        (
            {"snli": 1},
            {"snli": "s", "symmetric_loss": True},
            "symmetric_loss has no effect with tasks: snli: give response_prediction a sampling weight in tasks",
        ),
        (
            {"snli": 1},
            {"snli": "s", "similarity_scale": 3.0},
            "similarity_scale has no effect with tasks: snli: give one of captions, distillation, entailment, "
            "neighbors, paraphrases, ranking a sampling weight",
        ),
        ({"snli": 1}, {"snli": "s", "captions": ["c"]}, "captions has no effect with tasks: snli: give captions a"),
        (
            {"snli": 1, "response_prediction": 1},
            {"snli": "s", "pairs": ["p"], "negatives": 3},
            "negatives has no effect with tasks: snli, response_prediction: give neighbors",
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


def test_a_task_without_examples_keeps_its_weight():
    assert sampling_weights({"snli": 0.5, "captions": 1}, {"snli": range(0), "captions/a": range(0)}) == {
        "snli": 0.5, "captions/a": 1,
    }  # fmt: skip


def test_a_task_declares_only_what_is_special_about_it():
    assert (Task.Options, Task.datasets, Task.evaluator, Task.adds_texts, Task.reads_all_datasets) == (
        *(Arguments, (), None, True, False),
    )
    assert {name: task.evaluator for name, task in TASKS.items() if task.evaluator} == {
        "response_prediction": "response_prediction", "snli": "snli",
    }  # fmt: skip
    # The teacher's texts are those of the other datasets.
    assert {name for name, task in TASKS.items() if task.adds_texts is not True} == {
        "distillation", "response_distillation",
    }  # fmt: skip
    assert {name for name, task in TASKS.items() if task.reads_all_datasets} == {"distillation"}
    assert TASKS["distillation"].adds_texts is False


def test_the_registry_has_every_task():
    assert sorted(TASKS) == [
        *("captions", "distillation", "entailment", "neighbors"),
        *("paraphrases", "ranking", "response_distillation", "response_prediction", "snli"),
    ]
