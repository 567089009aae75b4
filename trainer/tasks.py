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
from trainer.losses import cosine_ranking, false_negatives, in_batch_softmax, similarity_divergence
from trainer.similar_texts import ScoredTexts, SimilarTexts


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


class Contrastive:
    """Pick the text that says the same among those of the batch, by the encoder's own similarity.

    Captions of one image, paraphrases, premises with what they entail. A hard negative is one candidate more for every
    row of its process. Not the papers'; the loss is that of Henderson et al. (2017), section 4.
    """

    def __init__(
        self, name: str, texts: TokenColumn, rows: SimilarTexts, scale: float, mini_batch_size: int | None = None
    ) -> None:
        self.name, self.columns = name, [texts]
        self._texts, self._rows, self._scale, self._mini_batch_size = texts, rows, scale, mini_batch_size

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """All texts of some rows, packed: first ones, second ones, hard negatives; and the rows' groups."""
        negative = self._rows.negative[rows]
        places = np.concatenate([self._rows.first[rows], self._rows.second[rows], negative[negative >= 0]])
        return _packed("", self._texts, places) | {"groups": torch.from_numpy(self._rows.groups[rows])}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Softmax in both directions, texts of the same group left out; `accuracy` is P@1 within the batch."""
        groups = batch.pop("groups")
        count = len(groups)
        vectors = embed(model, batch, self._mini_batch_size).pooler_output
        assert vectors is not None
        first, second, negatives = vectors[:count], vectors[count : 2 * count], vectors[2 * count :]
        start = count * rank()
        targets = torch.arange(start, start + count, device=vectors.device)
        masked = groups[:, None] == gather_rows(groups)
        masked[torch.arange(count, device=masked.device), targets] = False
        scores = self._scale * first @ gather_rows(second).T
        with_negatives = torch.cat([scores, self._scale * first @ negatives.T], dim=1)
        loss = in_batch_softmax(with_negatives, targets, F.pad(masked, (0, len(negatives))))
        loss = (loss + in_batch_softmax(self._scale * second @ gather_rows(first).T, targets, masked)) / 2
        return loss, {"accuracy": (with_negatives.detach().argmax(dim=1) == targets).float().mean()}


class Ranking:
    """Of two judged pairs, the more alike one has the higher cosine."""

    def __init__(
        self, name: str, texts: TokenColumn, rows: ScoredTexts, scale: float, mini_batch_size: int | None = None
    ) -> None:
        self.name, self.columns = name, [texts]
        self._texts, self._rows, self._scale, self._mini_batch_size = texts, rows, scale, mini_batch_size

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Both texts of some rows, packed, first ones first; and the scores."""
        places = np.concatenate([self._rows.first[rows], self._rows.second[rows]])
        return _packed("", self._texts, places) | {"scores": torch.from_numpy(self._rows.scores[rows])}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """`cosine_ranking` over the pairs of this process; `accuracy` is the share of pairs of pairs in right order."""
        scores = batch.pop("scores")
        vectors = embed(model, batch, self._mini_batch_size).pooler_output
        assert vectors is not None
        cosines = (vectors[: len(scores)] * vectors[len(scores) :]).sum(dim=1)
        lower = scores[:, None] < scores
        right = (cosines.detach()[:, None] < cosines.detach())[lower].float()
        return cosine_ranking(cosines, scores, self._scale), {"accuracy": right.sum() / max(right.numel(), 1)}


class Distillation:
    """Give texts the similarities that a teacher gives them (Tung and Mori, 2019).

    Only similarities are compared, so the teacher's vectors may have any size.
    """

    name = "distillation"

    def __init__(
        self, texts: TokenColumn, vectors: np.ndarray, scale: float, mini_batch_size: int | None = None
    ) -> None:
        self.columns = [texts]
        self._texts, self._vectors, self._scale, self._mini_batch_size = texts, vectors, scale, mini_batch_size

    def __len__(self) -> int:
        return len(self._vectors)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Some texts, packed, and the teacher's vectors of them, (rows, dimensions)."""
        return _packed("", self._texts, rows) | {"teacher": torch.from_numpy(self._vectors[rows]).float()}

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """`similarity_divergence` from the teacher's similarities, and the root mean square difference of cosines."""
        teacher = batch.pop("teacher")
        vectors = embed(model, batch, self._mini_batch_size).pooler_output
        assert vectors is not None
        cosines, wanted = vectors @ vectors.T, teacher @ teacher.T
        difference = (cosines.detach().float() - wanted).square().mean().sqrt()
        return similarity_divergence(cosines, wanted, self._scale), {"difference": difference}


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
