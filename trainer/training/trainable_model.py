"""A model with its optimizers, wrapped for DDP."""

from pathlib import Path
from typing import Any, cast

from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from torch.optim.swa_utils import AveragedModel, get_swa_multi_avg_fn

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.distributed import average_table_gradients, exclude_from_ddp
from trainer.training.optimizers import build_optimizers, clip_gradient

AVERAGE = "average.safetensors"  # in a checkpoint, the averaged weights


class TrainableModel:
    """A model that the training loop can update on all processes.

    Attributes:
        wrapped: the model for losses and gradients: DistributedDataParallel's wrapper in a run of several processes,
            else the model itself.
        full: the complete model, which the main process evaluates and saves: with `average_from`, the average of the
            weights, once there is one.
    """

    def __init__(self, model: ConvSimForMultitask, arguments: Arguments, accelerator: Accelerator) -> None:
        model.set_sparse_gradients(True)
        model.train()  # a model of `initialize_from` is loaded for inference, without dropout
        self._arguments, self._accelerator = arguments, accelerator
        self.full = model
        exclude_from_ddp(model, model.embedding_tables())
        self.wrapped: Any = accelerator.prepare(model)
        self._trained = model
        self._averages: AveragedModel | None = None
        if arguments.average_from < 1:
            self._averages = AveragedModel(model, multi_avg_fn=get_swa_multi_avg_fn())
            self.full = cast(ConvSimForMultitask, self._averages.module)
        self._parameters = list(model.parameters())
        self._tables = model.embedding_tables()
        self._table_ids = {id(table) for table in self._tables}
        self._optimizers = build_optimizers(
            model, self._tables, arguments.optimizer, arguments.learning_rate, arguments.weight_decay
        )
        for optimizer in self._optimizers:
            # For checkpoints alone: a step of Accelerate's wrapper searches the disk for packages.
            accelerator.prepare(optimizer)

    def set_learning_rates(self, layers: float, tables: float) -> None:
        """Set the learning rate of the layers, and that of the embedding tables."""
        for group in (group for optimizer in self._optimizers for group in optimizer.param_groups):
            group["lr"] = tables if id(group["params"][0]) in self._table_ids else layers

    def apply_gradients(self) -> None:
        """Update all parameters with their gradients, averaged over the processes and clipped; then clear them."""
        average_table_gradients(self._tables)  # DistributedDataParallel has averaged those of the layers
        if self._arguments.max_grad_norm is not None:
            clip_gradient(self._parameters, self._arguments.max_grad_norm)
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
        """Write weights and optimizers, after `update_full`; the main process does."""
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
