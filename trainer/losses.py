"""Losses: pure functions of embeddings and scores."""

import torch
import torch.nn.functional as F
from torch import Tensor


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
