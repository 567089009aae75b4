"""Optimisers: sparse for the embedding tables, dense for the layers."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer, SparseAdam


def build_optimisers(
    model: nn.Module, tables: list[nn.Parameter], name: str, learning_rate: float, weight_decay: float, sparse: bool
) -> list[Optimizer]:
    """One optimiser for the layers and one for the embedding tables, each with its `initial_lr` set.

    Args:
        model: all parameters that require a gradient are trained.
        tables: the embedding tables; their gradients are sparse if `sparse`.
        name: "sgd" (plain, as the paper's) or "adamw".
        learning_rate: of all parameters; the loop sets it anew at every step.
        weight_decay: of matrices outside the tables (adamw only); biases, norms and scales are not decayed.
        sparse: whether the tables' gradients are sparse.
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
        optimisers.append(AdamW(groups, lr=learning_rate))
    if tables:
        optimisers.append(
            SparseAdam(tables, lr=learning_rate) if sparse else AdamW(tables, lr=learning_rate, weight_decay=0.0)
        )
    return optimisers


def clip_gradient(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients, sparse or dense, to a joint L2 norm of at most `max_norm`; returns the norm before."""
    values = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            # A row that occurs twice must be summed before it is squared.
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad._values())
        else:
            values.append(parameter.grad)
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(value) for value in values]))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for value in values:
        value.mul_(scale)
    return norm
