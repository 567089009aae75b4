"""The gradient of every task is the slope of its loss, with and without gradient caching."""

import numpy as np
import pytest
import torch

from tests.trainer.tasks.tiny_tasks import ALL, NAMES, build_model, build_task, loss_and_gradients


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


@pytest.mark.parametrize(
    ("name", "kind"), [("response_prediction", "transformer"), *((name, "dan_input_network") for name in NAMES)]
)
def test_gradient_caching_has_the_loss_and_gradient_of_the_whole_batch(name, kind):
    model, calls = build_model(kind), []
    loss, expected = loss_and_gradients(model, build_task(name))
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    cached_loss, cached = loss_and_gradients(model, build_task(name, mini_batch_size=5))
    torch.testing.assert_close(cached_loss, loss)
    assert cached.keys() == expected.keys() and any(value.any() for value in expected.values())
    torch.testing.assert_close(cached, expected)
    assert len(calls) >= 2 * -(-len(ALL) // 5)  # every part is encoded again in the backward pass


@pytest.mark.parametrize("kind", ["dan", "transformer"])
def test_gradient_caching_repeats_dropout_in_the_second_pass(kind, monkeypatch):
    model = build_model(kind, dropout=0.3)
    loss, cached = loss_and_gradients(model, build_task("response_prediction", mini_batch_size=5))
    # The same mini-batches, encoded once, with their activations in memory.
    monkeypatch.setattr("trainer.tasks.encoding.checkpoint", lambda call, use_reentrant: call())
    kept_loss, kept = loss_and_gradients(model, build_task("response_prediction", mini_batch_size=5))
    torch.testing.assert_close(loss, kept_loss)
    torch.testing.assert_close(cached, kept)


def test_gradient_caching_needs_the_memory_of_one_mini_batch():
    model = build_model("transformer")

    def saved_values(mini_batch_size: int | None) -> int:
        values: list[int] = []
        task = build_task("response_prediction", mini_batch_size=mini_batch_size)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: values.append(t.numel()) or t, lambda t: t):
            task.loss(model, task.batch(ALL))
        return sum(values)

    # The backward pass keeps the embeddings, the scores and the inputs, but not the layers' activations.
    assert saved_values(4) < 0.2 * saved_values(None)
