"""The processes of a run: their device, precision and threads, and the communication between them.

Collectives wait, broadcast values of the main process, and gather negatives and sparse gradients of embedding tables.

A run has one main process (rank 0). The first process of each machine has local rank 0.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar, cast

import psutil
import torch
import torch.distributed as dist
from accelerate import Accelerator, DistributedDataParallelKwargs, PartialState
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from modeling_convsim.encoding.torch_model import has_fast_bfloat16
from modeling_convsim.files.errors import InputError
from trainer.settings import Settings

# How long processes wait for one that works alone: it tokenizes, trains word vectors, evaluates, saves or uploads. A
# lost machine is noticed after the same time. All other collectives have torch's time-outs, 10 minutes (NCCL) or 30
# (gloo).
PATIENCE = timedelta(hours=3)
IDLE_SECONDS = 0.3  # for counting idle cores

Value = TypeVar("Value")

_patient_group: dist.ProcessGroup | None = None


def start_accelerator(settings: Settings, resumed_precision: str | None = None) -> Accelerator:
    """Start Accelerate, and the communication between processes, with the settings of the run and of its launcher.

    The device is a GPU if there is one, unless Accelerate is configured for the CPU.

    Args:
        settings: the settings.
        resumed_precision: the precision of the run before it was interrupted; `mixed_precision: auto` keeps it.

    Raises:
        InputError: the processes cannot reach each other, or the precision or a tracker is not available.
    """
    use_cpu = os.environ.get("ACCELERATE_USE_CPU", "false").lower() in ("true", "1", "yes")
    cpu = use_cpu or not torch.cuda.is_available()
    try:
        PartialState(cpu=cpu)
    except (ValueError, RuntimeError) as error:  # a variable is wrong, or the other processes cannot be reached
        raise InputError(
            f"the processes of the run could not be started ({str(error).splitlines()[0]}): check the environment "
            "variables of the launcher (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), or use `accelerate launch`"
        ) from error
    trackers = [tracker for tracker in settings.trackers if tracker != "none"]
    mixed_precision: str = settings.mixed_precision
    if mixed_precision == "auto":
        mixed_precision = _choose_precision(resumed_precision)
    if mixed_precision not in ("no", "bf16"):
        raise InputError(f"mixed_precision of `accelerate launch` is {mixed_precision}; expected no or bf16")
    try:
        return Accelerator(
            cpu=cpu,
            mixed_precision=mixed_precision,
            log_with=trackers or None,
            project_dir=settings.output_dir,
            # In each step, the heads of the other tasks have no gradient. Training changes no buffer.
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True, broadcast_buffers=False)],
        )
    except ValueError as error:
        raise InputError(f"Accelerate refused the settings (trackers, mixed_precision): {error}") from None


def _choose_precision(resumed: str | None) -> str:
    """Return the precision of the resumed run, or of `accelerate launch`, or the fastest one.

    The fastest one is bfloat16 if the main process's device has instructions for it.
    """
    state = PartialState()
    if resumed := share(resumed):  # other machines may not see the run's folder
        return resumed
    launched = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if launched != "no":
        return launched
    is_fast = state.is_main_process and has_fast_bfloat16(state.device)
    return "bf16" if share(is_fast) else "no"


def describe_processes(accelerator: Accelerator) -> str:
    """How many processes a run has, on which devices, and in which precision."""
    number, precision = accelerator.num_processes, {"no": "float32", "bf16": "bfloat16"}[accelerator.mixed_precision]
    is_cpu, threads = accelerator.device.type == "cpu", torch.get_num_threads()
    device = f"CPU, {threads} thread{'s' * (threads > 1)}" if is_cpu else str(accelerator.device)
    is_alone = is_cpu and number == 1 and "ACCELERATE_MIXED_PRECISION" in os.environ  # under `accelerate launch`
    hint = "; without GPUs, `accelerate launch` starts several processes only with --multi_gpu" if is_alone else ""
    return f"{number} process{'es, each' * (number > 1)} on {device}, {precision}{hint}"


def available_threads() -> int:
    """Return the number of threads that torch may use: the environment's, or this process's share of the cores.

    One process takes the cores that are idle: threads on a busy core make the others wait for them at every step.
    """
    allowed, local = torch.get_num_threads(), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    # `accelerate launch` sets OMP_NUM_THREADS=1 for every process unless the user has set it.
    is_launched = allowed == 1 and "ACCELERATE_MIXED_PRECISION" in os.environ
    if "OMP_NUM_THREADS" in os.environ and not is_launched:
        return allowed
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else allowed
    return max(min(cores // local, round(_idle_cores()) if local == 1 else cores), 1)


def _idle_cores() -> float:
    """The average number of idle cores of the machine over `IDLE_SECONDS`."""
    return (psutil.cpu_count() or 1) * (1 - psutil.cpu_percent(IDLE_SECONDS) / 100)


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
    """Return a group of all processes with the time-out `PATIENCE`; it is always on the CPU.

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
    dist.broadcast_object_list(values, src=0, group=patient_group())
    return values[0]


@torch.no_grad()
def share_weights(model: nn.Module) -> None:
    """Copy the main process's weights to a model on the CPU, including those of `exclude_from_ddp`."""
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
    """Gather the rows of all processes like `gather_rows`; each process may have a different number of rows."""
    if world_size() == 1:
        return rows
    return _gather_padded(rows, _gather(torch.tensor([len(rows)], device=rows.device)).tolist())


def _gather_padded(rows: Tensor, counts: list[int]) -> Tensor:
    """The rows of all processes, which have `counts` rows; each process pads its rows to the largest number."""
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
    as_rows, as_table = bytes_received(processes, max(counts), table)
    if as_table < as_rows:
        dense = gradient.to_dense()  # (vocab_size, width)
        dist.all_reduce(dense)
        dense /= processes
        return dense
    all_rows, all_values = _gather_padded(rows, counts), _gather_padded(values, counts)
    return torch.sparse_coo_tensor(all_rows.unsqueeze(0), all_values / processes, table.shape, check_invariants=False)


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
