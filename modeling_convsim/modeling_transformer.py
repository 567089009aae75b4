"""The Transformer encoder (Yang et al. 2018, section 2.3): Tensor2Tensor's base model, with pre-layer-norm and ReLU.

Layers read flat tokens (tokens, hidden_size), one sentence after the other, and attention reads groups of sentences of
equal length, (sentences, width, hidden_size). `modeling_layouts.py` arranges a batch.
"""

import math
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

from .modeling_base import ConvSimEncoder, TokenWeights, ZeroLinear, divide_by_sqrt
from .modeling_config import ConvSimConfig
from .modeling_heads import ConvSimForMultitask, ConvSimForSequenceClassification
from .modeling_layouts import FlatLayout, PaddedLayout, SentenceGroup, timing_signal


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
        residual: The embedding is average + projection(Transformer's mean): the average is the sum of the word
            embeddings, of `embedding_size` dimensions, divided by the square root of their number, as in the DAN. A
            linear layer maps them to `hidden_size` for the Transformer. The projection is initialized to zero, so that
            training starts at the averages. Not in the paper.
        residual_scale: Multiplies the projection's output, so that the layers change the averages more slowly: Adam's
            steps have the same size in every layer. Requires `residual`. Not in the paper.
        learned_token_weights: Multiply every word embedding in the average by a learned weight of its token; requires
            `residual`. Not in the paper.
        token_dropout: Probability, in [0, 1), that the Transformer reads zeros in place of a word embedding during
            training; the others are multiplied by 1 / (1 - probability). Averages are complete. Not in the paper.
    """

    model_type = "convsim_transformer"
    label: ClassVar[str] = "Transformer"
    removed_options: ClassVar[dict[str, Any]] = {"hidden_sizes": []}

    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    hidden_dropout: float | int = 0.1
    attention_dropout: float | int = 0.1
    layer_norm_eps: float | int = 1e-6
    residual: bool = False
    residual_scale: float | int = 1.0
    learned_token_weights: bool = False
    token_dropout: float | int = 0.0

    def validate_transformer(self) -> None:
        """Requires sizes that are above zero and compatible, and dropouts that are probabilities."""
        self.require_positive("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        self.require_positive("residual_scale")
        if self.hidden_size % 2 or self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}, expected an even multiple of num_attention_heads "
                f"{self.num_attention_heads}"
            )
        for name in ("hidden_dropout", "attention_dropout", "token_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 0 and below 1")
        if self.residual_scale != 1 and not self.residual:
            raise ValueError("residual_scale requires residual: true")
        if self.learned_token_weights and not self.residual:
            raise ValueError("learned_token_weights requires residual: true")


def drop_values(values: Tensor, probability: float) -> Tensor:
    """Sets values to zero with a probability, and multiplies the others by 1 / (1 - probability).

    On a CPU, 16 random bits per value and operations that stay within one dtype take a fraction of `F.dropout`'s time.
    """
    if values.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(values, probability)
    if not probability:
        return values
    bits = torch.empty(-(-values.numel() // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    threshold = min(round(probability * 2**16), 2**16 - 1) - 2**15
    mask = bits[: values.numel()].ge_(threshold).to(values.dtype).mul_(1 / (1 - probability))
    return values * mask.view(values.shape)


class ConvSimDropout(nn.Dropout):
    """`nn.Dropout` with masks that are faster to sample on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """As `nn.Dropout`: any shape to the same shape."""
        return drop_values(input, self.p) if self.training else input


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
    scores = (query * scaling) @ key.transpose(-1, -2)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, float("-inf"))
    weights = scores.softmax(-1)
    return (drop_values(weights, dropout) @ value).transpose(1, 2).contiguous(), weights


