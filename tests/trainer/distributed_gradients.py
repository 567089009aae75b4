"""Writes the gradients of one global batch: run alone, or under `python -m torch.distributed.run --nproc_per_node 2`.

python distributed_gradients.py OUT.pt TASK
"""

import sys

import numpy as np
import torch
import torch.distributed as dist

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from trainer.cache import TokenColumn
from trainer.tasks import ResponsePrediction, Snli

ROWS = 16


def column(generator: np.random.Generator) -> TokenColumn:
    lengths = generator.integers(1, 9, ROWS)
    # Few different keys: some rows of the batch are false negatives of others, across processes too.
    return TokenColumn(
        generator.integers(2, 60, lengths.sum()),
        np.concatenate([[0], np.cumsum(lengths)]),
        generator.integers(0, 12, ROWS),
    )


def main() -> None:
    out, task_name = sys.argv[1:]
    world, rank = 1, 0
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
        world, rank = dist.get_world_size(), dist.get_rank()
    generator = np.random.default_rng(0)
    first, second = column(generator), column(generator)
    if task_name == "snli":
        task = Snli(first, second, generator.integers(0, 3, ROWS))
    else:
        task = ResponsePrediction(first, second, mask_false_negatives=True, symmetric=True)
    torch.manual_seed(0)
    config = ConvSimDanConfig(
        vocab_size=60, word_embedding_size=12, bigram_buckets=64, hidden_sizes=[12], embedding_size=10,
        response_hidden_sizes=[10], nli_hidden_size=8, normalize_response=True,
    )  # fmt: skip
    model = ConvSimDanForMultitask(config).double()
    model.set_sparse_gradients(True)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True) if world > 1 else model
    share = ROWS // world
    loss, _ = task.loss(wrapped, task.batch(np.arange(rank * share, (rank + 1) * share)))
    loss.backward()
    if rank == 0:
        gradients = {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}
        torch.save(gradients, out)


if __name__ == "__main__":
    main()
