"""The tasks: each owns its rows, its batches and its loss."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from modeling_convsim.modeling_base import ConvSimMultitaskOutput
from trainer.cache import TokenColumn
from trainer.distributed import gather_rows, rank
from trainer.losses import false_negatives, in_batch_softmax


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
        self,
        inputs: TokenColumn,
        responses: TokenColumn,
        mask_false_negatives: bool = False,
        symmetric: bool = False,
        mini_batch_size: int | None = None,
    ) -> None:
        self._inputs, self._responses = inputs, responses
        self.columns = [inputs, responses]
        self._mask, self._symmetric, self._mini_batch_size = mask_false_negatives, symmetric, mini_batch_size

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
        output = embed(model, batch, self._mini_batch_size)
        inputs, responses = output.pooler_output, output.response_embeds
        assert inputs is not None and responses is not None
        all_responses = gather_rows(responses)
        first = len(inputs) * rank()
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

    def __init__(
        self, premises: TokenColumn, hypotheses: TokenColumn, labels: np.ndarray, mini_batch_size: int | None = None
    ) -> None:
        self._premises, self._hypotheses, self._labels = premises, hypotheses, labels
        self._mini_batch_size = mini_batch_size
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
        logits = embed(model, batch, self._mini_batch_size).nli_logits
        assert logits is not None
        logits = logits.float()
        return F.cross_entropy(logits, labels), {"accuracy": (logits.detach().argmax(dim=1) == labels).float().mean()}


def embed(model: nn.Module, batch: dict[str, Tensor], mini_batch_size: int | None) -> ConvSimMultitaskOutput:
    """The model's output for a packed batch, in the memory of `mini_batch_size` of its rows where that is given.

    Gradient caching (Gao et al., 2021, "Scaling deep contrastive learning batch size under memory limited setup"): of
    each part only the vectors are kept, and what its gradient needs is computed a second time, with the same dropout,
    when the gradient of the whole batch's loss is there. Loss, negatives and gradient are those of the batch in one.
    """
    rows = len(batch["cu_seqlens"]) - 1
    if mini_batch_size is None or rows <= mini_batch_size:
        return model(**batch)
    outputs = [checkpoint(partial(model, **part), use_reentrant=False) for part in _parts(batch, mini_batch_size)]
    return ConvSimMultitaskOutput(**{key: torch.cat([output[key] for output in outputs]) for key in outputs[0]})


def _parts(batch: dict[str, Tensor], size: int) -> Iterator[dict[str, Tensor]]:
    """A packed batch in parts of `size` rows."""
    sides = [key.removesuffix("cu_seqlens") for key in batch if key.endswith("cu_seqlens")]
    for start in range(0, len(batch["cu_seqlens"]) - 1, size):
        part = {}
        for side in sides:
            cu_seqlens = batch[f"{side}cu_seqlens"][start : start + size + 1]
            part[f"{side}input_ids"] = batch[f"{side}input_ids"][cu_seqlens[0] : cu_seqlens[-1]]
            part[f"{side}cu_seqlens"] = cu_seqlens - cu_seqlens[0]
        yield part


def _packed(prefix: str, column: TokenColumn, rows: np.ndarray) -> dict[str, Any]:
    ids, cu_seqlens = column.gather(rows)
    return {f"{prefix}input_ids": torch.from_numpy(ids), f"{prefix}cu_seqlens": torch.from_numpy(cu_seqlens)}
