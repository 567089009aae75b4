"""Collectives: waiting, sharing of what the main process has, negatives, sparse gradients of the embedding tables.

A run has one main process (rank 0). The first process of each machine is that of local rank 0.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

# How long processes wait for one that works alone: it tokenizes, trains word vectors, evaluates, saves or uploads. All
# other collectives have the time-outs of torch, 10 minutes (NCCL) or 30 (gloo).
PATIENCE = timedelta(hours=24)

Value = TypeVar("Value")

_waits: list[float] = []  # seconds of each wait of this process
_patient_group: dist.ProcessGroup | None = None


def seconds_waited() -> float:
    """Return the seconds that this process has waited for others: in `wait_for_all`, `share` and `gather`."""
    return sum(_waits)


@contextmanager
def _timed() -> Iterator[None]:
    started = time.perf_counter()
    yield
    _waits.append(time.perf_counter() - started)


def world_size() -> int:
    """Return the number of processes of the run."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the index of this process, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def is_first_on_machine() -> bool:
    """Return whether this process is the first one of its machine."""
    return world_size() == 1 or int(os.environ.get("LOCAL_RANK", 0)) == 0


def patient_group() -> dist.ProcessGroup:
    """Return a group of all processes with the time-out `PATIENCE`; on the CPU, whatever the device of the run is.

    Every process must call this for the first time at the same time. `end_processes` destroys the group.
    """
    global _patient_group
    if _patient_group is None:
        _patient_group = cast(dist.ProcessGroup, dist.new_group(backend="gloo", timeout=PATIENCE))
    return _patient_group


def end_processes() -> None:
    """Destroy the process groups of a run, whose threads would otherwise still run when Python exits."""
    global _patient_group
    _patient_group = None
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def wait_for_all() -> None:
    """Wait until every process has called this, for up to `PATIENCE`."""
    if world_size() > 1:
        with _timed():
            dist.barrier(group=patient_group())


@contextmanager
def first_on_each_machine() -> Iterator[None]:
    """Let the first process of each machine enter the context before the others, for example to fill a cache."""
    if not is_first_on_machine():
        wait_for_all()
    yield
    if is_first_on_machine():
        wait_for_all()


def share(value: Value) -> Value:
    """Return the main process's value, an object that can be pickled, in every process."""
    if world_size() == 1:
        return value
    values = [value]
    with _timed():
        dist.broadcast_object_list(values, src=0, group=patient_group())
    return values[0]


def gather(value: Value) -> list[Value]:
    """Return the values of all processes, objects that can be pickled, in the order of their ranks."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    with _timed():
        dist.all_gather_object(values, value, group=patient_group())
    return values


@torch.no_grad()
def share_weights(model: nn.Module) -> None:
    """Replace the weights of a model on the CPU by those of the main process, also those of `exclude_from_ddp`."""
    if world_size() > 1:
        for weights in (*model.parameters(), *model.buffers()):
            dist.broadcast(weights.detach(), src=0, group=patient_group())


class _AllGather(torch.autograd.Function):
    """Concatenates rows of all processes; the gradient flows back to the process of each row."""

    @staticmethod
    def forward(ctx, rows: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        return _gather(rows)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        # Every process's loss depends on these rows: sum the gradients of all processes and return this process's part.
        # DistributedDataParallel then averages over processes, which gives the gradient of the global mean.
        own = gradient.new_empty(len(gradient) // world_size(), *gradient.shape[1:])  # (rows, …)
        dist.reduce_scatter_single(own, gradient.contiguous())
        return own


def _gather(rows: Tensor) -> Tensor:
    gathered = rows.new_empty(world_size() * len(rows), *rows.shape[1:])  # (world x rows, …)
    dist.all_gather_single(gathered, rows.contiguous())
    return gathered


def gather_rows(rows: Tensor) -> Tensor:
    """Gather the rows of all processes in the order of their ranks: (rows, …) -> (world x rows, …); differentiable.

    Every process must pass the same number of rows. With a single process, the rows are returned unchanged.
    """
    return rows if world_size() == 1 else _AllGather.apply(rows)


def gather_uneven_rows(rows: Tensor) -> Tensor:
    """Gather the rows of all processes, as `gather_rows` does, where each process may have another number of them."""
    if world_size() == 1:
        return rows
    counts = _gather(torch.tensor([len(rows)], device=rows.device)).tolist()
    most = max(counts)
    if most == 0:
        return rows
    padded = torch.cat([rows, rows.new_zeros(most - len(rows), *rows.shape[1:])])
    parts = gather_rows(padded).split(most)
    return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])


def exclude_from_ddp(model: nn.Module, parameters: list[nn.Parameter]) -> None:
    """Make DistributedDataParallel skip the embedding tables, which it would reduce as dense tensors on a GPU.

    `average_table_gradients` averages them instead.
    """
    excluded = {id(parameter) for parameter in parameters}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in excluded]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)


@torch.no_grad()
def average_table_gradients(tables: list[nn.Parameter]) -> None:
    """Replace the sparse gradients of embedding tables by their mean over all processes.

    The processes exchange only the rows in their batches, unless a dense all-reduce of the whole table receives fewer
    bytes: with many processes and many rows of a small table.
    """
    if world_size() == 1:
        return
    for table in tables:
        if table.grad is not None:  # None in every process if the step's task does not use the table
            table.grad = _mean_over_processes(sum_by_row(table.grad), table)


def _mean_over_processes(gradient: Tensor, table: nn.Parameter) -> Tensor:
    processes = world_size()
    rows, values = gradient._indices()[0], gradient._values()  # (rows,), (rows, width)
    counts = _gather(rows.new_tensor([len(rows)])).tolist()
    most = max(counts)
    as_rows, as_table = bytes_received(processes, most, table)
    if as_table < as_rows:
        dense = gradient.to_dense()  # (vocab_size, width)
        dist.all_reduce(dense)
        dense /= processes
        return dense
    # all_gather needs equal lengths: every process pads its rows to the largest number of rows.
    all_rows = _gather(torch.cat([rows, rows.new_zeros(most - len(rows))])).view(processes, most)
    all_values = _gather(torch.cat([values, values.new_zeros(most - len(values), *values.shape[1:])]))
    all_values = all_values.view(processes, most, *values.shape[1:])  # (processes, most, width)
    return torch.sparse_coo_tensor(
        torch.cat([part[:count] for part, count in zip(all_rows, counts, strict=True)]).unsqueeze(0),
        torch.cat([part[:count] for part, count in zip(all_values, counts, strict=True)]) / processes,
        table.shape,
        check_invariants=False,
    )


def sum_by_row(gradient: Tensor) -> Tensor:
    """Coalesce a sparse gradient, so that its rows are distinct and sorted; a coalesced one is not copied."""
    rows = gradient._indices()[0]
    # Autograd drops the coalesced flag of the tensors that a function returns.
    return gradient._coalesced_(True) if bool((rows[1:] > rows[:-1]).all()) else gradient.coalesce()


def bytes_received(processes: int, rows: int, table: Tensor) -> tuple[float, float]:
    """Return the bytes of a table's gradient that a process receives: gathered as rows, and all-reduced as a table.

    Each row of another process has an 8-byte id. A ring all-reduce receives 2 (n - 1) / n of the table.
    """
    others, size = processes - 1, table.element_size()
    return others * rows * (8 + table.shape[1] * size), 2 * others / processes * table.numel() * size
