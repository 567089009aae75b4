"""An estimate of the network traffic of a training step."""

import logging
from dataclasses import dataclass

from torch import Tensor

from trainer.distributed import bytes_received

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepSize:
    """The sizes of the values that one process computes in a step and exchanges."""

    pairs: int
    """Number of pairs in this process's part of the batch."""
    layer_parameters: int
    """Number of parameters of the layers, 4 bytes each."""
    table_rows: list[tuple[int, Tensor]]
    """For each embedding table, the number of its rows in the batch, and the table."""
    embedding_values: int
    """Number of values in the embeddings that the process sends to the others, as negatives."""


def log_traffic(processes: int, size: StepSize) -> None:
    """Log `megabytes_received` for this number of processes, and for 8 and 64."""
    for count in sorted({processes, 8, 64}):
        megabytes = megabytes_received(count, size)
        parts = ", ".join(f"{name} {value:,.1f}" for name, value in megabytes.items())
        logger.info(
            "with %d processes of %d pairs each, a process receives %s MB in a step: %s",
            count,
            size.pairs,
            f"{sum(megabytes.values()):,.1f}",
            parts,
        )


def megabytes_received(processes: int, size: StepSize) -> dict[str, float]:
    """Return the megabytes that each process receives in a step (it sends about as many): layers, tables, negatives."""
    others = processes - 1
    received = {
        "layers": 2 * others / processes * size.layer_parameters * 4,
        "tables": sum(min(bytes_received(processes, rows, table)) for rows, table in size.table_rows),
        # The embeddings of all other processes, and as many gradients.
        "negatives": 2 * others * size.embedding_values * 4,
    }
    return {name: value / 1e6 for name, value in received.items()}
