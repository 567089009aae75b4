"""How a Transformer arranges a batch: timing signal, groups of sentences, and layouts with and without padding.

`FlatLayout` removes all padding and sorts sentences by length: (tokens, size), one sentence after the other.
`PaddedLayout` keeps the batch as it is, (batch, tokens, size), so that no shape depends on the data and hidden states
and attention weights have the shapes of the input. In both, attention reads groups of sentences of one width; or one
group without padding, all sentences of a flat batch, which torch's kernel for GPUs takes.
"""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from .modeling_base import copy_to


def timing_signal(length: int, size: int, device: torch.device) -> Tensor:
    """Position signal (length, size), float32: concat[sin(p / t_i), cos(p / t_i)], t_i = 10000^(i / (size/2 - 1)).

    This is Tensor2Tensor's `get_timing_signal_1d`: sines in the first half, cosines in the second, not interleaved.
    """
    steps = torch.arange(size // 2, dtype=torch.float32, device=device)  # (size / 2,)
    rates = torch.exp(steps * (-math.log(10_000.0) / max(size // 2 - 1, 1)))
    angles = torch.arange(length, dtype=torch.float32, device=device).unsqueeze(1) * rates  # (length, size / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@dataclass
class SentenceGroup:
    """Sentences that attention reads together, of the same width.

    Args:
        sentences: Number of sentences.
        width: Positions per sentence.
        keys: (sentences, 1, 1, width), true at the keys that may be attended to; None if all may.
        starts: (all sentences + 1,) int32, where each sentence starts among the tokens of a group of sentences of any
            lengths, which counts as one sentence; None for other groups.
        longest: Tokens of the longest sentence of such a group.
    """

    sentences: int
    width: int
    keys: Tensor | None = None
    starts: Tensor | None = None
    longest: int = 0

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> "SentenceGroup":
        """Copies the group to a device; Accelerate calls it for layers that `device_map` puts on another one."""
        keys, starts = (
            None if tensor is None else copy_to(tensor, torch.device(device)) for tensor in (self.keys, self.starts)
        )
        return replace(self, keys=keys, starts=starts)


@dataclass
class FlatLayout:
    """A batch without padding, its sentences sorted by length.

    Args:
        counts: (batch,) number of tokens of each sentence, in the batch's order.
        order: (batch,) the sentences' indices in the batch, in this layout's order.
        source: (tokens,) the index of each token among the batch's tokens.
        positions: (tokens,) the position of each token in its sentence.
        groups: What attention reads together.
        width: Number of positions: the length of the longest sentence, at least 1.
        mask: (batch, width) of the padded batch that this was made of; None for a packed one.
    """

    counts: Tensor
    order: Tensor
    source: Tensor
    positions: Tensor
    groups: list[SentenceGroup]
    width: int
    mask: Tensor | None = None

    @classmethod
    def from_lengths(
        cls, lengths: Tensor, device: torch.device, mask: Tensor | None = None, without_padding: bool = False
    ) -> "FlatLayout":
        """Lays out sentences for a device.

        Args:
            lengths: (batch,) number of tokens of each sentence; if they are on a CPU, nothing waits for a GPU.
            device: that of the tokens.
            mask: (batch, width) of the padded batch, if it is one.
            without_padding: attention reads all sentences as one group.
        """
        order = lengths.argsort(stable=True)
        sorted_lengths = lengths[order]
        total = int(sorted_lengths.sum())

        def per_token(values: Tensor) -> Tensor:
            """Repeats each sorted sentence's value (batch,) for its tokens: (tokens,)."""
            return torch.repeat_interleave(values, sorted_lengths, output_size=total)

        starts, sorted_starts = lengths.cumsum(0) - lengths, sorted_lengths.cumsum(0) - sorted_lengths
        positions = torch.arange(total, device=lengths.device) - per_token(sorted_starts)
        source = positions + per_token(starts[order])
        if without_padding and total:
            group_starts = F.pad(sorted_lengths[sorted_lengths > 0].cumsum(0), (1, 0)).int()
            groups = [SentenceGroup(1, total, starts=group_starts, longest=int(sorted_lengths[-1]))]
        else:  # groups of equal length; empty sentences are in none
            widths, counts = torch.unique_consecutive(sorted_lengths, return_counts=True)
            pairs = zip(counts.tolist(), widths.tolist(), strict=True)
            groups = [SentenceGroup(count, width) for count, width in pairs if width]
        width = int(sorted_lengths[-1]) if total else 1
        lengths, order, source, positions = (copy_to(part, device) for part in (lengths, order, source, positions))
        return cls(lengths, order, source, positions, [group.to(device) for group in groups], width, mask)

    def arrange(self, values: Tensor) -> Tensor:
        """Arranges ids or embeddings, packed (total_tokens, …) or padded (batch, width, …): (tokens, …)."""
        return (values if self.mask is None else values[self.mask])[self.source]

    def pad(self, flat: Tensor) -> Tensor | None:
        """Moves flat tokens (tokens, size) to their positions in the padded batch (batch, width, size), else zero.

        None for a packed batch.
        """
        if self.mask is None:
            return None
        indices = self.mask.flatten().nonzero().squeeze(1)[self.source]
        flat = flat.to(self.mask.device)  # with device_map, the last layer may be on another one
        padded = flat.new_zeros(self.mask.numel(), flat.shape[1]).index_copy(0, indices, flat)
        return padded.view(*self.mask.shape, flat.shape[1])

    def sum(self, flat: Tensor) -> Tensor:
        """Sums over each sentence's tokens (tokens, size), in the batch's order: (batch, size)."""
        flat = flat.to(self.counts.device)
        sums = torch.segment_reduce(flat, "sum", lengths=self.counts[self.order], unsafe=True)
        return sums[self.order.argsort()]

    def sum_rows(self, rows: Tensor, indices: Tensor) -> Tensor:
        """As `sum`, of the rows (rows, size) that `indices` (tokens,) assign to the tokens."""
        sorted_lengths = self.counts[self.order]
        sums = F.embedding_bag(indices, rows, sorted_lengths.cumsum(0) - sorted_lengths, mode="sum")
        return sums[self.order.argsort()]


class PaddedLayout:
    """A padded batch as it is: no shape depends on the data, so that the model compiles and exports."""

    def __init__(self, mask: Tensor) -> None:
        batch, self.width = mask.shape
        self.mask = mask
        # Counted over real tokens, so that padding on the left does not shift them.
        self.positions = (mask.cumsum(1) - 1).clamp_min(0)  # (batch, width)
        # A softmax over no key at all is NaN, so a sentence without tokens attends to its padding, which is never read.
        keys = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        self.groups = [SentenceGroup(batch, self.width, keys)]
        self.counts = mask.sum(1)  # tokens of each sentence, (batch,)

    def arrange(self, values: Tensor) -> Tensor:
        """Keeps ids or embeddings (batch, width, …) as they are."""
        return values

    def pad(self, tokens: Tensor) -> Tensor:
        """Sets tokens (batch, width, size) to zero at padding."""
        return tokens.to(self.mask.device) * self.mask.unsqueeze(-1)

    def sum(self, tokens: Tensor) -> Tensor:
        """Sums over each sentence's tokens (batch, width, size): (batch, size)."""
        return self.pad(tokens).sum(1)
