import numpy as np
import pytest
import torch
from torch import nn

from modeling_convsim import (
    ConvSimDanConfig,
    ConvSimDanForMultitask,
    ConvSimForMultitask,
    ConvSimTransformerConfig,
    ConvSimTransformerForMultitask,
)
from trainer.cache import TokenColumn
from trainer.tasks import ResponsePrediction, Snli, Task

ROWS = 23
HEADS = {"vocab_size": 60, "embedding_size": 12, "response_hidden_sizes": [10], "nli_hidden_size": 8}


def column(seed: int) -> TokenColumn:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 9, ROWS)
    ids = generator.integers(2, 60, lengths.sum())
    return TokenColumn(ids, np.concatenate([[0], np.cumsum(lengths)]), generator.integers(0, 12, ROWS))


def build_task(name: str, mini_batch_size: int | None) -> Task:
    if name == "snli":
        return Snli(column(0), column(1), np.random.default_rng(2).integers(0, 3, ROWS), mini_batch_size)
    return ResponsePrediction(column(0), column(1), True, True, mini_batch_size)


def build_model(kind: str, dropout: float = 0.0) -> ConvSimForMultitask:
    torch.manual_seed(0)
    model: ConvSimForMultitask
    if kind == "dan":
        config = ConvSimDanConfig(
            **HEADS, word_embedding_size=8, bigram_buckets=32, hidden_sizes=[8], token_dropout=dropout
        )
        model = ConvSimDanForMultitask(config)
        model.set_sparse_gradients(True)
    else:
        model = ConvSimTransformerForMultitask(
            ConvSimTransformerConfig(
                **HEADS,
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=20,
                hidden_dropout=dropout,
                attention_dropout=dropout,
            )
        )
    return model.double().train()


def loss_and_gradients(model: nn.Module, task: Task) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    torch.manual_seed(5)
    loss, _ = task.loss(model, task.batch(np.arange(ROWS)))
    loss.backward()
    return loss.detach(), {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", ["dan", "transformer"])
@pytest.mark.parametrize("name", ["response_prediction", "snli"])
@pytest.mark.parametrize("mini_batch_size", [1, 5, 100])
def test_gradient_caching_has_the_loss_and_gradient_of_the_whole_batch(kind, name, mini_batch_size):
    model = build_model(kind)
    loss, expected = loss_and_gradients(model, build_task(name, None))
    cached_loss, cached = loss_and_gradients(model, build_task(name, mini_batch_size))
    torch.testing.assert_close(cached_loss, loss)
    assert cached.keys() == expected.keys() and any(value.any() for value in expected.values())
    torch.testing.assert_close(cached, expected)


@pytest.mark.parametrize("kind", ["dan", "transformer"])
def test_gradient_caching_drops_the_same_the_second_time(kind, monkeypatch):
    model = build_model(kind, dropout=0.3)
    loss, cached = loss_and_gradients(model, build_task("response_prediction", 5))
    # The same parts, encoded once and kept.
    monkeypatch.setattr("trainer.tasks.checkpoint", lambda call, use_reentrant: call())
    kept_loss, kept = loss_and_gradients(model, build_task("response_prediction", 5))
    torch.testing.assert_close(loss, kept_loss)
    torch.testing.assert_close(cached, kept)


def test_gradient_caching_keeps_the_memory_of_one_part():
    model = build_model("transformer")

    def kept(mini_batch_size: int | None) -> int:
        numbers = 0

        def count(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal numbers
            numbers += tensor.numel()
            return tensor

        task = build_task("response_prediction", mini_batch_size)
        with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
            task.loss(model, task.batch(np.arange(ROWS)))
        return numbers

    # What is left for the backward pass is the vectors, the scores and the inputs, not the layers' activations.
    assert kept(4) < 0.2 * kept(None)
