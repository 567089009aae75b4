"""Distillation of the similarities of a SentenceTransformer (Tung and Mori, 2019)."""

from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor, nn

from trainer.data.teacher import encode_columns, sample_rows
from trainer.data.token_cache import TokenColumn
from trainer.processes import gather_rows, rank
from trainer.settings import Settings
from trainer.tasks.base import Task, TaskInputs, register_task
from trainer.tasks.encoding import embed_batch, pack
from trainer.tasks.losses import similarity_divergence


@register_task
class Distillation(Task):
    """Reproduce a teacher's similarities between texts.

    Only similarities are compared, so the teacher's embeddings may have any dimension.
    """

    name = "distillation"
    card_line = (
        "Distillation: reproduce a teacher's similarities within the batch (KL divergence; Tung and Mori, 2019)."
    )
    required_option = "teacher"
    adds_texts = False

    def __init__(self, settings: Settings, texts: TokenColumn, vectors: np.ndarray) -> None:
        super().__init__(settings, texts)
        self._texts, self._vectors = texts, vectors

    @classmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        """Build the task on a sample of all training texts."""
        assert settings.teacher is not None  # it is the required option
        samples = sample_rows(inputs.data, settings.teacher_texts)
        encoded = encode_columns(settings.teacher, samples, Path(settings.cache_dir))
        columns = [(name, column) for name, vectors in encoded.items() for column in vectors]
        first: dict[str, int] = {}  # text -> its first row
        for row, text in enumerate(text for name, column in columns for text in samples[name][column][:]):
            first.setdefault(text, row)
        vectors = np.concatenate([encoded[name][column] for name, column in columns])[list(first.values())]
        texts = inputs.tokenize_texts(Dataset.from_dict({"text": list(first)}))
        return {cls.name: cls(settings, texts, vectors)}

    def __len__(self) -> int:
        return len(self._vectors)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack texts, and add `teacher`, the teacher's embeddings of them, (batch, dimension of the teacher)."""
        return pack(self._texts, rows) | {"teacher": torch.from_numpy(self._vectors[rows]).float()}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the KL divergence from the teacher's similarities with the texts of all processes.

        `difference` is the RMS difference of cosines.
        """
        teacher = batch.pop("teacher")
        vectors = embed_batch(model, batch)
        # (batch, processes x batch)
        cosines, target = vectors @ gather_rows(vectors).T, teacher @ gather_rows(teacher).T
        difference = (cosines.detach().float() - target).square().mean().sqrt()
        loss = similarity_divergence(cosines, target, self.settings.similarity_scale, first=len(vectors) * rank())
        return loss, {"difference": difference}
