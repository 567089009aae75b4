"""The Transformer encoder (Yang et al. 2018, section 2.3), built as Tensor2Tensor's base: pre-layer-norm and ReLU."""

import math
from dataclasses import dataclass, replace

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
    """Config of the Transformer encoder; see `ConvSimConfig` for the fields all encoders have.

    Args:
        hidden_size: Numbers per token; even, and a multiple of `num_attention_heads`.
        num_hidden_layers: Attention layers.
        num_attention_heads: Heads of each.
        intermediate_size: Units of each feed-forward network (Tensor2Tensor's filter size).
        hidden_dropout: Dropout in [0, 1) after the timing signal, inside the feed-forward network and at the end of
            both parts of a layer. (The paper is silent: Tensor2Tensor's 0.1.)
        attention_dropout: Dropout in [0, 1) of the attention weights.
        layer_norm_eps: Added to the variance in a layer norm.
    """

    model_type = "convsim_transformer"

    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    layer_norm_eps: float | int = 1e-6

    def validate_transformer(self) -> None:
        """Sizes are above zero and fit one another; dropouts are probabilities."""
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

    Tensor2Tensor's `get_timing_signal_1d`: sines in the first half, cosines in the second, not interleaved.
    """
    steps = torch.arange(size // 2, dtype=torch.float32, device=device)
    rates = torch.exp(steps * (-math.log(10_000.0) / max(size // 2 - 1, 1)))
    angles = torch.arange(length, dtype=torch.float32, device=device).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@dataclass
class SentenceGroup:
    """Sentences that attention reads together, as (sentences, width) places; elsewhere their tokens are flat.

    Args:
        sentences: How many.
        width: Places of each.
        tokens: How many places hold a token.
        places: (tokens,) which, of the flattened ones; None where all do, and nothing has to be padded.
        mask: (sentences, 1, 1, width), true at the keys that may be attended to; None where all may.
    """

    sentences: int
    width: int
    tokens: int
    places: Tensor | None = None
    mask: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: Tensor, width: int) -> "SentenceGroup":
        """Sentences of these lengths (sentences,), none of them longer than `width`."""
        kept = torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)
        places = kept.flatten().nonzero().squeeze(1)
        # A softmax over no key at all is not a number: a text without tokens attends to its own padding, unread.
        mask = (kept | ~kept.any(1, keepdim=True))[:, None, None, :]
        return cls(len(lengths), width, len(places), places, mask)

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> "SentenceGroup":
        """The same on a device; Accelerate calls it for layers that `device_map` puts on another one."""
        places, mask = (
            None if each is None else each.to(device, non_blocking=non_blocking) for each in (self.places, self.mask)
        )
        return replace(self, places=places, mask=mask)

    def pad(self, flat: Tensor) -> Tensor:
        """(tokens, size) to (sentences, width, size), zeros where there is no token."""
        if self.places is not None:
            flat = flat.new_zeros(self.sentences * self.width, flat.shape[1]).index_copy(0, self.places, flat)
        return flat.view(self.sentences, self.width, flat.shape[1])

    def flatten(self, padded: Tensor) -> Tensor:
        """(sentences, width, size) to (tokens, size)."""
        flat = padded.flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)


def group_step(device: torch.device) -> int:
    """Sentences whose lengths round up to the same multiple of this are one group.

    On a CPU only those of equal length, so that nothing is padded; elsewhere many small calls would cost more.
    """
    return 1 if device.type == "cpu" else 16


@dataclass
class TokenLayout:
    """The flat tokens of a batch: its sentences one after the other, the shortest first.

    Args:
        source: (tokens,) where each token stood among the batch's tokens in their own order.
        positions: (tokens,) each token's place in its sentence.
        lengths: (batch,) of the sentences in this order.
        order: (batch,) the sentences' numbers in this order.
        groups: What attention reads together, in this order.
    """

    source: Tensor
    positions: Tensor
    lengths: Tensor
    order: Tensor
    groups: list[SentenceGroup]

    @classmethod
    def from_lengths(cls, lengths: Tensor, in_one_group: bool) -> "TokenLayout":
        """Sentences of these lengths (batch,), in groups of like length unless all are to be in one, of their order."""
        starts = lengths.cumsum(0) - lengths
        order = torch.arange(len(lengths), device=lengths.device) if in_one_group else lengths.argsort(stable=True)
        lengths = lengths[order]
        total = int(lengths.sum())
        ends = lengths.cumsum(0)
        positions = torch.arange(total, device=lengths.device)
        positions = positions - torch.repeat_interleave(ends - lengths, lengths, output_size=total)
        source = positions + torch.repeat_interleave(starts[order], lengths, output_size=total)
        if in_one_group:
            groups = [SentenceGroup.from_lengths(lengths, max(int(lengths.max()), 1))]
        else:
            groups = cls._groups_of_like_length(lengths)
        return cls(source, positions, lengths, order, groups)

    @staticmethod
    def _groups_of_like_length(lengths: Tensor) -> list[SentenceGroup]:
        step = group_step(lengths.device)
        widths, counts = torch.unique_consecutive((lengths + step - 1) // step * step, return_counts=True)
        groups, first = [], 0
        for width, count in zip(widths.tolist(), counts.tolist(), strict=True):
            if width and step == 1:
                groups.append(SentenceGroup(count, width, count * width))
            elif width:
                groups.append(SentenceGroup.from_lengths(lengths[first : first + count], width))
            first += count
        return groups

    def sums(self, flat: Tensor) -> Tensor:
        """(tokens, size) to its sums by sentence (batch, size), in the batch's own order."""
        return torch.segment_reduce(flat, "sum", lengths=self.lengths, unsafe=True)[self.order.argsort()]


