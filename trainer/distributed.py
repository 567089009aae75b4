"""What processes exchange: vectors as further negatives, and the rows of the embedding tables' gradients."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trainer.training.optimizers import sum_by_row

logger = logging.getLogger(__name__)


def world_size() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Number of this process among them, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


class _AllGather(torch.autograd.Function):
    """Concatenation over processes whose gradient reaches every process's own rows."""

    @staticmethod
    def forward(ctx, rows: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        return _gather(rows)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        # Every process's loss depends on these rows: sum what all of them say, keep our own part. The mean over
        # processes that DistributedDataParallel takes afterwards makes it the gradient of the global mean.
        own = gradient.new_empty(len(gradient) // world_size(), *gradient.shape[1:])
        dist.reduce_scatter_single(own, gradient.contiguous())
        return own


def _gather(rows: Tensor) -> Tensor:
    gathered = rows.new_empty(world_size() * len(rows), *rows.shape[1:])
    dist.all_gather_single(gathered, rows.contiguous())
    return gathered


def gather_rows(rows: Tensor) -> Tensor:
    """Rows of all processes, in the order of their ranks: (rows, …) -> (world x rows, …); differentiable.

    Every process must bring the same number of rows. In a single process the rows come back as they are.
    """
    return rows if world_size() == 1 else _AllGather.apply(rows)


def leave_out_tables(model: nn.Module, tables: list[nn.Parameter]) -> None:
    """Keep DistributedDataParallel's hands off the tables, for `average_tables`: it reduces whole tables on a GPU."""
    ours = {id(table) for table in tables}
    names = [name for name, parameter in model.named_parameters() if id(parameter) in ours]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)


@torch.no_grad()
def average_tables(tables: list[nn.Parameter]) -> None:
    """Replace the tables' sparse gradients by their mean over all processes, sent in the form that is smaller.

    Either the rows that some batch held travel, or, where many processes hold many rows of a small table, all of it.
    """
    processes = world_size()
    if processes == 1:
        return
    for table in tables:
        if table.grad is None:  # a step of a task that does not use the table, in every process
            continue
        gradient = sum_by_row(table.grad)
        rows, values = gradient._indices()[0], gradient._values()
        counts = _gather(rows.new_tensor([len(rows)])).tolist()
        most = max(counts)
        as_rows, as_table = bytes_received(processes, most, table)
        if as_table < as_rows:
            table.grad = gradient.to_dense()
            dist.all_reduce(table.grad)
            table.grad /= processes
            continue
        # Every process sends as many rows as the one that has most.
        all_rows = _gather(torch.cat([rows, rows.new_zeros(most - len(rows))])).view(processes, most)
        all_values = _gather(torch.cat([values, values.new_zeros(most - len(values), *values.shape[1:])]))
        all_values = all_values.view(processes, most, *values.shape[1:])
        table.grad = torch.sparse_coo_tensor(
            torch.cat([part[:count] for part, count in zip(all_rows, counts, strict=True)]).unsqueeze(0),
            torch.cat([part[:count] for part, count in zip(all_values, counts, strict=True)]) / processes,
            table.shape,
            check_invariants=False,
        )


def bytes_received(processes: int, rows: int, table: Tensor) -> tuple[float, float]:
    """What a process receives of a table's gradient in a step: as rows of all the others with their ids, or whole.

    A whole tensor is reduced in a ring, in which 2 (n - 1) / n of it come in.
    """
    others, size = processes - 1, table.element_size()
    return others * rows * (8 + table[0].numel() * size), 2 * others / processes * table.numel() * size


def megabytes_received(processes: int, layers: int, tables: list[tuple[int, Tensor]], vectors: int) -> dict[str, float]:
    """Megabytes that each of `processes` receives in a step (and sends about as many), by what they are for.

    Args:
        processes: How many train together.
        layers: Numbers in the layers' parameters, 4 bytes each.
        tables: The tables, each with the number of its rows that a process's batch holds.
        vectors: Numbers in the vectors that a process gathers: the others' come in, and as many gradients.
    """
    received = {
        "layers": 2 * (processes - 1) / processes * layers * 4,
        "tables": sum(min(bytes_received(processes, rows, table)) for rows, table in tables),
        "negatives": 2 * (processes - 1) * vectors * 4,
    }
    return {name: size / 1e6 for name, size in received.items()}


def tell_exchange(processes: int, share: int, layers: int, tables: list[tuple[int, Tensor]], vectors: int) -> None:
    """Log `megabytes_received` with so many processes, each of `share` pairs, and with others."""
    for count in sorted({processes, 8, 64}):
        parts = megabytes_received(count, layers, tables, vectors)
        shown = ", ".join(f"{name} {size:,.1f}" for name, size in parts.items())
        total = f"{sum(parts.values()):,.1f}"
        logger.info("with %d processes of %d pairs each a step brings every one %s MB: %s", count, share, total, shown)
