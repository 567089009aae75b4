"""Every task over a few invented texts, and tiny models, for the tests of this folder."""

from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn

from modeling_convsim import ConvSimForMultitask
from tests.modeling_convsim.tiny_models import build
from trainer.data.examples import Neighbors, PositivePairs
from trainer.data.token_cache import TokenColumn
from trainer.settings import Settings
from trainer.tasks import Task
from trainer.tasks.contrastive import Captions
from trainer.tasks.distillation import Distillation
from trainer.tasks.encoding import ScoreTeachers
from trainer.tasks.neighbors import NeighboringSentences
from trainer.tasks.response_distillation import ResponseDistillation
from trainer.tasks.response_prediction import ResponsePrediction
from trainer.tasks.snli import Snli

NAMES = "response_prediction snli captions distillation response_distillation neighbors".split()
NAMES += ["response_prediction_with_teachers", "captions_with_teachers"]
ROWS = 23
ALL = np.arange(ROWS)
OPTIONS = {"mask_false_negatives": True, "symmetric_loss": True, "negatives": 3, "score_teacher_share": 0.7}


def column(seed: int) -> TokenColumn:
    """Texts of 0 to 8 tokens; a few have the keys of others, as if their texts were equal."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 9, ROWS)
    ids = generator.integers(2, 60, lengths.sum())
    return TokenColumn(ids, np.concatenate([[0], np.cumsum(lengths)]), generator.integers(0, 12, ROWS))


def texts_of(texts: TokenColumn, rows: Any) -> list[list[int]]:
    return [texts.ids[texts.offsets[row] : texts.offsets[row + 1]].tolist() for row in rows]


def packed(batch: dict[str, Tensor], prefix: str = "") -> list[list[int]]:
    """The texts of a packed batch."""
    return [part.tolist() for part in batch[f"{prefix}input_ids"].tensor_split(batch[f"{prefix}cu_seqlens"][1:-1])]


def positive_pairs() -> PositivePairs:
    generator = np.random.default_rng(4)
    second = generator.permutation(ROWS)
    negative = np.where(generator.random(ROWS) < 0.5, generator.permutation(ROWS), -1)
    # The groups are random instead of connected components, so that few of them are equal.
    return PositivePairs(Dataset.from_dict({}), ALL, second, negative, generator.integers(0, 15, ROWS))


def neighbors(keys: np.ndarray) -> Neighbors:
    """Sentences 0 to 22 in four documents of 1, 2, 7 and 13; the first is not an example, and 22 is not a negative."""
    before = np.array([-1, -1, 1, -1, *range(3, 9), -1, *range(10, 22)])
    after = np.array([-1, 2, -1, *range(4, 10), -1, *range(11, 23), -1])
    rows = np.flatnonzero((before >= 0) | (after >= 0))
    return Neighbors(rows, before[rows], after[rows], np.arange(ROWS - 1), keys)


def teacher_vectors() -> np.ndarray:
    """A teacher's embeddings of inputs and of responses, (2, rows, dimension)."""
    vectors = np.random.default_rng(6).normal(size=(2, ROWS, 7))
    return (vectors / np.linalg.norm(vectors, axis=2, keepdims=True)).astype(np.float16)


def teachers() -> list[ConvSimForMultitask]:
    return [build_model("dan_input_network", seed=1), build_model("dan", seed=2)]


def build_task(name: str, **changes: Any) -> Task:
    options = Settings(**(OPTIONS | changes))
    name, *has_teachers = name.split("_with_")
    ensemble = ScoreTeachers(teachers()) if has_teachers else None
    first, second = column(0), column(1)
    builders = {
        "response_prediction": lambda: ResponsePrediction(options, first, second, ensemble),
        "captions": lambda: Captions(options, first, positive_pairs(), ensemble),
        "snli": lambda: Snli(options, first, second, np.random.default_rng(2).integers(0, 3, ROWS)),
        "neighbors": lambda: NeighboringSentences(options, first, neighbors(first.keys)),
        "distillation": lambda: Distillation(options, first, teacher_vectors()[0]),
        "response_distillation": lambda: ResponseDistillation(options, first, second, *teacher_vectors(), 9.0),
    }
    return builders[name]()


def build_model(kind: str, dropout: float = 0.0, seed: int = 0, **heads: Any) -> ConvSimForMultitask:
    """A model in training mode whose weights are initialized, in float64."""
    if kind.startswith("dan"):
        heads |= {"embedding_size": 12, "input_network": kind == "dan_input_network", "token_dropout": dropout}
    elif kind == "cbow":
        heads["initializer_range"] = 1
    else:
        heads |= {"hidden_dropout": dropout, "attention_dropout": dropout}
    built = build(kind.partition("_")[0], **heads)
    torch.manual_seed(seed)
    model = type(built)(built.config)
    model.set_sparse_gradients(kind.startswith("dan"))
    return model.double().train()


def loss_and_gradients(model: nn.Module, task: Task) -> tuple[Tensor, dict[str, Tensor]]:
    model.zero_grad()
    torch.manual_seed(5)
    loss, _ = task.loss(model, task.batch(np.arange(len(task))))
    loss.backward()
    return loss.detach(), {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}


def vectors_of(model: nn.Module, rows: np.ndarray) -> np.ndarray:
    ids, cu_seqlens = column(0).gather(rows)
    with torch.no_grad():
        return model(torch.from_numpy(ids), cu_seqlens=torch.from_numpy(cu_seqlens)).pooler_output.numpy()
