"""Classification of natural language inference (Yang et al., 2018, section 2.4)."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.data.token_cache import TokenColumn
from trainer.settings import Settings
from trainer.tasks.base import Task, TaskInputs, register_task
from trainer.tasks.encoding import pack
from trainer.tasks.losses import accuracy


@register_task
class Snli(Task):
    """Classify a pair of sentences as entailment, neutral or contradiction."""

    name = "snli"
    card_line = (
        "SNLI: classify a pair of sentences as entailment, neutral or contradiction (cross-entropy; Yang et al., 2018)."
    )
    required_option = "snli"
    datasets = ("snli",)
    evaluator = "snli"

    def __init__(self, settings: Settings, premises: TokenColumn, hypotheses: TokenColumn, labels: np.ndarray) -> None:
        super().__init__(settings, premises, hypotheses)
        self._premises, self._hypotheses, self._labels = premises, hypotheses, labels

    @classmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        """Build the task on the SNLI training pairs."""
        rows = inputs.data.training["snli"]
        columns = inputs.tokenize(rows, ["premise", "hypothesis"])
        labels = np.asarray(rows["label"], dtype=np.int64)
        return {cls.name: cls(settings, columns["premise"], columns["hypothesis"], labels)}

    def __len__(self) -> int:
        return len(self._labels)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack premises and hypotheses; add `labels` (batch,)."""
        batch = pack(self._premises, rows) | pack(self._hypotheses, rows, "hypothesis_")
        return batch | {"labels": torch.from_numpy(self._labels[rows])}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the cross-entropy over the three labels, and the accuracy."""
        labels = batch.pop("labels")
        logits = model(**batch).nli_logits  # (batch, 3)
        assert logits is not None
        logits = logits.float()
        return F.cross_entropy(logits, labels), {"accuracy": accuracy(logits, labels)}
