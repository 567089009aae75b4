"""Losses: pure functions of embeddings and scores."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor


class _AllGather(torch.autograd.Function):
    """Concatenation over processes whose gradient reaches every process's own rows."""

    @staticmethod
    def forward(ctx, rows: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        # Every process's loss depends on these rows: sum what all of them say, keep our own part. The mean over
        # processes that DistributedDataParallel takes afterwards makes it the gradient of the global mean.
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def gather_rows(rows: Tensor) -> Tensor:
    """Rows of all processes, in the order of their ranks: (rows, …) -> (world x rows, …); differentiable.

    Every process must bring the same number of rows. In a single process the rows come back as they are.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return rows
    return _AllGather.apply(rows)


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
