"""The Transformer encoder (Yang et al. 2018, section 2.3), built as Tensor2Tensor's base: pre-layer-norm and ReLU."""

import math
from dataclasses import dataclass

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
class TokenLayout:
    """Where the flat tokens (kept_tokens, ...) of a batch lie in its padded form (batch, tokens, ...).

    Only attention needs the padded form; norms, projections and feed-forward networks run on the flat one.

    Args:
        mask: (batch, tokens), true at real tokens.
        indices: (kept_tokens,) places of the flat tokens in the flattened padded form; None where every place is kept.
    """

    mask: Tensor
    indices: Tensor | None

    @classmethod
    def from_mask(cls, mask: Tensor) -> "TokenLayout":
        """Keeps the real tokens only, except while compiling, where shapes must not depend on the data."""
        if torch.compiler.is_compiling():
            return cls(mask, None)
        indices = mask.flatten().nonzero().squeeze(1)
        return cls(mask, None if len(indices) == mask.numel() else indices)

    def flatten(self, padded: Tensor) -> Tensor:
        """(batch, tokens, ...) to (kept_tokens, ...)."""
        flat = padded.flatten(0, 1)
        return flat if self.indices is None else flat.index_select(0, self.indices)

    def pad(self, flat: Tensor) -> Tensor:
        """(kept_tokens, width) to (batch, tokens, width), zeros where no token was kept."""
        if self.indices is not None:
            flat = flat.new_zeros(self.mask.numel(), flat.shape[1]).index_copy(0, self.indices, flat)
        return flat.view(*self.mask.shape, flat.shape[1])

    def attention_mask(self) -> Tensor | None:
        """(batch, 1, 1, tokens), true at the keys that may be attended to; None where that is all of them."""
        if self.indices is None and not torch.compiler.is_compiling():
            return None
        # A softmax over no key at all is not a number: a text without tokens attends to its own padding, unread.
        return (self.mask | ~self.mask.any(1, keepdim=True))[:, None, None, :]


class ConvSimTransformerAttention(nn.Module):
    """Multi-head self-attention, its projections without biases, as Tensor2Tensor has them."""

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.head_size = config.hidden_size // config.num_attention_heads
        self.query_key_value = nn.Linear(config.hidden_size, 3 * config.hidden_size, bias=False)
        self.output = nn.Linear(config.hidden_size, config.hidden_size, bias=False)

    def forward(
        self, hidden: Tensor, layout: TokenLayout, attention_mask: Tensor | None, output_attentions: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Flat tokens (kept_tokens, hidden_size) to the same, and weights (batch, heads, tokens, tokens) if asked."""
        padded = layout.pad(self.query_key_value(hidden))
        query, key, value = padded.unflatten(-1, (3, -1, self.head_size)).permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.config.attention_dropout if self.training else 0.0
        if output_attentions or self.config._attn_implementation == "eager":
            scores = query @ key.transpose(-1, -2) / math.sqrt(self.head_size)
            if attention_mask is not None:
                scores = scores.masked_fill(~attention_mask, float("-inf"))
            weights = scores.softmax(-1)
            context = F.dropout(weights, dropout) @ value
        else:
            weights = None
            context = F.scaled_dot_product_attention(query, key, value, attention_mask, dropout)
        return self.output(layout.flatten(context.transpose(1, 2).flatten(2))), weights


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
        self, hidden: Tensor, layout: TokenLayout, attention_mask: Tensor | None, output_attentions: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Flat tokens (kept_tokens, hidden_size) to the same, and the attention weights if asked."""
        context, weights = self.attention(self.attention_norm(hidden), layout, attention_mask, output_attentions)
        hidden = hidden + self.dropout(context)
        units = self.dropout(F.relu(self.intermediate(self.feed_forward_norm(hidden))))
        return hidden + self.dropout(self.output(units)), weights


class ConvSimTransformerModel(ConvSimEncoder):
    """Embeddings plus timing signal, attention layers, a final norm, the mean over tokens, a linear layer."""

    config: ConvSimTransformerConfig
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
        if cu_seqlens is not None:
            input_ids = self.check_packed(input_ids, attention_mask)
            lengths = cu_seqlens.diff()
            width = int(lengths.max())
            layout = TokenLayout.from_mask(torch.arange(max(width, 1), device=input_ids.device) < lengths.unsqueeze(1))
        else:
            input_ids, mask = self.check_padded(input_ids, attention_mask)
            width = input_ids.shape[1]
            # A batch of empty texts has one place each all the same, for attention to have a shape.
            if width == 0:
                input_ids, mask = F.pad(input_ids, (0, 1)), F.pad(mask, (0, 1))
            layout = TokenLayout.from_mask(mask)
            input_ids = layout.flatten(input_ids)

        # Counted over real tokens, so that padding on the left does not shift them.
        positions = layout.flatten((layout.mask.cumsum(1) - 1).clamp_min(0))
        signal = timing_signal(layout.mask.shape[1], self.config.hidden_size, input_ids.device)[positions]
        embeddings = self.look_up(self.embed_tokens, input_ids) * math.sqrt(self.config.hidden_size)
        hidden = self.dropout(embeddings + signal.to(embeddings.dtype))
        key_mask = layout.attention_mask()
        hidden_states, attentions = [], []
        for layer in self.layers:
            if output_hidden_states:
                hidden_states.append(layout.pad(hidden)[:, :width])
            hidden, weights = layer(hidden, layout, key_mask, output_attentions)
            attentions.append(weights)
        last_hidden_state = layout.pad(self.norm(hidden)) * layout.mask.unsqueeze(-1)
        counts = layout.mask.sum(1, keepdim=True).clamp_min(1).to(last_hidden_state.dtype)
        sentence = self.projection(last_hidden_state.sum(1) / counts)

        last_hidden_state = last_hidden_state[:, :width]
        return self.build_output(
            sentence,
            last_hidden_state=last_hidden_state if cu_seqlens is None else None,
            hidden_states=(*hidden_states, last_hidden_state) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


class ConvSimTransformerForMultitask(ConvSimForMultitask):
    """The Transformer encoder with the response network and the inference classifier."""

    config: ConvSimTransformerConfig
    encoder_class = ConvSimTransformerModel
    supports_gradient_checkpointing = True
    _supports_sdpa = True
