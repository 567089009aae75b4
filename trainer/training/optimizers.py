"""Optimizers: sparse ones for the embedding tables, dense ones for the layers."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from trainer.distributed import sum_by_row


class RowwiseAdagrad(Optimizer):
    """Adagrad (Duchi et al., 2011) for embedding tables, with one sum of squared gradients per row, not per parameter.

    A row that the batch does not contain is not updated, whether its gradient is missing (sparse) or zero (dense). The
    state is one value per row; Adam's is two values per parameter. `step` overwrites the gradients.
    """

    def __init__(self, tables: list[nn.Parameter], lr: float, eps: float = 1e-10) -> None:
        super().__init__(tables, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every row r with gradient g by -lr g / sqrt(sum of mean(g^2) over the steps that updated r)."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, table.grad, group["lr"], group["eps"])

    def _update(self, table: nn.Parameter, gradient: Tensor, lr: float, eps: float) -> None:
        state = self.state[table]
        if not state:
            state["sum"] = torch.zeros(len(table), dtype=torch.float32, device=table.device)
        sums = state["sum"]  # (vocab_size,)
        values, row_sums = gradient, sums  # (vocab_size, width), (vocab_size,)
        if gradient.is_sparse:
            gradient = sum_by_row(gradient)
            rows, values = gradient._indices()[0], gradient._values()  # (rows,), (rows, width)
            row_sums = sums[rows]  # (rows,)
        row_sums += torch.linalg.vector_norm(values, dim=1, dtype=torch.float32).square_() / values.shape[1]
        if gradient.is_sparse:
            sums[rows] = row_sums
        values /= (row_sums.sqrt() + eps).unsqueeze(1)
        table.add_(gradient, alpha=-lr)


def build_optimizers(
    model: nn.Module, tables: list[nn.Parameter], name: str, learning_rate: float, weight_decay: float
) -> list[Optimizer]:
    """Build one optimizer for the layers and one for the embedding tables, unless they have nothing to train.

    Args:
        model: all parameters that require a gradient are trained.
        tables: the embedding tables, whose gradients may be sparse.
        name: "sgd" (the paper's) or "adamw", with `RowwiseAdagrad` for the tables.
        learning_rate: initial learning rate; the training loop sets it at every step.
        weight_decay: decay of the layers' matrices (adamw only); tables, biases, norms and scales are not decayed.
    """
    table_ids = {id(table) for table in tables}
    layers = [p for p in model.parameters() if p.requires_grad and id(p) not in table_ids]
    tables = [table for table in tables if table.requires_grad]
    optimizers: list[Optimizer] = []
    if name == "sgd":
        optimizers += [SGD(layers, lr=learning_rate)] if layers else []
        optimizers += [SGD(tables, lr=learning_rate)] if tables else []
        return optimizers
    matrices = [p for p in layers if p.ndim >= 2]
    others = [p for p in layers if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if groups:
        optimizers.append(AdamW(groups, lr=learning_rate, fused=True))
    if tables:
        optimizers.append(RowwiseAdagrad(tables, lr=learning_rate))
    return optimizers


def clip_gradient(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients, sparse or dense, to a joint L2 norm of at most `max_norm`; return the original norm."""
    values = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            # The gradients of a repeated row must be summed before they are squared.
            parameter.grad = sum_by_row(parameter.grad)
            values.append(parameter.grad._values())
        else:
            values.append(parameter.grad)
    norm = nn.utils.get_total_norm(values)
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    if norm.is_cuda or scale < 1:  # on a GPU, reading the value would wait for the device
        torch._foreach_mul_(values, scale)
    return norm
