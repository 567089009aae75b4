"""Writes the gradients of one global batch of each task, computed by one process or by several.

python distributed_gradients.py OUT.pt RANK PROCESSES RENDEZVOUS_FILE
"""

import gc
import sys

import numpy as np
import torch
import torch.distributed as dist

from tests.trainer.tasks.tiny_tasks import NAMES, build_model, build_task
from trainer.processes import average_table_gradients, exclude_from_ddp

# Each process draws other negatives for neighbors.
TASKS = [name for name in NAMES if name != "neighbors"]


def compute_gradients(name: str, rank: int, world: int) -> dict[str, torch.Tensor]:
    task = build_task(name)
    model = build_model("dan", normalize_response=True)
    exclude_from_ddp(model, model.embedding_tables())
    wrapped = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True) if world > 1 else model
    # Long texts contain nearly all rows of the tables, whose gradients are then exchanged as dense tensors; the rows of
    # few texts are exchanged as rows.
    share = (4 if name == "snli" else 22) // world
    loss, _ = task.loss(wrapped, task.batch(np.arange(rank * share, (rank + 1) * share)))
    loss.backward()
    average_table_gradients(model.embedding_tables())
    if world > 1:
        are_sparse = [table.grad.is_sparse for table in model.embedding_tables() if table.grad is not None]
        assert all(are_sparse) or name != "snli", are_sparse
        assert not all(are_sparse) or not name.startswith("response_prediction"), (name, are_sparse)
    return {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}


def main() -> None:
    out, (rank, world) = sys.argv[1], map(int, sys.argv[2:4])
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[4]}", rank=rank, world_size=world)
    gradients = {name: compute_gradients(name, rank, world) for name in TASKS}
    if rank == 0:
        torch.save(gradients, out)
    if world > 1:
        dist.barrier()
        # Delete the DDP models before the group, or a process may hang; and the group before the process ends.
        gc.collect()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
