"""The Transformer encoder (Yang et al. 2018, section 2.3): Tensor2Tensor's base model, with pre-layer-norm and ReLU.

Layers read flat tokens (tokens, hidden_size), one sentence after the other, and only attention pads them: groups of
sentences, (sentences, width, hidden_size). A layout says how a batch is arranged: `FlatLayout` removes all padding and
sorts sentences by length; `PaddedLayout` keeps the batch as it is, (batch, tokens, hidden_size), so that no shape
depends on the data and hidden states and attention weights have the shapes of the input.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs
from transformers.utils.output_capturing import capture_outputs

from .modeling_base import ConvSimConfig, ConvSimEncoder
from .modeling_heads import ConvSimForMultitask, ConvSimForSequenceClassification


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
        """Pads flat tokens (tokens, size) with zeros to (sentences, width, size)."""
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
    def from_lengths(cls, lengths: Tensor, mask: Tensor | None = None) -> "FlatLayout":
        """Lays out sentences of the given lengths (batch,), of the padded batch with `mask` (batch, width), if any."""
        order = lengths.argsort(stable=True)
        sorted_lengths = lengths[order]
        total = int(sorted_lengths.sum())

        def per_token(values: Tensor) -> Tensor:
            """Repeats each sorted sentence's value (batch,) for its tokens: (tokens,)."""
            return torch.repeat_interleave(values, sorted_lengths, output_size=total)

        starts, sorted_starts = lengths.cumsum(0) - lengths, sorted_lengths.cumsum(0) - sorted_lengths
        positions = torch.arange(total, device=lengths.device) - per_token(sorted_starts)
        source = positions + per_token(starts[order])
        groups = group_by_length(sorted_lengths)
        return cls(lengths, order, source, positions, groups, mask)

    @property
    def width(self) -> int:
        """Number of positions: the length of the longest sentence, at least 1."""
        return int(self.positions.max()) + 1 if len(self.positions) else 1

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
        self.positions = (mask.cumsum(1) - 1).clamp_min(0)  # (batch, width)
        self.groups = [SentenceGroup(batch, self.width, batch * self.width, None, attention_keys(mask))]

    def arrange(self, values: Tensor) -> Tensor:
        """Keeps ids or embeddings (batch, width, …) as they are."""
        return values

    def pad(self, tokens: Tensor) -> Tensor:
        """Sets tokens (batch, width, size) to zero at padding."""
        return tokens.to(self.mask.device) * self.mask.unsqueeze(-1)

    def mean(self, tokens: Tensor) -> Tensor:
        """Means over each sentence's tokens (batch, width, size): (batch, size)."""
        tokens = self.pad(tokens)
        return tokens.sum(1) / self.mask.sum(1, keepdim=True).clamp_min(1).to(tokens.dtype)


def eager_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """The attention of `attn_implementation="eager"`, which returns the weights.

    Args:
        module: the attention layer.
        query, key, value: (sentences, heads, width, head_size).
        attention_mask: (sentences, 1, 1, width), true at the keys that may be attended to; None if all may.
        scaling: factor of the scores.
        dropout: probability that a weight is left out.
        **kwargs: ignored.

    Returns:
        Contexts (sentences, width, heads, head_size) and weights (sentences, heads, width, width).
    """
    scores = query @ key.transpose(-1, -2) * scaling
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, float("-inf"))
    weights = scores.softmax(-1)
    return (F.dropout(weights, dropout) @ value).transpose(1, 2).contiguous(), weights


