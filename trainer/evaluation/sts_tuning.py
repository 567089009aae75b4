"""Tuning on the STS Benchmark: one matrix on top of a fixed encoder (Yang et al. 2018, section 4.3).

The paper only says that a transformation matrix is trained on STS-B. Here W starts at the identity and stays symmetric
(a rotation of both vectors changes no angle). L-BFGS fits the angular similarity of W u and W v to gold: the loss is
1 - Pearson's r, which is the squared error after the best linear map of the scores. Pearson's r on dev selects the
iteration and the weight of a penalty on the distance of W from the identity. In cross-validation on train, a squared
error of the scores themselves, alone or beside it, generalized worse for our models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from modeling_convsim.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation import stsb
from trainer.evaluation.registry import EvaluationInputs, Evaluator
from trainer.evaluation.similarity import angular, cosine, encode_pairs

if TYPE_CHECKING:
    import torch
    from datasets import Dataset
    from scipy.optimize import OptimizeResult

PENALTIES = (0.001, 0.003, 0.01)
MAX_ITERATIONS = 100
PATIENCE = 10


@dataclass(frozen=True)
class EmbeddedPairs:
    """Pairs of sentences as vectors `first`, `second` (pairs, dimensions) with `gold` (pairs,), 0 to 5."""

    first: np.ndarray
    second: np.ndarray
    gold: np.ndarray


def tuned_scores(matrix: np.ndarray, pairs: EmbeddedPairs) -> np.ndarray:
    """Angular scores (pairs,), -pi to 0, of the transformed vectors W u and W v; `matrix` W is (d, d)."""
    return angular(cosine(pairs.first @ matrix.T, pairs.second @ matrix.T))


def objective(
    matrix: torch.Tensor, first: torch.Tensor, second: torch.Tensor, gold: torch.Tensor, penalty: float
) -> torch.Tensor:
    """1 - r(-angle(W u, W v), gold) + penalty |W - I|^2, a scalar.

    Args:
        matrix: W, (d, d).
        first: u, (pairs, d).
        second: v, (pairs, d).
        gold: (pairs,), 0 to 5.
        penalty: weight of the squared Frobenius distance from the identity.
    """
    import torch

    u = torch.nn.functional.normalize(first @ matrix.T)
    v = torch.nn.functional.normalize(second @ matrix.T)
    # Kahan's formula for the angle: the gradient of the arc cosine is infinite where u = v, and some STS-B pairs hold
    # the same sentence twice.
    angle = 2 * torch.atan2((u - v).norm(dim=1), (u + v).norm(dim=1))
    pearson = torch.corrcoef(torch.stack([-angle, gold]))[0, 1]
    return 1 - pearson + penalty * (matrix - torch.eye(len(matrix)).to(matrix)).square().sum()


def tune(train: EmbeddedPairs, dev: EmbeddedPairs) -> np.ndarray:
    """The matrix W (d, d), float32, with the best Pearson's r on `dev` over all iterations and `PENALTIES`.

    Deterministic. The identity is a candidate too, so the result on dev is never worse than without tuning.
    """
    identity = np.eye(train.first.shape[1], dtype=np.float32)
    best, best_pearson = identity, _pearson(identity, dev)
    for penalty in PENALTIES:
        matrix, pearson = _fit(train, dev, penalty)
        if pearson > best_pearson:
            best, best_pearson = matrix, pearson
    return best


def tune_on_stsb(encoder: SentenceEncoder, dataset: Mapping[str, Dataset]) -> np.ndarray:
    """Train the matrix on the train split of STS-B, and select it on dev.

    Raises:
        InputError: one of these splits is missing.
    """
    for split in ("train", "validation"):
        if split not in dataset:
            raise InputError(f"task stsb_tuned: STS-B has no {split} split, which tuning needs")
    return tune(_embed(encoder, dataset["train"]), _embed(encoder, dataset["validation"]))


def _embed(encoder: SentenceEncoder, pairs: Dataset) -> EmbeddedPairs:
    vectors = encode_pairs(encoder, pairs["sentence1"][:], pairs["sentence2"][:])
    return EmbeddedPairs(*vectors, np.asarray(pairs["score"], dtype=np.float32))


def _fit(train: EmbeddedPairs, dev: EmbeddedPairs, penalty: float) -> tuple[np.ndarray, float]:
    """The iteration of L-BFGS on `train` with the best Pearson's r on `dev`, and that r."""
    import torch
    from scipy.optimize import minimize
    from tqdm import tqdm

    size = train.first.shape[1]
    first, second, gold = (torch.from_numpy(array) for array in (train.first, train.second, train.gold))
    best, best_pearson, without_gain = np.eye(size, dtype=np.float32), -np.inf, 0

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        matrix = torch.tensor(flat.reshape(size, size), dtype=first.dtype, requires_grad=True)
        loss = objective((matrix + matrix.T) / 2, first, second, gold, penalty)
        (gradient,) = torch.autograd.grad(loss, matrix)
        return loss.item(), gradient.double().numpy().ravel()

    with tqdm(total=MAX_ITERATIONS, desc=f"STS matrix, penalty {penalty:g}", unit=" steps", delay=1) as bar:

        def evaluate_on_dev(intermediate_result: OptimizeResult) -> None:
            nonlocal best, best_pearson, without_gain
            matrix = intermediate_result.x.reshape(size, size).astype(np.float32)
            pearson = _pearson(matrix, dev)
            without_gain += 1
            if pearson > best_pearson:
                best, best_pearson, without_gain = matrix, pearson, 0
            bar.update()
            if without_gain >= PATIENCE:
                raise StopIteration

        start = np.eye(size).ravel()
        minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", callback=evaluate_on_dev,
                 options={"maxiter": MAX_ITERATIONS})  # fmt: skip
    return best, best_pearson


def _pearson(matrix: np.ndarray, pairs: EmbeddedPairs) -> float:
    from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation

    return sts_correlation(tuned_scores(matrix, pairs), pairs.gold)["pearson"]


# -- the evaluator ----------------------------------------------------------------------------------------------------


def _evaluate(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    matrix = tune_on_stsb(encoder, inputs.dataset)
    return {
        name: stsb.correlation_by_genre(tuned_scores(matrix, _embed(encoder, pairs)), pairs, inputs.intervals)
        for name, pairs in inputs.splits.items()
    }


EVALUATOR = Evaluator(
    name="stsb_tuned",
    dataset=stsb.EVALUATOR.dataset,
    data_help=stsb.EVALUATOR.data_help,
    evaluate=_evaluate,
    card=replace(
        stsb.EVALUATOR.card,
        metrics={name: f"{label}, tuned" for name, label in stsb.EVALUATOR.card.metrics.items()},
    ),
    runs_on_dev=False,  # takes a minute
)
