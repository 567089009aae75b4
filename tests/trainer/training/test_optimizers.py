import numpy as np
import pytest
import torch
from torch import nn

from trainer.training.trainable_model import RowwiseAdagrad, build_optimizers, clip_gradient


class Bag(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(20, 4, sparse=sparse)
        self.layer = nn.Linear(4, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layer(self.table(ids).sum(dim=1)).square().sum()


IDS = torch.tensor([[3, 3, 7], [7, 1, 3]])


def gradients(sparse: bool) -> Bag:
    model = Bag(sparse)
    model(IDS).backward()
    return model


@pytest.mark.parametrize("max_norm", [0.1, 1e6])
def test_clipping_sparse_gradients_equals_clipping_dense_ones_in_torch(max_norm):
    sparse, dense = gradients(True), gradients(False)
    norm = clip_gradient(sparse.parameters(), max_norm)
    expected = torch.nn.utils.clip_grad_norm_(dense.parameters(), max_norm)
    torch.testing.assert_close(norm, expected)
    for ours, theirs in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.to_dense(), theirs.grad)


def test_layers_are_updated_like_torchs_adamw():
    model, other = gradients(True), gradients(False)
    layers, _ = build_optimizers(model, [model.table.weight], "adamw", 0.1, 0.3)
    matrix = torch.optim.AdamW([other.layer.weight], lr=0.1, weight_decay=0.3)
    bias = torch.optim.AdamW([other.layer.bias], lr=0.1, weight_decay=0.0)
    for scale in (1.0, -0.7, 0.2):  # the moments of several steps
        for parameter in (*model.layer.parameters(), *other.layer.parameters()):
            parameter.grad *= scale
        for optimizer in (layers, matrix, bias):
            optimizer.step()
    torch.testing.assert_close(model.layer.state_dict(), other.layer.state_dict())


@pytest.mark.parametrize("sparse", [True, False])
def test_tables_are_updated_like_rowwise_adagrad_in_float64(sparse):
    torch.manual_seed(1)
    table = nn.Embedding(6, 4, sparse=sparse)
    optimizer = RowwiseAdagrad([table.weight], lr=0.5)
    expected, sums = table.weight.detach().double(), torch.zeros(6, dtype=torch.float64)
    for ids in ([0, 2, 2], [2, 5], [0, 0, 0]):
        factors = torch.randn(len(ids), 4)
        (table(torch.tensor(ids)) * factors).sum().backward()
        gradient = torch.zeros(6, 4, dtype=torch.float64).index_add(0, torch.tensor(ids), factors.double())
        sums += gradient.square().mean(1)
        held = sorted(set(ids))
        expected[held] -= 0.5 * gradient[held] / sums[held].sqrt().unsqueeze(1)
        optimizer.step()
        optimizer.zero_grad()
    torch.testing.assert_close(table.weight.detach().double(), expected, rtol=1e-6, atol=1e-6)
    assert expected[[1, 3, 4]].equal(table.weight.detach()[[1, 3, 4]].double())
    assert sum(value.numel() for value in optimizer.state_dict()["state"][0].values()) == 6  # one value per row


@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("trained", ["layer", "table", "neither"])
def test_frozen_parameters_have_no_optimizer(name, trained):
    model = Bag(True)
    model.requires_grad_(False)
    if trained != "neither":
        getattr(model, trained).requires_grad_(True)
    optimizers = build_optimizers(model, [model.table.weight], name, 0.1, 0.1)
    held = [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]
    assert {id(parameter) for parameter in held} == {id(p) for p in model.parameters() if p.requires_grad}
    assert len(optimizers) == (trained != "neither")


def test_rowwise_adagrad_adds_epsilon_to_the_root_and_sums_squares_in_float32():
    table = nn.Parameter(torch.zeros(3, 8, dtype=torch.bfloat16))
    optimizer = RowwiseAdagrad([table], lr=0.5, eps=0.25)
    gradient = torch.tensor(np.random.default_rng(0).normal(size=(3, 8))).bfloat16()
    gradient[1] = 0
    expected = torch.zeros(3, 8, dtype=torch.float64)
    for _ in range(2):
        table.grad = gradient.clone()
        optimizer.step()
    squares = gradient.double().square().mean(1)
    torch.testing.assert_close(optimizer.state[table]["sum"].double(), 2 * squares, rtol=1e-6, atol=0)
    for steps in (1, 2):
        expected -= 0.5 * gradient.double() / ((steps * squares).sqrt() + 0.25).unsqueeze(1)
    torch.testing.assert_close(table.detach().double(), expected, rtol=0.02, atol=0)
