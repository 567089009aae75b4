import numpy as np
import pytest
import torch
from torch import nn

from trainer.distributed import sum_by_row
from trainer.training.optimizers import JointOptimizer, RowwiseAdagrad, build_optimizers, clip_gradient


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


def test_sgd_updates_every_parameter_by_rate_times_gradient_at_every_step():
    model = gradients(True)
    expected = [p.detach() - 2 * 0.5 * p.grad.to_dense() for p in model.parameters()]
    for optimizer in build_optimizers(model, [model.table.weight], "sgd", 0.5, 0.3):  # weight decay is AdamW's alone
        optimizer.step()
        optimizer.step()
    for parameter, value in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


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


def test_distinct_sorted_rows_are_not_copied_and_others_are_summed():
    values = torch.ones(3, 2)
    in_order = torch.sparse_coo_tensor([[1, 4, 6]], values, (8, 2), check_invariants=True)
    assert sum_by_row(in_order)._values().data_ptr() == values.data_ptr()
    twice = sum_by_row(torch.sparse_coo_tensor([[4, 1, 4]], values, (8, 2), check_invariants=True))
    assert twice.indices().tolist() == [[1, 4]] and twice.values().tolist() == [[1, 1], [2, 2]]


def test_every_parameter_has_one_optimizer():
    model = Bag(True)
    optimizers = build_optimizers(model, [model.table.weight], "adamw", 0.1, 0.1)
    held = [id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())


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


def test_the_joint_optimizer_steps_and_clears_every_optimizer():
    model = gradients(True)
    joint = JointOptimizer(build_optimizers(model, [model.table.weight], "sgd", 0.5, 0.0))
    before = [p.detach().clone() for p in model.parameters()]
    assert [id(p) for group in joint.param_groups for p in group["params"]] == [
        *map(id, model.layer.parameters()),
        id(model.table.weight),
    ]
    joint.step()
    assert not any(old.equal(new) for old, new in zip(before, model.parameters(), strict=True))
    joint.zero_grad()
    assert [p.grad for p in model.parameters()] == [None] * 3


def test_clipping_skips_parameters_without_a_gradient():
    model = gradients(False)
    model.table.weight.grad = None
    norm = torch.cat([p.grad.flatten() for p in model.layer.parameters()]).norm()
    torch.testing.assert_close(clip_gradient(model.parameters(), 0.1), norm)
    clipped = torch.cat([p.grad.flatten() for p in model.layer.parameters()]).norm()
    assert clipped.item() == pytest.approx(0.1, rel=1e-4) and model.table.weight.grad is None


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
