"""The Transformer encoder (Yang et al. 2018, section 2.3): Tensor2Tensor's base model, with pre-layer-norm and ReLU.

Layers read flat tokens (tokens, hidden_size), one sentence after the other, and only attention pads them: groups of
sentences, (sentences, width, hidden_size). A layout says how a batch is arranged: `FlatLayout` removes all padding and
sorts sentences by length; `PaddedLayout` keeps the batch as it is, so that no shape depends on the data.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from .modeling_base import ConvSimConfig, ConvSimEncoder, ConvSimForMultitask


@strict
class ConvSimTransformerConfig(ConvSimConfig):
    """Config of the Transformer encoder; see `ConvSimConfig` for the fields that all encoders share.

    Args:
        hidden_size: Dimensions of token vectors; even, and a multiple of `num_attention_heads`.
        num_hidden_layers: Number of layers.
        num_attention_heads: Attention heads per layer.
        intermediate_size: Units of each feed-forward network (Tensor2Tensor's filter size).
        hidden_dropout: Dropout, in [0, 1), after the timing signal, inside the feed-forward network and at the end of
            both parts of a layer. (The paper gives no value; 0.1 is Tensor2Tensor's.)
        attention_dropout: Dropout of the attention weights, in [0, 1).
        layer_norm_eps: Added to the variance in a layer norm.
    """

    model_type = "convsim_transformer"
    label: ClassVar[str] = "Transformer"

    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    layer_norm_eps: float | int = 1e-6

    def validate_transformer(self) -> None:
        """Requires sizes that are above zero and compatible, and dropouts that are probabilities."""
        self.require_positive("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        if self.hidden_size % 2 or self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}, expected an even multiple of num_attention_heads "
                f"{self.num_attention_heads}"
            )
        for name in ("hidden_dropout", "attention_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 0 and below 1")


def timing_signal(length: int, size: int, device: torch.device) -> Tensor:
    """Position signal (length, size), float32: concat[sin(p / t_i), cos(p / t_i)], t_i = 10000^(i / (size/2 - 1)).

    This is Tensor2Tensor's `get_timing_signal_1d`: sines in the first half, cosines in the second, not interleaved.
    """
    steps = torch.arange(size // 2, dtype=torch.float32, device=device)  # (size / 2,)
    rates = torch.exp(steps * (-math.log(10_000.0) / max(size // 2 - 1, 1)))
    angles = torch.arange(length, dtype=torch.float32, device=device).unsqueeze(1) * rates  # (length, size / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def attention_keys(mask: Tensor) -> Tensor:
    """The keys that may be attended to (sentences, 1, 1, width), from the mask of tokens (sentences, width).

    A softmax over no key at all is NaN, so a sentence without tokens attends to its padding, which is never read.
    """
    return (mask | ~mask.any(1, keepdim=True))[:, None, None, :]


@dataclass
class SentenceGroup:
    """Sentences that attention reads together, padded to the same width.

    Args:
        sentences: Number of sentences.
        width: Positions per sentence.
        tokens: Number of tokens in the group's flat form.
        indices: (tokens,) where each flat token is among the sentences * width positions; None if all hold a token.
        keys: (sentences, 1, 1, width), true at the keys that may be attended to; None if all may.
    """

    sentences: int
    width: int
    tokens: int
    indices: Tensor | None = None
    keys: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: Tensor, width: int) -> "SentenceGroup":
        """Groups sentences of the given lengths (sentences,), at most `width`."""
        mask = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)  # (sentences, width)
        indices = mask.flatten().nonzero().squeeze(1)
        return cls(len(lengths), width, len(indices), indices, attention_keys(mask))

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> "SentenceGroup":
        """Copies the group to a device; Accelerate calls this for layers that `device_map` puts on another one."""
        indices, keys = (
            None if tensor is None else tensor.to(device, non_blocking=non_blocking)
            for tensor in (self.indices, self.keys)
        )
        return replace(self, indices=indices, keys=keys)

    def pad(self, flat: Tensor) -> Tensor:
        """Pads (tokens, size) with zeros to (sentences, width, size)."""
        if self.indices is not None:
            flat = flat.new_zeros(self.sentences * self.width, flat.shape[1]).index_copy(0, self.indices, flat)
        return flat.view(self.sentences, self.width, flat.shape[1])

    def flatten(self, padded: Tensor) -> Tensor:
        """Removes the padding from (sentences, width, size): (tokens, size)."""
        flat = padded.flatten(0, 1)
        return flat if self.indices is None else flat.index_select(0, self.indices)


def group_step(device: torch.device) -> int:
    """The step of group widths: sentences whose lengths round up to the same multiple of it form one group.

    On a CPU only sentences of equal length are grouped, so that nothing is padded. On other devices, many small calls
    would cost more than some padding.
    """
    return 1 if device.type == "cpu" else 16


def group_by_length(lengths: Tensor) -> list[SentenceGroup]:
    """Groups of similar length, of sentences whose lengths (batch,) are ascending; empty sentences are in none."""
    step = group_step(lengths.device)
    widths, counts = torch.unique_consecutive((lengths + step - 1) // step * step, return_counts=True)
    groups, start = [], 0
    for width, count in zip(widths.tolist(), counts.tolist(), strict=True):
        if width and step == 1:
            groups.append(SentenceGroup(count, width, count * width))
        elif width:
            groups.append(SentenceGroup.from_lengths(lengths[start : start + count], width))
        start += count
    return groups


@dataclass
class FlatLayout:
    """A batch without padding, its sentences sorted by length.

    Args:
        lengths: (batch,) number of tokens of each sentence, in the batch's order.
        order: (batch,) the sentences' indices in the batch, in this layout's order.
        source: (tokens,) the index of each token among the batch's tokens.
        positions: (tokens,) the position of each token in its sentence.
        groups: What attention reads together.
        mask: (batch, width) of the padded batch that this was made of; None for a packed one.
    """

    lengths: Tensor
    order: Tensor
    source: Tensor
    positions: Tensor
    groups: list[SentenceGroup]
    mask: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: Tensor, one_group: bool = False, mask: Tensor | None = None) -> "FlatLayout":
        """Lays out sentences of the given lengths (batch,).

        Args:
            lengths: (batch,).
            one_group: Keep the sentences in their order and form one group of them.
            mask: (batch, width) of the padded batch that the sentences are from, if any.
        """
        order = torch.arange(len(lengths), device=lengths.device) if one_group else lengths.argsort(stable=True)
        sorted_lengths = lengths[order]
        total = int(sorted_lengths.sum())

        def per_token(values: Tensor) -> Tensor:
            """Repeats each sorted sentence's value (batch,) for its tokens: (tokens,)."""
            return torch.repeat_interleave(values, sorted_lengths, output_size=total)

        starts, sorted_starts = lengths.cumsum(0) - lengths, sorted_lengths.cumsum(0) - sorted_lengths
        positions = torch.arange(total, device=lengths.device) - per_token(sorted_starts)
        source = positions + per_token(starts[order])
        if one_group:
            groups = [SentenceGroup.from_lengths(lengths, max(lengths.tolist(), default=1) or 1)]
        else:
            groups = group_by_length(sorted_lengths)
        return cls(lengths, order, source, positions, groups, mask)

    @property
    def width(self) -> int:
        """Number of positions: the length of the longest sentence, at least 1."""
        return int(self.positions.max()) + 1 if len(self.positions) else 1

    def flatten(self, input_ids: Tensor) -> Tensor:
        """Arranges the ids of the batch, packed or padded: (tokens,)."""
        return (input_ids if self.mask is None else input_ids[self.mask])[self.source]

    def pad(self, flat: Tensor) -> Tensor:
        """Moves flat tokens (tokens, size) to their positions in the padded batch (batch, width, size), else zero."""
        mask = self.mask
        if mask is None:
            longest = torch.arange(max(self.lengths.tolist(), default=0), device=self.lengths.device)
            mask = self.lengths.unsqueeze(1) > longest
        indices = mask.flatten().nonzero().squeeze(1)[self.source]
        flat = flat.to(mask.device)  # with device_map, the last layer may be on another one
        padded = flat.new_zeros(mask.numel(), flat.shape[1]).index_copy(0, indices, flat)
        return padded.view(*mask.shape, flat.shape[1])

    def mean(self, flat: Tensor) -> Tensor:
        """Means over each sentence's tokens (tokens, size), in the batch's order: (batch, size)."""
        flat = flat.to(self.lengths.device)
        sums = torch.segment_reduce(flat, "sum", lengths=self.lengths[self.order], unsafe=True)
        return sums[self.order.argsort()] / self.lengths.clamp_min(1).unsqueeze(1).to(flat.dtype)


class PaddedLayout:
    """A padded batch as it is: no shape depends on the data, so that the model compiles and exports."""

    def __init__(self, mask: Tensor) -> None:
        batch, self.width = mask.shape
        self.mask = mask
        # Counted over real tokens, so that padding on the left does not shift them.
        self.positions = (mask.cumsum(1) - 1).clamp_min(0).flatten()  # (batch * width,)
        self.groups = [SentenceGroup(batch, self.width, batch * self.width, None, attention_keys(mask))]

    def flatten(self, input_ids: Tensor) -> Tensor:
        """Flattens ids (batch, width) to (batch * width,)."""
        return input_ids.flatten()

    def pad(self, flat: Tensor) -> Tensor:
        """Reshapes (batch * width, size) to (batch, width, size), zero at padding."""
        return self.groups[0].pad(flat).to(self.mask.device) * self.mask.unsqueeze(-1)

    def mean(self, flat: Tensor) -> Tensor:
        """Means over each sentence's tokens (batch * width, size): (batch, size)."""
        tokens = self.pad(flat)
        return tokens.sum(1) / self.mask.sum(1, keepdim=True).clamp_min(1).to(tokens.dtype)


class ConvSimTransformerAttention(nn.Module):
    """Multi-head self-attention whose projections have no biases, as in Tensor2Tensor."""

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(
        self, hidden: Tensor, groups: list[SentenceGroup], output_attentions: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Maps flat tokens (tokens, hidden_size) to the same shape.

        With `output_attentions`, for which there must be one group, it also returns the attention weights (sentences,
        heads, width, width).
        """
        contexts, weights = [], None
        parts = self.query_key_value(hidden).split([group.tokens for group in groups])  # (tokens, 3 * hidden_size) each
        for part, group in zip(parts, groups, strict=True):
            context, weights = self._attend(group.pad(part), group.keys, output_attentions)
            contexts.append(group.flatten(context.transpose(1, 2).flatten(2)))  # (tokens, hidden_size)
        return self.output(torch.cat(contexts) if contexts else hidden), weights

    def _attend(
        self, query_key_value: Tensor, keys: Tensor | None, output_attentions: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Contexts (sentences, heads, width, head_size) and, if requested or eager, the attention weights."""
        # (sentences, width, 3 * hidden_size) to three times (sentences, heads, width, head_size)
        query, key, value = query_key_value.unflatten(-1, (3, -1, self.head_size)).permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.config.attention_dropout if self.training else 0.0
        if not output_attentions and self.config._attn_implementation != "eager":
            return F.scaled_dot_product_attention(query, key, value, keys, dropout), None
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_size)  # (sentences, heads, width, width)
        if keys is not None:
            scores = scores.masked_fill(~keys, float("-inf"))
        weights = scores.softmax(-1)
        return F.dropout(weights, dropout) @ value, weights


class ConvSimTransformerLayer(GradientCheckpointingLayer):
    """Self-attention, then a ReLU network, each with a layer norm before it and a residual connection around it."""

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = ConvSimTransformerAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(
        self, hidden: Tensor, groups: list[SentenceGroup], output_attentions: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Maps flat tokens (tokens, hidden_size) to the same shape; returns the attention weights if requested."""
        context, weights = self.attention(self.attention_norm(hidden), groups, output_attentions)
        hidden = hidden + self.dropout(context)
        units = self.dropout(F.relu(self.intermediate(self.feed_forward_norm(hidden))))  # (tokens, intermediate_size)
        return hidden + self.dropout(self.output(units)), weights


class ConvSimTransformerModel(ConvSimEncoder):
    """Token embeddings plus timing signal, attention layers, a layer norm, the mean over tokens, and a linear layer."""

    config: ConvSimTransformerConfig
    pads_batches: ClassVar[bool] = True
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["ConvSimTransformerLayer"]  # noqa: RUF012

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.layers = nn.ModuleList(ConvSimTransformerLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.projection = nn.Linear(config.hidden_size, config.embedding_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`.

        `hidden_states` holds the token embeddings and every layer's output (batch, tokens, hidden_size), zero at
        padding, the last one after the layer norm. `attentions` holds every layer's weights (batch, heads, tokens,
        tokens); requesting them rules out fast attention kernels. For packed input, `tokens` is the length of the
        longest sentence.
        """
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        flat_ids, layout = self._lay_out(input_ids, attention_mask, cu_seqlens, output_attentions)
        hidden = self._embed(flat_ids, layout.positions, layout.width)  # (tokens, hidden_size)
        hidden_states, attentions = [], []
        for layer in self.layers:
            if output_hidden_states:
                hidden_states.append(layout.pad(hidden))
            hidden, weights = layer(hidden, layout.groups, output_attentions)
            attentions.append(weights)
        hidden = self.norm(hidden)
        last_hidden_state = layout.pad(hidden) if cu_seqlens is None or output_hidden_states else None
        return self.build_output(
            self.projection(layout.mean(hidden)),
            last_hidden_state=last_hidden_state if cu_seqlens is None else None,
            hidden_states=(*hidden_states, last_hidden_state) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )

    def _lay_out(
        self, input_ids: Tensor, attention_mask: Tensor | None, cu_seqlens: Tensor | None, output_attentions: bool
    ) -> tuple[Tensor, FlatLayout | PaddedLayout]:
        """Chooses the layout of a batch, and arranges its ids accordingly."""
        layout: FlatLayout | PaddedLayout
        if cu_seqlens is not None:
            input_ids, cu_seqlens = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            layout = FlatLayout.from_lengths(cu_seqlens.diff(), one_group=output_attentions)
        else:
            input_ids, mask = self.prepare_padded(input_ids, attention_mask)
            if torch.compiler.is_compiling() or output_attentions:  # attentions are for the positions of the input
                layout = PaddedLayout(mask)
            else:
                layout = FlatLayout.from_lengths(mask.sum(1), mask=mask)
        return layout.flatten(input_ids), layout

    def _embed(self, flat_ids: Tensor, positions: Tensor, width: int) -> Tensor:
        """Embeds flat ids at positions below `width`, both (tokens,), for the first layer: (tokens, hidden_size)."""
        signal = timing_signal(width, self.config.hidden_size, flat_ids.device)[positions]
        embeddings = self.embed_tokens(flat_ids) * math.sqrt(self.config.hidden_size)
        return self.dropout(embeddings + signal.to(embeddings.dtype))


class ConvSimTransformerForMultitask(ConvSimForMultitask):
    """The Transformer encoder with the response network and the NLI classifier."""

    config: ConvSimTransformerConfig
    encoder_class = ConvSimTransformerModel
    supports_gradient_checkpointing = True
    _supports_sdpa = True
