"""Writes the gradients of one global batch of each task, computed by one process or by several.

python distributed_gradients.py OUT.pt RANK PROCESSES RENDEZVOUS_FILE
"""

import gc
import sys
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask
from trainer.data.positive_pairs import PositivePairs, ScoredPairs
from trainer.data.token_cache import TokenColumn
from trainer.distributed import average_table_gradients, exclude_from_ddp
from trainer.tasks import Task
from trainer.tasks.distillation import Distillation, DistillationOptions
from trainer.tasks.entailment import Entailment, EntailmentOptions
from trainer.tasks.ranking import Ranking, RankingOptions
from trainer.tasks.response_distillation import ResponseDistillation, ResponseDistillationOptions
from trainer.tasks.response_prediction import ResponsePrediction, ResponsePredictionOptions
from trainer.tasks.score_teachers import ScoreTeachers
from trainer.tasks.snli import Snli

ROWS = 16
# Task -> size of the mini-batches of several processes; a single process has none.
TASKS = {
    "response_prediction": None, "matryoshka": 3, "snli": None, "entailment": None, "ranking": None,
    "distillation": None, "response_distillation": 3, "response_prediction_with_teachers": 3,
    "entailment_with_teachers": None, "response_prediction_in_mini_batches": 3,
}  # fmt: skip


def build_task(name: str, mini_batch_size: int | None, longest: int) -> Task:
    generator = np.random.default_rng(0)
    first, second = column(generator, longest), column(generator, longest)
    if name == "snli":
        return Snli(Snli.Options(), first, second, generator.integers(0, 3, ROWS))
    if name == "distillation":
        return Distillation(DistillationOptions(similarity_scale=2.0), first, generator.normal(size=(ROWS, 5)))
    if name == "response_distillation":
        options = ResponseDistillationOptions(mini_batch_size=mini_batch_size)
        return ResponseDistillation(options, first, second, *generator.normal(size=(2, ROWS, 5)), 2.0)
    order = generator.permutation(ROWS)
    no_texts: Any = None
    if name == "ranking":
        pairs = ScoredPairs(no_texts, np.arange(ROWS), order, generator.random(ROWS))
        return Ranking(RankingOptions(similarity_scale=2.0), first, pairs)
    teachers = ScoreTeachers([build_model(seed) for seed in (1, 2)]) if name.endswith("with_teachers") else None
    if name.startswith("entailment"):
        # Three hard negatives in the first half of the batch, and seven in the second.
        negative = np.where(np.isin(np.arange(ROWS), [1, 4, 5, *range(8, 15)]), generator.permutation(ROWS), -1)
        positive = PositivePairs(no_texts, np.arange(ROWS), order, negative, first.keys)
        return Entailment(EntailmentOptions(similarity_scale=2.0, score_teacher_share=0.6), first, positive, teachers)
    settings: dict[str, Any] = {"mini_batch_size": mini_batch_size, "score_teacher_share": 0.6}
    settings |= {"matryoshka_dims": [6, 3]} if name == "matryoshka" else {}
    options = ResponsePredictionOptions(mask_false_negatives=True, symmetric_loss=True, **settings)
    return ResponsePrediction(options, first, second, teachers)


def build_model(seed: int) -> ConvSimDanForMultitask:
    torch.manual_seed(seed)
    config = ConvSimDanConfig(
        vocab_size=60, word_embedding_size=12, bigram_buckets=64, hidden_sizes=[12], embedding_size=10,
        response_hidden_sizes=[10], nli_hidden_size=8, normalize_response=True,
    )  # fmt: skip
    return ConvSimDanForMultitask(config).double()


def column(generator: np.random.Generator, longest: int) -> TokenColumn:
    lengths = generator.integers(1, longest, ROWS)
    # Few different keys: some rows of the batch are false negatives of others, across processes too.
    return TokenColumn(
        generator.integers(2, 60, lengths.sum()),
        np.concatenate([[0], np.cumsum(lengths)]),
        generator.integers(0, 12, ROWS),
    )


def compute_gradients(name: str, rank: int, world: int) -> dict[str, torch.Tensor]:
    # Long texts contain nearly all rows of the tables, whose gradients are then exchanged as dense tensors; the rows of
    # short texts are exchanged as rows.
    longest = 9 if name == "snli" else 40
    task = build_task(name, TASKS[name] if world > 1 else None, longest)
    model = build_model(0)
    model.set_sparse_gradients(True)
    exclude_from_ddp(model, model.embedding_tables())
    wrapped = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True) if world > 1 else model
    share = ROWS // world
    loss, _ = task.loss(wrapped, task.batch(np.arange(rank * share, (rank + 1) * share)))
    loss.backward()
    average_table_gradients(model.embedding_tables())
    if world > 1:
        assert all(
            table.grad is not None and table.grad.is_sparse == (longest == 9) for table in model.embedding_tables()
        )
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
