"""Encoders that one process does not hold: each keeps a part of the layers' weights, gradients and moments (FSDP)."""

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

from modeling_convsim.modeling_base import ConvSimForMultitask
from trainer.distributed import world_size


def shard(model: ConvSimForMultitask, device: torch.device) -> None:
    """Split a model's layers over the processes, one attention layer at a time, the rest together.

    The embedding tables stay whole in every process: a step reads few of their rows, and `average_tables` sends those.
    """
    model.to(device)  # type: ignore[arg-type]
    mesh = init_device_mesh(device.type, (world_size(),))
    for module in model.modules():
        if type(module).__name__ in (model.encoder._no_split_modules or ()):
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=set(model.embedding_tables()))


def whole_weights(model: nn.Module) -> dict[str, Any]:
    """The whole model's weights on the CPU, of the first process; every process must call this."""
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def save_parts(folder: Path, model: nn.Module, optimisers: list[Optimizer]) -> None:
    """Write every process's part of the weights and moments."""
    dcp.save(_state(model, optimisers), checkpoint_id=folder)


def load_parts(folder: Path, model: nn.Module, optimisers: list[Optimizer]) -> None:
    """Read what `save_parts` wrote, by any number of processes."""
    state = _state(model, optimisers)
    # A head that no step has trained yet has no moments to read.
    dcp.load(state, checkpoint_id=folder, planner=DefaultLoadPlanner(allow_partial_load=True))
    set_state_dict(model, optimisers, model_state_dict=state["model"], optim_state_dict=state["optimisers"])


def _state(model: nn.Module, optimisers: list[Optimizer]) -> dict[str, Any]:
    weights, moments = get_state_dict(model, optimisers)
    return {"model": weights, "optimisers": moments}
