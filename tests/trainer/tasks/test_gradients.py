"""The gradient of every task is the slope of its loss."""

import numpy as np
import pytest
import torch

from tests.trainer.tasks.tiny_tasks import NAMES, build_model, build_task, loss_and_gradients


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_the_slope_of_the_loss(name):
    # A term that is detached changes the gradient and not the loss.
    model, task, step = build_model("dan"), build_task(name), 1e-4
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
    _, metrics = task.loss(model, task.batch(np.arange(5)))
    assert metrics and not any(value.requires_grad for value in metrics.values())