def unpadded_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    *,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention by torch's memory-efficient kernel for GPUs, which reads sentences without padding.

    No public function calls it in this way. Forward and backward, six layers of 512 took 11 ms on an H100 for 2,048
    pairs of Reddit comments; flash attention, whose tiles are larger than most sentences, took 26.

    Args:
        module: the attention layer.
        query, key, value: (1, heads, tokens, head_size), one sentence after the other.
        attention_mask: None.
        scaling: factor of the scores.
        dropout: probability that a weight is left out.
        cu_seq_lens_q: (sentences + 1,) int32, where each sentence starts.
        max_length_q: tokens of the longest sentence.
        **kwargs: ignored.

    Returns:
        Contexts (1, tokens, heads, head_size), and None.
    """
    query, key, value = (states.transpose(1, 2) for states in (query, key, value))
    context, *_ = torch.ops.aten._efficient_attention_forward(
        query, key, value, None, cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q, dropout,
        custom_mask_type=0, compute_log_sumexp=torch.is_grad_enabled(), scale=scaling,
    )  # fmt: skip
    return context, None


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
        implementation = self.config._attn_implementation
        # Kernels other than eager attention return no weights.
        eager = kwargs.get("output_attentions") or self.config.output_attentions
        # For short sentences on a CPU, the backward pass of torch's kernel takes several times as long.
        trains_on_cpu = self.training and implementation == "sdpa" and hidden.device.type == "cpu"
        if eager or (trains_on_cpu and not torch.compiler.is_compiling()):
            implementation = "eager"
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, eager_attention_forward)
        if groups and groups[0].starts is not None:
            attend = unpadded_attention
        contexts, weights = [], None
        states = self.query_key_value(hidden)
        is_padded = states.dim() == 3  # not flattened here, so that any number of sentences and tokens can be exported
        parts = [states] if is_padded else states.split([group.sentences * group.width for group in groups])
        for part, group in zip(parts, groups, strict=True):
            # (sentences, width, 3 * hidden_size) to three times (sentences, heads, width, head_size)
            grouped = part if is_padded else part.view(group.sentences, group.width, -1)
            query, key, value = grouped.unflatten(-1, (3, -1, self.head_size)).permute(2, 0, 3, 1, 4).unbind(0)
            lengths = {} if group.starts is None else {"cu_seq_lens_q": group.starts, "max_length_q": group.longest}
            context, weights = attend(
                self, query, key, value, group.keys, scaling=self.head_size**-0.5,
                dropout=self.config.attention_dropout if self.training else 0.0, **lengths,
            )  # fmt: skip
            context = context.flatten(2)  # (sentences, width, hidden_size)
            contexts.append(context if is_padded else context.flatten(0, 1))
        return self.output(torch.cat(contexts) if contexts else hidden), weights


class ConvSimTransformerLayer(GradientCheckpointingLayer):
    """Self-attention, then a ReLU network, each with a layer norm before it and a residual connection around it."""

    def __init__(self, config: ConvSimTransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.attention = ConvSimTransformerAttention(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.dropout = ConvSimDropout(config.hidden_dropout)

    def forward(self, hidden: Tensor, groups: list[SentenceGroup], **kwargs: Unpack[TransformersKwargs]) -> Tensor:
        """Maps tokens (…, hidden_size) to the same shape."""
        context, _ = self.attention(self.attention_norm(hidden), groups, **kwargs)
        hidden = hidden + self.dropout(context)
        units = self.dropout(F.relu(self.intermediate(self.feed_forward_norm(hidden))))  # (tokens, intermediate_size)
        return hidden + self.dropout(self.output(units))


class ConvSimTransformerModel(ConvSimEncoder):
    """Token embeddings plus timing signal, attention layers, a layer norm, the mean over tokens, and a linear layer.

    With `residual`, the average of the word embeddings is added to its output.
    """

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
        word_size = config.embedding_size if config.residual else config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, word_size)
        self.token_weights = TokenWeights(config.vocab_size, 1) if config.learned_token_weights else None
        self.input_projection = nn.Linear(word_size, config.hidden_size, bias=False) if config.residual else None
        self.dropout = ConvSimDropout(config.hidden_dropout)
        self.layers = nn.ModuleList(ConvSimTransformerLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        output_class = ZeroLinear if config.residual else nn.Linear
        self.projection = output_class(config.hidden_size, config.embedding_size)
        self.post_init()

    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`.

        `hidden_states` holds the token embeddings and every layer's output (batch, tokens, hidden_size), the last one
        after the layer norm. `attentions` holds every layer's weights (batch, heads, tokens, tokens), which only eager
        attention computes.
        """
        requested = [name for name in ("output_hidden_states", "output_attentions") if self.requested(kwargs, name)]
        layout: FlatLayout | PaddedLayout
        if cu_seqlens is not None:
            if requested:
                raise ValueError(f"{' and '.join(requested)}: expected padded input, with attention_mask, got packed")
            ids, _ = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            without_padding = self._reads_without_padding(ids.device)
            layout = FlatLayout.from_lengths(cu_seqlens.long().diff(), ids.device, without_padding=without_padding)
        else:
            ids, mask = self.prepare_padded(input_ids, attention_mask)
            # Hidden states and attentions are recorded in the shapes of the input.
            if torch.compiler.is_compiling() or requested:
                layout = PaddedLayout(mask)
            else:
                without_padding = self._reads_without_padding(mask.device)
                layout = FlatLayout.from_lengths(mask.sum(1), mask.device, mask, without_padding)
        tokens, average = self._embed(layout.arrange(ids), layout)
        signal = timing_signal(layout.width, self.config.hidden_size, tokens.device)[layout.positions]
        hidden = self.dropout(tokens * math.sqrt(self.config.hidden_size) + signal.to(tokens.dtype))
        for layer in self.layers:
            hidden = layer(hidden, layout.groups, **kwargs)
        hidden = self.norm(hidden)
        sums = layout.sum(hidden)
        sentence = self.projection(sums / layout.counts.clamp_min(1).unsqueeze(1).to(sums.dtype))
        if average is not None:
            sentence = average + self.config.residual_scale * sentence
        return self.build_output(sentence, last_hidden_state=layout.pad(hidden))

    def _reads_without_padding(self, device: torch.device) -> bool:
        """Whether attention reads sentences without padding on a device, by `unpadded_attention`."""
        if device.type != "cuda" or torch.version.hip or self.config._attn_implementation != "sdpa":
            return False
        head_size = self.config.hidden_size // self.config.num_attention_heads
        return head_size % 8 == 0 and torch.backends.cuda.mem_efficient_sdp_enabled()

    def _embed(self, ids: Tensor, layout: FlatLayout | PaddedLayout) -> tuple[Tensor, Tensor | None]:
        """Looks up token ids (…,).

        Returns:
            What the layers read of the words (…, hidden_size), without the timing signal; and with `residual` the
            averages of the word embeddings (batch, embedding_size).
        """
        indices = average = None
        if isinstance(layout, FlatLayout) and ids.device.type == "cpu":
            # Every word of the batch is looked up and projected once; `indices` (tokens,) has the word of each token. A
            # GPU would have to be waited for.
            ids, indices = ids.unique(return_inverse=True)
        words = self.embed_tokens(ids)
        if self.input_projection is not None:
            weighted = words if self.token_weights is None else words * self.token_weights(ids)
            if isinstance(layout, FlatLayout) and indices is not None:
                sums = layout.sum_rows(weighted, indices)
            else:
                sums = layout.sum(weighted)
            average = divide_by_sqrt(sums, layout.counts)
            words = self.input_projection(words).to(words.dtype)
        tokens = words if indices is None else F.embedding(indices, words)
        if (weights := self.drop_tokens(tokens[..., 0], self.config.token_dropout)) is not None:
            tokens = tokens * weights.unsqueeze(-1)
        return tokens, average


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
