"""The tasks that train on semantically equivalent texts: InfoNCE on the cosine of sentence embeddings."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from trainer.data import examples
from trainer.data.examples import PositivePairs
from trainer.data.token_cache import TokenColumn
from trainer.processes import gather_rows, gather_uneven_rows, rank
from trainer.settings import Settings
from trainer.tasks.base import Task, TaskInputs, register_task
from trainer.tasks.encoding import ScoreTeachers, embed_batch, pack
from trainer.tasks.losses import accuracy, in_batch_softmax


class ContrastiveTask(Task):
    """Pick the semantically equivalent text from the batch: InfoNCE with in-batch negatives.

    A hard negative is one more candidate for every row of the batch. The papers do not have this task; the loss is
    that of Henderson et al. (2017), section 4, in both directions.

    Attributes:
        pairs_function: the function of `trainer.data.examples` that returns the positive pairs of a dataset.
    """

    pairs_function: ClassVar[str]

    def __init__(
        self,
        settings: Settings,
        texts: TokenColumn,
        pairs: PositivePairs,
        teachers: ScoreTeachers | None = None,
    ) -> None:
        super().__init__(settings, texts)
        self._texts, self._pairs, self._teachers = texts, pairs, teachers

    @classmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        """Build one task for each dataset."""
        tasks: dict[str, Task] = {}
        for name, rows in inputs.data.named(cls.datasets[0]).items():
            pairs: PositivePairs = getattr(examples, cls.pairs_function)(rows, settings.seed)
            tasks[f"{cls.name}/{name}"] = cls(settings, inputs.tokenize_texts(pairs.texts), pairs, inputs.teachers)
        return tasks

    def __len__(self) -> int:
        return len(self._pairs)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack first texts, second texts and hard negatives, in this order, and add the groups of their texts.

        `groups` (batch,) are those of the pairs, `negative_groups` (hard negatives,) those of the hard negatives.
        """
        first, second, negatives = self._pairs.first[rows], self._pairs.second[rows], self._pairs.negative[rows]
        negatives = negatives[negatives >= 0]
        groups = self._pairs.groups
        return pack(self._texts, np.concatenate([first, second, negatives])) | {
            "groups": torch.from_numpy(groups[first]),
            "negative_groups": torch.from_numpy(groups[negatives]),
        }

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return InfoNCE in both directions, texts of the same group masked; `accuracy` is P@1 within the batch."""
        groups, negative_groups = batch.pop("groups"), batch.pop("negative_groups")
        count, scale, share = len(groups), self.settings.similarity_scale, self.settings.score_teacher_share

        def gather_sides(vectors: Tensor) -> tuple[Tensor, ...]:
            first, second, negatives = vectors[:count], vectors[count : 2 * count], vectors[2 * count :]
            return first, second, gather_uneven_rows(negatives), gather_rows(first), gather_rows(second)

        def score_sides(u: Tensor, v: Tensor, hard: Tensor, all_u: Tensor, all_v: Tensor) -> tuple[Tensor, Tensor]:
            u, v = scale * u, scale * v
            return torch.cat([u @ all_v.T, u @ hard.T], dim=1), v @ all_u.T

        sides = gather_sides(embed_batch(model, batch))
        start = count * rank()
        targets = torch.arange(start, start + count, device=groups.device)
        mask = groups[:, None] == gather_rows(groups)  # (batch, processes x batch)
        mask[torch.arange(count, device=mask.device), targets] = False
        mask_with_negatives = torch.cat([mask, groups[:, None] == gather_uneven_rows(negative_groups)], dim=1)
        teacher_forth, teacher_back = None, None
        if self._teachers is not None:
            teacher_vectors = self._teachers.embed_batch(batch)
            teacher_forth, teacher_back = score_sides(*gather_sides(teacher_vectors))

        forth, back = score_sides(*sides)
        loss = in_batch_softmax(forth, targets, mask_with_negatives, teacher_forth, share)
        loss = (loss + in_batch_softmax(back, targets, mask, teacher_back, share)) / 2
        return loss, {"accuracy": accuracy(forth, targets)}


@register_task
class Captions(ContrastiveTask):
    """Two captions of the same image are a positive pair."""

    name = "captions"
    card_line = (
        "Captions: pick another caption of the same image from the texts of the batch (InfoNCE with in-batch "
        "negatives)."
    )
    required_option = "captions"
    datasets = ("captions",)
    pairs_function = "caption_pairs"


@register_task
class Paraphrases(ContrastiveTask):
    """Two paraphrases are a positive pair; pairs with lower scores provide hard negatives."""

    name = "paraphrases"
    card_line = (
        "Paraphrases: pick the paraphrase of a text from the texts of the batch (InfoNCE with in-batch negatives); "
        "pairs with lower scores provide hard negatives."
    )
    required_option = "paraphrases"
    datasets = ("paraphrases",)
    pairs_function = "paraphrase_pairs"


@register_task
class Entailment(ContrastiveTask):
    """A premise and an entailed hypothesis are a positive pair; a contradicting hypothesis is a hard negative."""

    name = "entailment"
    card_line = (
        "Entailment: pick the hypothesis that a premise entails from the texts of the batch (InfoNCE with in-batch "
        "negatives); contradicting hypotheses are hard negatives (Gao et al., 2021)."
    )
    required_option = "nli"
    datasets = ("nli",)
    pairs_function = "entailment_pairs"
