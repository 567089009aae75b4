"""Prediction of neighboring sentences, Siamese CBOW's task (Kenter et al., 2016, section 2.1)."""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from trainer.data.examples import NONE, Neighbors, find_neighbors, order_sentences
from trainer.data.token_cache import TokenColumn
from trainer.settings import Settings
from trainer.tasks.base import Task, TaskInputs, register_task
from trainer.tasks.encoding import embed_batch, pack
from trainer.tasks.losses import neighbor_cross_entropy


@register_task
class NeighboringSentences(Task):
    """Distinguish the sentences before and after a sentence from random ones."""

    name = "neighbors"
    card_line = (
        "Neighboring sentences: distinguish the sentences before and after a sentence from random ones (cross-entropy "
        "over cosines, as in Siamese CBOW; Kenter et al., 2016)."
    )
    required_option = "documents"
    datasets = ("documents",)

    def __init__(self, settings: Settings, texts: TokenColumn, neighbors: Neighbors) -> None:
        super().__init__(settings, texts)
        self._texts, self._neighbors = texts, neighbors

    @classmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        """Build one task for each dataset."""
        tasks: dict[str, Task] = {}
        for name, rows in inputs.data.named("documents").items():
            sentences, documents, positions = order_sentences(rows, f"documents/{name}")
            texts = inputs.tokenize_texts(sentences)
            unk_token_id = cast(int, inputs.tokenizer.unk_token_id)
            neighbors = find_neighbors(documents, positions, texts, unk_token_id, f"documents/{name}")
            tasks[f"{cls.name}/{name}"] = cls(settings, texts, neighbors)
        return tasks

    def __len__(self) -> int:
        return len(self._neighbors)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack the sentences and, after them, the candidates of each: its two neighbors, then random sentences.

        `is_neighbor` and `is_candidate` (batch, 2 + negatives) classify the candidates. A missing neighbor is not a
        candidate, nor is a random sentence that has the text of the sentence or was ever next to it.
        """
        sentences = self._neighbors.sentences[rows][:, None]  # (batch, 1)
        neighbors = np.stack([self._neighbors.before[rows], self._neighbors.after[rows]], axis=1)  # (batch, 2)
        others, negatives = self._neighbors.others, self.settings.negatives
        # Torch's generator, which the loop seeds for every step and process.
        sampled = others[torch.randint(len(others), (len(rows), negatives)).numpy()]  # (batch, negatives)
        nearest = np.where(neighbors == NONE, sentences, neighbors)  # (batch, 2)
        is_negative = self._neighbors.can_be_negatives(rows, sampled)
        is_neighbor = np.pad(neighbors != NONE, ((0, 0), (0, negatives)))
        candidates = np.concatenate([nearest, sampled], axis=1)
        is_candidate = is_neighbor | np.pad(is_negative, ((0, 0), (2, 0)))
        return pack(self._texts, np.concatenate([sentences[:, 0], candidates.ravel()])) | {
            "is_neighbor": torch.from_numpy(is_neighbor),
            "is_candidate": torch.from_numpy(is_candidate),
        }

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return `neighbor_cross_entropy` over cosines; `accuracy`: share of nearest candidates that are neighbors."""
        is_neighbor, is_candidate = batch.pop("is_neighbor"), batch.pop("is_candidate")
        vectors = embed_batch(model, batch)
        count = len(is_neighbor)
        candidates = vectors[count:].view(count, -1, vectors.shape[1])  # (batch, candidates, embedding_size)
        cosines = torch.einsum("rd,rcd->rc", vectors[:count], candidates)  # (batch, candidates)
        scores = self.settings.similarity_scale * cosines
        nearest = scores.detach().masked_fill(~is_candidate, float("-inf")).argmax(dim=1, keepdim=True)
        loss = neighbor_cross_entropy(scores, is_neighbor, is_candidate)
        return loss, {"accuracy": is_neighbor.gather(1, nearest).float().mean()}
