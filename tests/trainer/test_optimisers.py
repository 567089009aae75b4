import pytest
import torch
from torch import nn

from trainer.optimisers import build_optimisers, clip_gradient


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
def test_clipping_sparse_gradients_equals_torchs_clipping_of_dense_ones(max_norm):
    sparse, dense = gradients(True), gradients(False)
    norm = clip_gradient(sparse.parameters(), max_norm)
    expected = torch.nn.utils.clip_grad_norm_(dense.parameters(), max_norm)
    torch.testing.assert_close(norm, expected)
    for ours, theirs in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.to_dense(), theirs.grad)


def test_sgd_moves_every_weight_by_rate_times_gradient():
    model = gradients(True)
    expected = [p.detach() - 0.5 * p.grad.to_dense() for p in model.parameters()]
    for optimiser in build_optimisers(model, [model.table.weight], "sgd", 0.5, 0.0, sparse=True):
        optimiser.step()
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), wanted)


def test_adam_leaves_rows_alone_that_the_batch_does_not_hold():
    model = gradients(True)
    before = model.table.weight.detach().clone()
    for optimiser in build_optimisers(model, [model.table.weight], "adamw", 0.1, 0.1, sparse=True):
        optimiser.step()
    changed = (model.table.weight.detach() != before).any(dim=1).nonzero().flatten().tolist()
    assert changed == [1, 3, 7]
    assert (before - model.table.weight.detach()).abs()[[1, 3, 7]].allclose(torch.tensor(0.1), rtol=1e-4)


def test_every_parameter_has_one_optimiser():
    model = Bag(True)
    optimisers = build_optimisers(model, [model.table.weight], "adamw", 0.1, 0.1, sparse=True)
    held = [id(p) for optimiser in optimisers for group in optimiser.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters())
