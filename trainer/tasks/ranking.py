"""Ranking of sentence pairs by their similarity scores (CoSENT: Su, 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.tasks.base import Task, TaskInputs, register_task
from trainer.tasks.options import NliOptions, ParaphraseOptions, SimilarityOptions

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from trainer.data.positive_pairs import ScoredPairs
    from trainer.data.token_cache import TokenColumn


@dataclass
class RankingOptions(SimilarityOptions, NliOptions, ParaphraseOptions):
    """Options of the task ranking."""


@register_task
class Ranking(Task):
    """Of two scored pairs, give the more similar one the higher cosine."""

    name = "ranking"
    label = "scored pairs"
    card_line = (
        "Ranking: of two pairs with similarity scores, the more similar one gets the higher cosine (CoSENT: Su, 2022)."
    )
    Options = RankingOptions
    required_option = "paraphrases"
    datasets = ("nli", "paraphrases")

    def __init__(self, options: RankingOptions, texts: TokenColumn, pairs: ScoredPairs) -> None:
        super().__init__(options, texts)
        self._texts, self._pairs = texts, pairs

    @classmethod
    def build(cls, options: RankingOptions, inputs: TaskInputs) -> dict[str, Task]:
        """Build one task for each dataset with different scores."""
        from trainer.data.positive_pairs import scored_nli_pairs, scored_paraphrase_pairs

        tasks: dict[str, Task] = {}
        for kind, score in (("nli", scored_nli_pairs), ("paraphrases", scored_paraphrase_pairs)):
            for name, rows in inputs.data.named(kind).items():
                if (pairs := score(rows)) is not None:
                    tasks[f"{cls.name}/{name}"] = cls(options, inputs.tokenize_texts(pairs.texts), pairs)
        return tasks

    def __len__(self) -> int:
        return len(self._pairs)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack first texts, then second texts; add `scores` (batch,)."""
        import numpy as np
        import torch

        from trainer.tasks.encoding import pack

        indices = np.concatenate([self._pairs.first[rows], self._pairs.second[rows]])
        return pack(self._texts, indices) | {"scores": torch.from_numpy(self._pairs.scores[rows])}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return CoSENT over the pairs of all processes; `accuracy`: share of pairs of pairs in the right order."""
        from trainer.distributed import gather_rows
        from trainer.tasks.encoding import embed_batch
        from trainer.tasks.losses import cosine_ranking

        scores = batch.pop("scores")
        vectors = embed_batch(model, batch, self.options.mini_batch_size)
        cosines = gather_rows((vectors[: len(scores)] * vectors[len(scores) :]).sum(dim=1))  # (processes x batch,)
        scores = gather_rows(scores)
        lower = scores[:, None] < scores
        in_order = (cosines.detach()[:, None] < cosines.detach())[lower].float()
        loss = cosine_ranking(cosines, scores, self.options.similarity_scale)
        return loss, {"accuracy": in_order.sum() / max(in_order.numel(), 1)}
