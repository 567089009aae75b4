"""The tasks: each owns its rows, its batches and its loss."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from modeling_convsim.modeling_base import ConvSimMultitaskOutput
from trainer.data.positive_pairs import ScoredTexts, SimilarTexts
from trainer.data.sentence_order import NONE, Neighbours
from trainer.data.token_cache import TokenColumn
from trainer.distributed import gather_rows, rank
from trainer.tasks.losses import (
    cosine_ranking,
    false_negatives,
    in_batch_softmax,
    neighbour_cross_entropy,
    similarity_divergence,
    truncate,
)


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
        matryoshka_dims: Sequence[int] = (),
    ) -> None:
        self._inputs, self._responses = inputs, responses
        self.columns = [inputs, responses]
        self._mask, self._symmetric, self._mini_batch_size = mask_false_negatives, symmetric, mini_batch_size
        self._sizes = matryoshka_dims

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
        inputs = output.pooler_output if output.query_embeds is None else output.query_embeds
        responses = output.response_embeds
        assert inputs is not None and responses is not None
        all_responses = gather_rows(responses)
        all_inputs = gather_rows(inputs) if self._symmetric else inputs
        first = len(inputs) * rank()
        targets = torch.arange(first, first + len(inputs), device=inputs.device)
        masked = None
        if input_keys is not None and response_keys is not None:
            all_input_keys, all_response_keys = gather_rows(input_keys), gather_rows(response_keys)
            masked = false_negatives(input_keys, response_keys, all_input_keys, all_response_keys, targets)
        unwrapped: Any = getattr(model, "module", model)  # DistributedDataParallel's
        # u has length one; u' and v' have one length where the config says so, and elsewhere lengths that they learn.
        normalized = unwrapped.config.normalize_response
        unit_inputs = normalized or output.query_embeds is None

        def score(size: int | None) -> tuple[Tensor, Tensor]:
            u, all_u = (truncate(vectors, size, unit_inputs) for vectors in (inputs, all_inputs))
            v, all_v = (truncate(vectors, size, normalized) for vectors in (responses, all_responses))
            scores = u @ all_v.T
            loss = in_batch_softmax(scores, targets, masked)
            if self._symmetric:
                loss = (loss + in_batch_softmax(v @ all_u.T, targets, masked)) / 2
            return loss, _accuracy(scores, targets)

        return _at_every_size(score, self._sizes)


class Contrastive:
    """Pick the text that says the same among those of the batch, by the encoder's own similarity.

    Captions of one image, paraphrases, premises with what they entail. A hard negative is one candidate more for every
    row of its process. Not the papers'; the loss is that of Henderson et al. (2017), section 4.
    """

    def __init__(
        self,
        name: str,
        texts: TokenColumn,
        rows: SimilarTexts,
        scale: float,
        mini_batch_size: int | None = None,
        matryoshka_dims: Sequence[int] = (),
    ) -> None:
        self.name, self.columns = name, [texts]
        self._texts, self._rows, self._scale, self._mini_batch_size = texts, rows, scale, mini_batch_size
        self._sizes = matryoshka_dims

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
        sides = (first, second, negatives, gather_rows(first), gather_rows(second))

        def score(size: int | None) -> tuple[Tensor, Tensor]:
            u, v, others, all_u, all_v = (truncate(vectors, size) for vectors in sides)
            scores = torch.cat([self._scale * u @ all_v.T, self._scale * u @ others.T], dim=1)
            loss = in_batch_softmax(scores, targets, F.pad(masked, (0, len(others))))
            loss = (loss + in_batch_softmax(self._scale * v @ all_u.T, targets, masked)) / 2
            return loss, _accuracy(scores, targets)

        return _at_every_size(score, self._sizes)


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


class NeighbouringSentences:
    """Tell the sentences before and after a sentence from random ones (Kenter et al., 2016, section 2.1)."""

    def __init__(
        self,
        name: str,
        texts: TokenColumn,
        rows: Neighbours,
        negatives: int,
        scale: float,
        mini_batch_size: int | None = None,
    ) -> None:
        self.name, self.columns = name, [texts]
        self._texts, self._rows, self._negatives = texts, rows, negatives
        self._scale, self._mini_batch_size = scale, mini_batch_size

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Some sentences, the two around each and as many random ones as asked for, packed.

        `is_neighbour` and `is_candidate` (rows, 2 + negatives) say what a sentence's candidates are: a neighbour that
        is not there is none, nor is a draw that is the sentence itself or next to it.
        """
        sentence = self._rows.sentences[rows][:, None]
        neighbours = np.stack([self._rows.before[rows], self._rows.after[rows]], axis=1)
        others = self._rows.others
        # Torch's generator, which the loop seeds for every step and process.
        drawn = others[torch.randint(len(others), (len(rows), self._negatives)).numpy()]
        is_random = (drawn != sentence) & (drawn[:, :, None] != neighbours[:, None, :]).all(axis=2)
        is_neighbour = np.pad(neighbours != NONE, ((0, 0), (0, self._negatives)))
        candidates = np.concatenate([np.where(neighbours == NONE, sentence, neighbours), drawn], axis=1)
        is_candidate = is_neighbour | np.pad(is_random, ((0, 0), (2, 0)))
        places = np.concatenate([sentence[:, 0], candidates.ravel()])
        return _packed("", self._texts, places) | {
            "is_neighbour": torch.from_numpy(is_neighbour),
            "is_candidate": torch.from_numpy(is_candidate),
        }

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """`neighbour_cross_entropy` over cosines; `accuracy`: how often the nearest candidate is a neighbour."""
        is_neighbour, is_candidate = batch.pop("is_neighbour"), batch.pop("is_candidate")
        vectors = embed(model, batch, self._mini_batch_size).pooler_output
        assert vectors is not None
        count = len(is_neighbour)
        candidates = vectors[count:].view(count, -1, vectors.shape[1])
        scores = self._scale * torch.einsum("rd,rcd->rc", vectors[:count], candidates)
        best = scores.detach().masked_fill(~is_candidate, float("-inf")).argmax(dim=1, keepdim=True)
        loss = neighbour_cross_entropy(scores, is_neighbour, is_candidate)
        return loss, {"accuracy": is_neighbour.gather(1, best).float().mean()}


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


def _at_every_size(
    score: Callable[[int | None], tuple[Tensor, Tensor]], sizes: Sequence[int]
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of whole vectors plus that of their first numbers at each size, and the accuracy at each.

    Kusupati et al. (2022), "Matryoshka representation learning", equation 1, every size weighing one, as
    sentence-transformers' `MatryoshkaLoss` does it.
    """
    loss, accuracy = score(None)
    figures = {"accuracy": accuracy}
    for size in sizes:
        added, figures[f"accuracy_{size}"] = score(size)
        loss = loss + added
    return loss, figures


def _accuracy(scores: Tensor, targets: Tensor) -> Tensor:
    """How often the target (rows,) has the highest of the scores (rows, candidates)."""
    return (scores.detach().argmax(dim=1) == targets).float().mean()


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
