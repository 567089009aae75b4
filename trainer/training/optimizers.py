"""Optimisers: sparse for the embedding tables, dense for the layers."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import SGD, AdamW, Optimizer


class RowwiseAdagrad(Optimizer):
    """Adagrad (Duchi et al., 2011) for embedding tables, with one sum of squared gradients a row instead of a number.

    A row that a batch does not hold is neither read nor moved, whether its gradient is absent (sparse) or zero (dense).
    The state is one number a row, where Adam's is two tables. Gradients are used up: `step` overwrites them.
    """

    def __init__(self, tables: list[nn.Parameter], lr: float, eps: float = 1e-10) -> None:
        super().__init__(tables, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move every row r of gradient g by -lr g / sqrt(sum of mean(g^2) over the steps that moved r)."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._move(table, table.grad, group["lr"], group["eps"])

    def _move(self, table: nn.Parameter, gradient: Tensor, lr: float, eps: float) -> None:
        state = self.state[table]
        if not state:
            state["sum"] = torch.zeros(len(table), dtype=torch.float32, device=table.device)
        sums = state["sum"]
        values, chosen = gradient, sums
        if gradient.is_sparse:
            gradient = sum_by_row(gradient)
            rows, values = gradient._indices()[0], gradient._values()
            chosen = sums[rows]
        chosen += torch.linalg.vector_norm(values, dim=1, dtype=torch.float32).square_() / values.shape[1]
        if gradient.is_sparse:
            sums[rows] = chosen
        values /= (chosen.sqrt() + eps).unsqueeze(1)
        table.add_(gradient, alpha=-lr)


def sum_by_row(gradient: Tensor) -> Tensor:
    """A sparse gradient whose rows are distinct and in order; a gradient that is so already is not copied."""
    rows = gradient._indices()[0]
    # Autograd forgets what its functions knew of the tensors that they return.
    return gradient._coalesced_(True) if bool((rows[1:] > rows[:-1]).all()) else gradient.coalesce()


def build_optimisers(
    model: nn.Module, tables: list[nn.Parameter], name: str, learning_rate: float, weight_decay: float
) -> list[Optimizer]:
    """One optimiser for the layers and one for the embedding tables, each with its `initial_lr` set.

    Args:
        model: all parameters that require a gradient are trained.
        tables: the embedding tables, whose gradients may be sparse.
        name: "sgd" (plain, as the paper's) or "adamw", with `RowwiseAdagrad` for the tables.
        learning_rate: of all parameters; the loop sets it anew at every step.
        weight_decay: of matrices outside the tables (adamw only); biases, norms and scales are not decayed.
    """
    table_ids = {id(table) for table in tables}
    layers = [p for p in model.parameters() if p.requires_grad and id(p) not in table_ids]
    tables = [table for table in tables if table.requires_grad]
    optimisers: list[Optimizer] = []
    if name == "sgd":
        optimisers += [SGD(layers, lr=learning_rate)] if layers else []
        optimisers += [SGD(tables, lr=learning_rate)] if tables else []
        return optimisers
    matrices = [p for p in layers if p.ndim >= 2]
    others = [p for p in layers if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if groups:
        optimisers.append(AdamW(groups, lr=learning_rate, fused=True))
    if tables:
        optimisers.append(RowwiseAdagrad(tables, lr=learning_rate))
    return optimisers


def clip_gradient(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients, sparse or dense, to a joint L2 norm of at most `max_norm`; returns the norm before."""
    values = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            # A row that occurs twice must be summed before it is squared.
            parameter.grad = sum_by_row(parameter.grad)
            values.append(parameter.grad._values())
        else:
            values.append(parameter.grad)
    # Parts of layers are of another kind than whole tables, and norms of one kind only can be taken together.
    kinds = [[value for value in values if isinstance(value, DTensor) == part] for part in (True, False)]
    norms = [nn.utils.get_total_norm(kind) for kind in kinds if kind]
    norm = torch.linalg.vector_norm(
        torch.stack([norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms])
    )
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    if norm.is_cuda or scale < 1:  # looking costs nothing on a CPU
        for kind in filter(None, kinds):
            torch._foreach_mul_(kind, scale)
    return norm
