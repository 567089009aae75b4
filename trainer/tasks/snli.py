"""Classification of natural language inference (Yang et al., 2018, section 2.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainer.arguments import Arguments, option
from trainer.tasks.base import Task, TaskInputs, register_task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainer.data.token_cache import TokenColumn


@dataclass
class SnliOptions(Arguments):
    """Options of the task snli."""

    snli: str | None = option(
        None, "folder or Hub id of SNLI; its evaluation sentences are removed from the training data"
    )
    snli_share: float = option(1.0, "share of the SNLI training pairs to train on", minimum=0, maximum=1)


@register_task
class Snli(Task):
    """Classify a pair of sentences as entailment, neutral or contradiction."""

    name = "snli"
    label = "SNLI"
    card_line = (
        "SNLI: classify a pair of sentences as entailment, neutral or contradiction, cross-entropy (Yang et al., 2018)."
    )
    Options = SnliOptions
    required_option = "snli"
    datasets = ("snli",)
    evaluator = "snli"

    def __init__(
        self, options: SnliOptions, premises: TokenColumn, hypotheses: TokenColumn, labels: np.ndarray
    ) -> None:
        super().__init__(options, premises, hypotheses)
        self._premises, self._hypotheses, self._labels = premises, hypotheses, labels

    @classmethod
    def is_disabled(cls, options: SnliOptions) -> bool:
        """Return whether no training pair is used."""
        return options.snli_share == 0

    @classmethod
    def build(cls, options: SnliOptions, inputs: TaskInputs) -> dict[str, Task]:
        """Build the task on the SNLI training pairs."""

        rows = inputs.data.training["snli"]
        columns = inputs.tokenize(rows, ["premise", "hypothesis"])
        labels = np.asarray(rows["label"], dtype=np.int64)
        return {cls.name: cls(options, columns["premise"], columns["hypothesis"], labels)}

    def __len__(self) -> int:
        return len(self._labels)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack premises and hypotheses; add `labels` (batch,)."""
        import torch

        from trainer.tasks.encoding import pack

        batch = pack(self._premises, rows) | pack(self._hypotheses, rows, "hypothesis_")
        return batch | {"labels": torch.from_numpy(self._labels[rows])}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the cross-entropy over the three labels, and the accuracy."""
        import torch.nn.functional as F

        from trainer.tasks.encoding import encode_batch
        from trainer.tasks.losses import accuracy

        labels = batch.pop("labels")
        logits = encode_batch(model, batch, self.options.mini_batch_size).nli_logits  # (batch, 3)
        assert logits is not None
        logits = logits.float()
        return F.cross_entropy(logits, labels), {"accuracy": accuracy(logits, labels)}
