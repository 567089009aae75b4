"""A model with its optimizers, wrapped for DDP: sparse ones for the embedding tables, dense ones for the layers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.swa_utils import AveragedModel, get_swa_multi_avg_fn

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.processes import average_table_gradients, exclude_from_ddp, sum_by_row
from trainer.settings import Settings

AVERAGE = "average.safetensors"  # in a checkpoint, the averaged weights


class TrainableModel:
    """A model that the training loop can update on all processes.

    Attributes:
        wrapped: the model for losses and gradients: DistributedDataParallel's wrapper in a run of several processes,
            else the model itself.
        full: the complete model, which the main process evaluates and saves: with `average_from`, the average of the
            weights, once there is one.
    """

    def __init__(self, model: ConvSimForMultitask, settings: Settings, accelerator: Accelerator) -> None:
        model.set_sparse_gradients(True)
        model.train()  # a model of `initialize_from` is loaded for inference, without dropout
        self._settings, self._accelerator = settings, accelerator
        self.full = model
        exclude_from_ddp(model, model.embedding_tables())
        self.wrapped: Any = accelerator.prepare(model)
        self._trained = model
        self._averages: AveragedModel | None = None
        if settings.average_from < 1:
            self._averages = AveragedModel(model, multi_avg_fn=get_swa_multi_avg_fn())
            self.full = cast(ConvSimForMultitask, self._averages.module)
        self._parameters = list(model.parameters())
        self._tables = model.embedding_tables()
        self._table_ids = {id(table) for table in self._tables}
        self._optimizers = build_optimizers(
            model, self._tables, settings.optimizer, settings.learning_rate, settings.weight_decay
        )
        for optimizer in self._optimizers:
            # Only for checkpoints: a step of Accelerate's wrapper searches the disk for packages.
            accelerator.prepare(optimizer)

    def set_learning_rates(self, layers: float, tables: float) -> None:
        """Set the learning rate of the layers, and that of the embedding tables."""
        for group in (group for optimizer in self._optimizers for group in optimizer.param_groups):
            group["lr"] = tables if id(group["params"][0]) in self._table_ids else layers

    def apply_gradients(self) -> None:
        """Update all parameters with their gradients, averaged over the processes and clipped; then clear them."""
        average_table_gradients(self._tables)  # DistributedDataParallel has averaged those of the layers
        if self._settings.max_grad_norm is not None:
            clip_gradient(self._parameters, self._settings.max_grad_norm)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()

    def has_finite_weights(self) -> bool:
        """Return whether all weights of this process are finite."""
        return all(bool(value.detach().isfinite().all()) for value in self._parameters)

    def average_weights(self) -> None:
        """Add the weights to their average (Izmailov et al., 2018, algorithm 1)."""
        assert self._averages is not None
        self._averages.update_parameters(self._trained)

    def update_full(self) -> None:
        """Bring `full` up to date."""
        if self._averages is not None and not self._averages.n_averaged:
            self.full.load_state_dict(self._trained.state_dict())

    def save(self, folder: Path) -> None:
        """Write weights and optimizers on the main process; call `update_full` first."""
        if self._accelerator.is_main_process:
            self._accelerator.save_state(str(folder))
            if self._averages is not None:
                save_model(self.full, str(folder / AVERAGE), {"averaged": str(int(self._averages.n_averaged))})

    def load(self, folder: Path) -> None:
        """Load the state that `save` wrote. Every process must call this."""
        self._accelerator.load_state(str(folder))
        if self._averages is not None:
            load_model(self.full, folder / AVERAGE)
            with safe_open(folder / AVERAGE, framework="pt") as file:
                self._averages.n_averaged.fill_(int(file.metadata()["averaged"]))


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
