"""Losses, as pure functions of embeddings and scores."""

import torch
import torch.nn.functional as F
from torch import Tensor


def in_batch_softmax(
    scores: Tensor,
    targets: Tensor,
    mask: Tensor | None = None,
    teacher_scores: Tensor | None = None,
    teacher_share: float = 0.0,
) -> Tensor:
    """InfoNCE, the mean negative log-likelihood of the true response (Yang et al., 2018, section 2.2).

    A share of it may be replaced by the divergence from a teacher's scores (Hinton et al., 2015).

    Args:
        scores: (batch, candidates) score of each candidate response for each input, multiplied by the model's scale.
        targets: (batch,) index of the true response.
        mask: (batch, candidates) true for candidates to ignore. A teacher scores them, too.
        teacher_scores: (batch, candidates) the teacher's score of each candidate.
        teacher_share: the share of `score_divergence` in the loss, from 0 to 1.
    """
    masked = scores if mask is None else scores.masked_fill(mask, float("-inf"))
    loss = F.cross_entropy(masked.float(), targets)
    if teacher_scores is None:
        return loss
    return (1 - teacher_share) * loss + teacher_share * score_divergence(scores, teacher_scores)


def neighbor_cross_entropy(scores: Tensor, is_neighbor: Tensor, is_candidate: Tensor) -> Tensor:
    """Mean cross-entropy of the softmax over each sentence's candidates; the target is uniform over its neighbors.

    Kenter et al. (2016), section 2.1, equation 1.

    Args:
        scores: (batch, candidates) scaled cosine of a sentence with each candidate.
        is_neighbor: (batch, candidates) boolean, true at least once in every row.
        is_candidate: (batch, candidates) boolean; false entries are ignored.
    """
    log_probabilities = scores.float().masked_fill(~is_candidate, float("-inf")).log_softmax(dim=1)
    shares = is_neighbor / is_neighbor.sum(dim=1, keepdim=True)
    return -(shares * log_probabilities.masked_fill(~is_neighbor, 0.0)).sum(dim=1).mean()


def similarity_divergence(cosines: Tensor, teacher_cosines: Tensor, scale: float, first: int = 0) -> Tensor:
    """Mean over texts of the KL divergence of softmax(scale cosines) from softmax(scale teacher_cosines).

    Args:
        cosines: (texts, candidates) cosine of each text with each candidate; the text itself is ignored.
        teacher_cosines: (texts, candidates) cosines of the teacher's embeddings.
        scale: inverse temperature of both distributions.
        first: index of the first text among the candidates; the other texts follow it.
    """
    diagonal = torch.ones_like(cosines, dtype=torch.bool).triu(first).tril(first)
    scores, target = ((scale * values).float().masked_fill(diagonal, -1e4) for values in (cosines, teacher_cosines))
    return score_divergence(scores, target)


def score_divergence(scores: Tensor, teacher_scores: Tensor) -> Tensor:
    """Mean over rows of the KL divergence of softmax(scores) from softmax(teacher_scores) (Hinton et al., 2015).

    Args:
        scores: (batch, candidates) score of each candidate.
        teacher_scores: (batch, candidates) the teacher's score of each candidate.
    """
    log_probabilities, target = scores.float().log_softmax(dim=1), teacher_scores.float().log_softmax(dim=1)
    return F.kl_div(log_probabilities, target, reduction="batchmean", log_target=True)


def accuracy(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the share of rows whose target (batch,) has the highest of the scores (batch, candidates)."""
    return (scores.detach().argmax(dim=1) == targets).float().mean()