class ConvSimTransformerAttention(nn.Module):
    """Multi-head self-attention, its projections without biases, as Tensor2Tensor has them."""

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(
        self, hidden: Tensor, groups: list[SentenceGroup], output_attentions: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Flat tokens (tokens, hidden_size) to the same; weights (batch, heads, width, width) of one group if asked."""
        contexts, weights = [], None
        parts = self.query_key_value(hidden).split([group.tokens for group in groups])
        for part, group in zip(parts, groups, strict=True):
            context, weights = self._attend(group.pad(part), group.mask, output_attentions)
            contexts.append(group.flatten(context.transpose(1, 2).flatten(2)))
        return self.output(torch.cat(contexts) if contexts else hidden), weights

    def _attend(
        self, query_key_value: Tensor, mask: Tensor | None, output_attentions: bool
    ) -> tuple[Tensor, Tensor | None]:
        query, key, value = query_key_value.unflatten(-1, (3, -1, self.head_size)).permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.config.attention_dropout if self.training else 0.0
        if not output_attentions and self.config._attn_implementation != "eager":
            return F.scaled_dot_product_attention(query, key, value, mask, dropout), None
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_size)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(-1)
        return F.dropout(weights, dropout) @ value, weights


class ConvSimTransformerLayer(GradientCheckpointingLayer):
    """Self-attention, then a ReLU network, each normalised before and added to its input after."""

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
        """Flat tokens (tokens, hidden_size) to the same, and the attention weights if asked."""
        context, weights = self.attention(self.attention_norm(hidden), groups, output_attentions)
        hidden = hidden + self.dropout(context)
        units = self.dropout(F.relu(self.intermediate(self.feed_forward_norm(hidden))))
        return hidden + self.dropout(self.output(units)), weights


class ConvSimTransformerModel(ConvSimEncoder):
    """Embeddings plus timing signal, attention layers, a final norm, the mean over tokens, a linear layer."""

    config: ConvSimTransformerConfig
    pads_batches = True
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

        On request `hidden_states` are the embeddings and every layer's output (batch, tokens, hidden_size), zero at
        padding, the last one normalised, and `attentions` every layer's weights (batch, heads, tokens, tokens), which
        rules the fast attention kernels out. For packed input, tokens is the length of the longest sentence.
        """
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        mask = None
        if cu_seqlens is not None:
            flat_ids = self.check_packed(input_ids, attention_mask)
            lengths = cu_seqlens.diff()
        else:
            input_ids, mask = self.check_padded(input_ids, attention_mask)
            if torch.compiler.is_compiling() or output_attentions:  # weights for the places as they are
                return self._forward_padded(input_ids, mask, bool(output_hidden_states), bool(output_attentions))
            flat_ids, lengths = input_ids[mask], mask.sum(1)
        layout = TokenLayout.from_lengths(lengths, in_one_group=output_attentions)

        def pad(flat: Tensor) -> Tensor:
            """Flat tokens (tokens, hidden_size) where their ids stood (batch, tokens, hidden_size), zeros elsewhere."""
            places = lengths.unsqueeze(1) > torch.arange(int(lengths.max()), device=lengths.device)
            places = places if mask is None else mask
            where = places.flatten().nonzero().squeeze(1)[layout.source]
            flat = flat.to(places.device)  # from that of a layer elsewhere
            padded = flat.new_zeros(places.numel(), flat.shape[1]).index_copy(0, where, flat)
            return padded.view(*places.shape, flat.shape[1])

        hidden = self._embed(flat_ids[layout.source], layout.positions)
        hidden_states, attentions = [], []
        for layer in self.layers:
            if output_hidden_states:
                hidden_states.append(pad(hidden))
            hidden, weights = layer(hidden, layout.groups, output_attentions)
            attentions.append(weights)
        hidden = self.norm(hidden).to(lengths.device)
        means = layout.sums(hidden) / lengths.clamp_min(1).unsqueeze(1).to(hidden.dtype)
        last_hidden_state = pad(hidden) if mask is not None or output_hidden_states else None
        return self.build_output(
            self.projection(means),
            last_hidden_state=last_hidden_state if cu_seqlens is None else None,
            hidden_states=(*hidden_states, last_hidden_state) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )

    def _forward_padded(
        self, input_ids: Tensor, mask: Tensor, output_hidden_states: bool, output_attentions: bool
    ) -> BaseModelOutputWithPooling:
        """The same with no shape that depends on the data, padding and all, so that it compiles and exports."""
        batch, width = input_ids.shape
        keys = (mask | ~mask.any(1, keepdim=True))[:, None, None, :]
        group = SentenceGroup(batch, width, batch * width, None, keys)
        # Counted over real tokens, so that padding on the left does not shift them.
        positions = (mask.cumsum(1) - 1).clamp_min(0)
        hidden = self._embed(input_ids.flatten(), positions.flatten(), width)
        hidden_states, attentions = [], []
        for layer in self.layers:
            hidden_states.append(hidden)
            hidden, weights = layer(hidden, [group], output_attentions)
            attentions.append(weights)
        hidden_states.append(self.norm(hidden))
        hidden_states = [group.pad(states).to(mask.device) * mask.unsqueeze(-1) for states in hidden_states]
        counts = mask.sum(1, keepdim=True).clamp_min(1).to(hidden_states[-1].dtype)
        return self.build_output(
            self.projection(hidden_states[-1].sum(1) / counts),
            last_hidden_state=hidden_states[-1],
            hidden_states=tuple(hidden_states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )

    def _embed(self, flat_ids: Tensor, positions: Tensor, width: int | None = None) -> Tensor:
        """Flat ids (tokens,) at their positions, below `width`, to the first layer's input (tokens, hidden_size)."""
        if width is None:
            width = int(positions.max()) + 1 if len(positions) else 1
        signal = timing_signal(width, self.config.hidden_size, flat_ids.device)[positions]
        embeddings = self.embed_tokens(flat_ids) * math.sqrt(self.config.hidden_size)
        return self.dropout(embeddings + signal.to(embeddings.dtype))


class ConvSimTransformerForMultitask(ConvSimForMultitask):
    """The Transformer encoder with the response network and the inference classifier."""

    config: ConvSimTransformerConfig
    encoder_class = ConvSimTransformerModel
    supports_gradient_checkpointing = True
    _supports_sdpa = True
