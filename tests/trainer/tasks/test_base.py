"""Which tasks a run trains, and with which weights."""

import re

import pytest

from modeling_convsim.files.errors import InputError
from trainer.settings import Settings
from trainer.tasks import sampling_weights, validate_tasks


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ({"respond": 1}, "tasks has 'respond'; expected some of captions, "),
        ({"response_predictions": 1}, "did you mean 'response_prediction'?"),
        ({"snli": 1}, "tasks includes 'snli', which requires snli: set it with --snli"),
    ],
)
def test_tasks_that_do_not_exist_or_have_no_data_are_refused(tasks, message):
    with pytest.raises(InputError, match=re.escape(message)):
        validate_tasks(Settings(tasks=tasks))


def test_weights_are_divided_among_the_datasets_of_a_task_by_the_roots_of_their_sizes():
    tasks = {"nli/a": range(900), "nli/b": range(100), "nlis/c": range(16), "plain": range(5), "plain/x": range(20)}
    weights = sampling_weights({"nli": 2, "nlis": 3.0, "plain": 1, "absent": 7}, tasks)
    assert weights == pytest.approx({"nli/a": 1.5, "nli/b": 0.5, "nlis/c": 3.0, "plain": 1 / 3, "plain/x": 2 / 3})
    assert sampling_weights({"snli": 0.5}, {"snli": range(0)}) == {"snli": 0.5}  # so that the run refuses it