class ConvSimTransformerAttention(nn.Module):
    """Multi-head self-attention whose projections have no biases, as in Tensor2Tensor."""

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.is_causal = False
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(
        self, hidden: Tensor, groups: list[SentenceGroup], **kwargs: Unpack[TransformersKwargs]
    ) -> tuple[Tensor, Tensor | None]:
        """Maps tokens (…, hidden_size) to the same shape.

        Also returns the attention weights (sentences, heads, width, width) of the last group, if they are computed: by
        eager attention, which `output_attentions` selects.
        """
        # Kernels other than eager attention return no weights.
        eager = kwargs.get("output_attentions") or self.config.output_attentions
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            "eager" if eager else self.config._attn_implementation, eager_attention_forward
        )
        contexts, weights = [], None
        flat = self.query_key_value(hidden).flatten(0, -2)  # (tokens, 3 * hidden_size)
        for part, group in zip(flat.split([group.tokens for group in groups]), groups, strict=True):
            # (sentences, width, 3 * hidden_size) to three times (sentences, heads, width, head_size)
            query, key, value = group.pad(part).unflatten(-1, (3, -1, self.head_size)).permute(2, 0, 3, 1, 4).unbind(0)
            context, weights = attend(
                self, query, key, value, group.keys, scaling=self.head_size**-0.5,
                dropout=self.config.attention_dropout if self.training else 0.0,
            )  # fmt: skip
            contexts.append(group.flatten(context.flatten(2)))  # (tokens, hidden_size)
        return self.output(torch.cat(contexts).view_as(hidden) if contexts else hidden), weights


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

    def forward(self, hidden: Tensor, groups: list[SentenceGroup], **kwargs: Unpack[TransformersKwargs]) -> Tensor:
        """Maps tokens (…, hidden_size) to the same shape."""
        context, _ = self.attention(self.attention_norm(hidden), groups, **kwargs)
        hidden = hidden + self.dropout(context)
        units = self.dropout(F.relu(self.intermediate(self.feed_forward_norm(hidden))))  # (tokens, intermediate_size)
        return hidden + self.dropout(self.output(units))


class ConvSimTransformerModel(ConvSimEncoder):
    """Token embeddings plus timing signal, attention layers, a layer norm, the mean over tokens, and a linear layer."""

    config: ConvSimTransformerConfig
    pads_batches: ClassVar[bool] = True
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _no_split_modules = ["ConvSimTransformerLayer"]  # noqa: RUF012
    _can_record_outputs = {  # noqa: RUF012
        "hidden_states": ConvSimTransformerLayer,
        "attentions": ConvSimTransformerAttention,
    }

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.layers = nn.ModuleList(ConvSimTransformerLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.projection = nn.Linear(config.hidden_size, config.embedding_size)
        self.post_init()

    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`.

        `hidden_states` holds the token embeddings and every layer's output (batch, tokens, hidden_size), the last one
        after the layer norm. `attentions` holds every layer's weights (batch, heads, tokens, tokens), which only eager
        attention computes. `inputs_embeds` are multiplied by sqrt(hidden_size), as the embeddings of ids are.
        """
        outputs = self.check_options(kwargs, packed=cu_seqlens is not None, attentions=True)
        layout: FlatLayout | PaddedLayout
        if cu_seqlens is not None:
            values, cu_seqlens = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            layout = FlatLayout.from_lengths(cu_seqlens.diff())
        else:
            if inputs_embeds is not None:
                values, mask = self.prepare_embeds(input_ids, attention_mask, inputs_embeds)
            else:
                values, mask = self.prepare_padded(input_ids, attention_mask)
            # Hidden states and attentions are recorded in the shapes of the input.
            keeps_padding = outputs or kwargs.get("output_attentions") or self.config.output_attentions
            if torch.compiler.is_compiling() or keeps_padding:
                layout = PaddedLayout(mask)
            else:
                layout = FlatLayout.from_lengths(mask.sum(1), mask)
        tokens = layout.arrange(values)
        if inputs_embeds is None:
            tokens = self.embed_tokens(tokens)
        signal = timing_signal(layout.width, self.config.hidden_size, tokens.device)[layout.positions]
        hidden = self.dropout(tokens * math.sqrt(self.config.hidden_size) + signal.to(tokens.dtype))
        for layer in self.layers:
            hidden = layer(hidden, layout.groups, **kwargs)
        hidden = self.norm(hidden)
        return self.build_output(self.projection(layout.mean(hidden)), last_hidden_state=layout.pad(hidden))


class ConvSimTransformerForSequenceClassification(ConvSimForSequenceClassification):
    """The Transformer encoder with the NLI classifier."""

    config: ConvSimTransformerConfig
    encoder_class = ConvSimTransformerModel
    supports_gradient_checkpointing = True
    _supports_sdpa = True


class ConvSimTransformerForMultitask(ConvSimForMultitask):
    """The Transformer encoder with the response network and the NLI classifier."""

    config: ConvSimTransformerConfig
    encoder_class = ConvSimTransformerModel
    classifier_class = ConvSimTransformerForSequenceClassification
    supports_gradient_checkpointing = True
    _supports_sdpa = True
