"""Losses: pure functions of embeddings and scores."""

import torch
import torch.nn.functional as F
from torch import Tensor

from modeling_convsim.modeling_base import normalize


def false_negatives(
    input_keys: Tensor, response_keys: Tensor, all_input_keys: Tensor, all_response_keys: Tensor, targets: Tensor
) -> Tensor:
    """Which candidates are no true negatives: the same response again, or another reply to the same input.

    Args:
        input_keys: (rows,) a number that identifies the text of each input.
        response_keys: (rows,) the same for the true response of each input.
        all_input_keys: (candidates,) inputs that the candidate responses answered.
        all_response_keys: (candidates,) the candidate responses.
        targets: (rows,) index of the true response among the candidates.

    Returns:
        (rows, candidates) boolean; never true for the true response itself.
    """
    mask = (response_keys[:, None] == all_response_keys) | (input_keys[:, None] == all_input_keys)
    mask[torch.arange(len(targets), device=mask.device), targets] = False
    return mask


def truncate(vectors: Tensor, size: int | None, keep_length: bool = True) -> Tensor:
    """The first `size` numbers of vectors (rows, numbers), a smaller embedding (Kusupati et al., 2022, section 3).

    Args:
        vectors: (rows, numbers).
        size: how many numbers are left; None leaves the vectors as they are.
        keep_length: stretch what is left to the length that the vector had: one where that was one, the learned scale
            where that was the scale. Without, what is left is left as it is, for vectors whose lengths carry meaning.
    """
    if size is None:
        return vectors
    first = vectors[:, :size]
    return normalize(first) * torch.linalg.vector_norm(vectors, dim=1, keepdim=True) if keep_length else first


def in_batch_softmax(scores: Tensor, targets: Tensor, masked: Tensor | None = None) -> Tensor:
    """Mean negative log-likelihood of the true response among all candidates (Yang et al., 2018, section 2.2).

    Args:
        scores: (rows, candidates) score of each input for each candidate response.
        targets: (rows,) index of the true response.
        masked: (rows, candidates) candidates that do not count.
    """
    if masked is not None:
        scores = scores.masked_fill(masked, float("-inf"))
    return F.cross_entropy(scores.float(), targets)


def neighbour_cross_entropy(scores: Tensor, is_neighbour: Tensor, is_candidate: Tensor) -> Tensor:
    """Mean cross-entropy of the softmax over each row's candidates, its neighbours sharing a target of one equally.

    Kenter et al. (2016), section 2.1, equation 1.

    Args:
        scores: (rows, candidates) cosine of a sentence with each candidate.
        is_neighbour: (rows, candidates) boolean; true for one at least in every row.
        is_candidate: (rows, candidates) boolean; what is false does not count.
    """
    log_probabilities = scores.float().masked_fill(~is_candidate, float("-inf")).log_softmax(dim=1)
    shares = is_neighbour / is_neighbour.sum(dim=1, keepdim=True)
    return -(shares * log_probabilities.masked_fill(~is_neighbour, 0.0)).sum(dim=1).mean()


def cosine_ranking(cosines: Tensor, scores: Tensor, scale: float) -> Tensor:
    """log(1 + sum of exp(scale (c_i - c_j)) over pairs i judged less alike than j): CoSENT (Su, 2022).

    Args:
        cosines: (pairs,) similarity of each pair's embeddings.
        scores: (pairs,) how alike each pair was judged.
        scale: what a difference of cosines is multiplied by.
    """
    differences = scale * (cosines[:, None] - cosines).float()
    differences = differences.masked_fill(~(scores[:, None] < scores), float("-inf")).flatten()
    return torch.logsumexp(torch.cat([differences.new_zeros(1), differences]), dim=0)


def similarity_divergence(cosines: Tensor, wanted: Tensor, scale: float) -> Tensor:
    """Mean Kullback-Leibler divergence, for each text, of softmax(scale cosines) from softmax(scale wanted).

    Args:
        cosines: (texts, texts) of the texts with each other; a text's with itself does not count.
        wanted: (texts, texts) the teacher's cosines.
        scale: inverse temperature of both.
    """
    itself = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    given = (scale * cosines).float().masked_fill(itself, -1e4).log_softmax(dim=1)
    target = (scale * wanted).float().masked_fill(itself, -1e4).log_softmax(dim=1)
    return F.kl_div(given, target, reduction="batchmean", log_target=True)
