"""FSDP: each process holds a shard of the weights, gradients and moments of an encoder too large for one GPU."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
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
from torch.optim import Optimizer

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.distributed import world_size


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
