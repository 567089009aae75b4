"""The tasks: each owns its rows, its batches and its loss."""

from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainer.cache import TokenColumn
from trainer.losses import false_negatives, gather_rows, in_batch_softmax


class Task(Protocol):
    """What the loop knows of a task."""

    name: str
    columns: list[TokenColumn]

    def __len__(self) -> int:
        """Number of training rows."""
        ...

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """The tensors of some rows, on the CPU."""
        ...

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean loss of this process's rows, and further figures to log."""
        ...


class ResponsePrediction:
    """Pick the true response among those of the batch (Yang et al., 2018, sections 2.1 and 2.2)."""

    name = "response_prediction"

    def __init__(
        self, inputs: TokenColumn, responses: TokenColumn, mask_false_negatives: bool = False, symmetric: bool = False
    ) -> None:
        self._inputs, self._responses = inputs, responses
        self.columns = [inputs, responses]
        self._mask, self._symmetric = mask_false_negatives, symmetric

    def __len__(self) -> int:
        return len(self._inputs)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Inputs and responses of some rows, packed."""
        batch = _packed("", self._inputs, rows) | _packed("response_", self._responses, rows)
        if self._mask:
            batch["input_keys"] = torch.from_numpy(self._inputs.keys[rows])
            batch["response_keys"] = torch.from_numpy(self._responses.keys[rows])
        return batch

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Softmax over the responses of all processes; `accuracy` is P@1 within the batch."""
        input_keys, response_keys = batch.pop("input_keys", None), batch.pop("response_keys", None)
        output = model(**batch)
        inputs, responses = output.pooler_output, output.response_embeds
        all_responses = gather_rows(responses)
        first = len(inputs) * _rank()
        targets = torch.arange(first, first + len(inputs), device=inputs.device)
        masked = None
        if input_keys is not None and response_keys is not None:
            all_input_keys, all_response_keys = gather_rows(input_keys), gather_rows(response_keys)
            masked = false_negatives(input_keys, response_keys, all_input_keys, all_response_keys, targets)
        scores = inputs @ all_responses.T
        loss = in_batch_softmax(scores, targets, masked)
        if self._symmetric:
            loss = (loss + in_batch_softmax(responses @ gather_rows(inputs).T, targets, masked)) / 2
        return loss, {"accuracy": (scores.detach().argmax(dim=1) == targets).float().mean()}


class Snli:
    """Entailment, neutral or contradiction (Yang et al., 2018, section 2.4)."""

    name = "snli"

    def __init__(self, premises: TokenColumn, hypotheses: TokenColumn, labels: np.ndarray) -> None:
        self._premises, self._hypotheses, self._labels = premises, hypotheses, labels
        self.columns = [premises, hypotheses]

    def __len__(self) -> int:
        return len(self._labels)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Premises and hypotheses of some rows, packed, and their labels."""
        batch = _packed("", self._premises, rows) | _packed("hypothesis_", self._hypotheses, rows)
        return batch | {"labels": torch.from_numpy(self._labels[rows])}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy of the three labels, and the share of right ones."""
        labels = batch.pop("labels")
        logits = model(**batch).nli_logits.float()
        return F.cross_entropy(logits, labels), {"accuracy": (logits.detach().argmax(dim=1) == labels).float().mean()}


def _packed(prefix: str, column: TokenColumn, rows: np.ndarray) -> dict[str, Any]:
    ids, cu_seqlens = column.gather(rows)
    return {f"{prefix}input_ids": torch.from_numpy(ids), f"{prefix}cu_seqlens": torch.from_numpy(cu_seqlens)}


def _rank() -> int:
    return (
        torch.distributed.get_rank() if torch.distributed.is_available() and torch.distributed.is_initialized() else 0
    )
