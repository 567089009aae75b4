"""A model with its optimizers, wrapped for DDP or sharded by FSDP."""

import copy
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed.checkpoint as dcp
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from torch import nn
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_swa_multi_avg_fn

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.distributed import average_table_gradients, exclude_from_ddp, world_size
from trainer.training.optimizers import build_optimizers, clip_gradient

AVERAGE = "average.safetensors"  # in a checkpoint, the averaged weights


class TrainableModel:
    """A model that the training loop can update on all processes.

    Attributes:
        wrapped: the model for losses and gradients: DistributedDataParallel's wrapper in a run of several processes,
            the sharded model with `sharded`, else the model itself.
        full: the complete model, which the main process evaluates and saves: with `average_from`, the average of the
            weights, once there is one.
    """

    def __init__(self, model: ConvSimForMultitask, arguments: Arguments, accelerator: Accelerator) -> None:
        model.set_sparse_gradients(True)
        model.train()  # a model of `initialize_from` is loaded for inference, without dropout
        self._arguments, self._accelerator = arguments, accelerator
        self.full = model
        if arguments.sharded:
            self.full = copy.deepcopy(model) if accelerator.is_main_process else model
            shard(model, accelerator.device)
            self.wrapped: Any = model
        else:
            exclude_from_ddp(model, model.embedding_tables())
            self.wrapped = accelerator.prepare(model)
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
        average_table_gradients(self._tables)  # DistributedDataParallel or FSDP has averaged those of the layers
        if self._arguments.max_grad_norm is not None:
            clip_gradient(self._parameters, self._arguments.max_grad_norm)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad()

    def has_finite_weights(self) -> bool:
        """Return whether all weights of this process, its shards of a sharded model, are finite."""
        weights = (value.to_local() if isinstance(value, DTensor) else value for value in self._parameters)
        return all(bool(value.detach().isfinite().all()) for value in weights)

    def average_weights(self) -> None:
        """Add the weights to their average (Izmailov et al., 2018, algorithm 1)."""
        assert self._averages is not None
        self._averages.update_parameters(self._trained)

    def update_full(self) -> None:
        """Bring `full` up to date: gather the weights of a sharded model. Every process must call this."""
        if self._averages is not None and not self._averages.n_averaged:
            self.full.load_state_dict(self._trained.state_dict())
        if self._arguments.sharded:
            weights = full_weights(self.wrapped)
            if self._accelerator.is_main_process:
                self.full.load_state_dict(weights)

    def save(self, folder: Path) -> None:
        """Write weights and optimizers, after `update_full`. Every process must call this.

        The main process writes them, unless they are sharded.
        """
        if not self._arguments.sharded:
            if self._accelerator.is_main_process:
                self._accelerator.save_state(str(folder))
                if self._averages is not None:
                    save_model(self.full, str(folder / AVERAGE), {"averaged": str(int(self._averages.n_averaged))})
            return
        save_shards(folder, self.wrapped, self._optimizers)
        if self._accelerator.is_main_process:
            save_model(self.full, str(folder / "model.safetensors"))

    def load(self, folder: Path) -> None:
        """Load the state that `save` wrote. Every process must call this."""
        if self._arguments.sharded:
            load_shards(folder, self.wrapped, self._optimizers)
        else:
            self._accelerator.load_state(str(folder))
            if self._averages is not None:
                load_model(self.full, folder / AVERAGE)
                with safe_open(folder / AVERAGE, framework="pt") as file:
                    self._averages.n_averaged.fill_(int(file.metadata()["averaged"]))


def shard(model: ConvSimForMultitask, device: torch.device) -> None:
    """Shard a model's layers over the processes: each attention layer separately, all others together.

    Every process has the complete embedding tables: a step reads few of their rows, and `average_table_gradients`
    exchanges only those.
    """
    model.to(device)  # type: ignore[arg-type]
    mesh = init_device_mesh(device.type, (world_size(),))
    for module in model.modules():
        if type(module).__name__ in (model.encoder._no_split_modules or ()):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=set(model.embedding_tables()))


def full_weights(model: nn.Module) -> dict[str, Any]:
    """Return the weights of the complete model, on the CPU of the main process. Every process must call this."""
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def save_shards(folder: Path, model: nn.Module, optimizers: list[Optimizer]) -> None:
    """Write each process's shard of the weights and of the optimizers' moments."""
    dcp.save(_state(model, optimizers), checkpoint_id=folder)


def load_shards(folder: Path, model: nn.Module, optimizers: list[Optimizer]) -> None:
    """Load the shards that `save_shards` wrote, with any number of processes."""
    state = _state(model, optimizers)
    # The checkpoint has no moments of a head that no step has trained.
    dcp.load(state, checkpoint_id=folder, planner=DefaultLoadPlanner(allow_partial_load=True))
    set_state_dict(model, optimizers, model_state_dict=state["model"], optim_state_dict=state["optimizers"])


def _state(model: nn.Module, optimizers: list[Optimizer]) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimizers)
    return {"model": weights, "optimizers": moments}
