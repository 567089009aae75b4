"""What every ConvSim encoder shares: the config, the packed and padded input forms, the heads, saving and loading.

Shapes: `batch` sentences of up to `tokens` tokens. A batch is either padded, `input_ids (batch, tokens)` with an
`attention_mask` of the same shape, or packed, `input_ids (total_tokens,)` with `cu_seqlens (batch + 1,)`, the offset at
which each sentence starts, ending with `total_tokens`: no padding at all.
"""

import math
import os
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import ModelOutput, can_return_tuple


@strict
class ConvSimConfig(PreTrainedConfig):
    """Sizes and options common to every encoder and to the heads on top of it.

    Args:
        vocab_size: Number of token ids.
        embedding_size: Numbers in a sentence embedding.
        pad_token_id: Id of padding; used to find it where no attention mask is given.
        unk_token_id: Id of every unknown word.
        initializer_range: Standard deviation of the embedding tables' normal initialisation; None is
            1 / sqrt(width of the table). Linear layers start Glorot-uniform with zero biases. (Our choice.)
        response_hidden_sizes: Hidden layers of the response network; its last layer always has `embedding_size` units.
            The paper gives no sizes: one layer of 500 is our choice.
        response_residual: The response network computes v + DNN(v), which starts as the identity, and its hidden layers
            are ReLU (so that it can be written as plain dense layers) in place of tanh.
        normalize_response: The response vector has length one, times a learned scale.
        logit_scale_init: Start of that scale; above 0.
        input_network: A network like the response side's, but for the scale, makes what scores responses of an input:
            u' = DNN(u), normalised where v' is (Yang et al. 2018, footnote 1). The sentence embedding stays u.
        nli_hidden_size: Hidden units of the inference classifier.

    Raises:
        StrictDataclassClassValidationError: A value is out of range; the message names the field.
    """

    # sentence-transformers reads the size of `pooler_output` from `projection_dim`, before any `hidden_size`.
    attribute_map: ClassVar[dict[str, str]] = {"projection_dim": "embedding_size"}

    vocab_size: int = 30_000
    embedding_size: int = 500
    pad_token_id: int = 0
    unk_token_id: int = 1
    initializer_range: float | int | None = None
    response_hidden_sizes: list[int] = field(default_factory=lambda: [500])
    response_residual: bool = False
    normalize_response: bool = False
    logit_scale_init: float | int = 20.0
    input_network: bool = False
    nli_hidden_size: int = 512

    def require_positive(self, *names: str) -> None:
        """Raises ValueError unless every named field is above zero, and every number of a field that is a list."""
        for name in names:
            value = getattr(self, name)
            if min(value if isinstance(value, list) else [value], default=1) <= 0:
                raise ValueError(f"{name} is {value}, expected numbers above 0")

    def validate_base_sizes(self) -> None:
        """Every size is above zero, and the response network has a hidden layer."""
        self.require_positive("vocab_size", "embedding_size", "response_hidden_sizes")
        self.require_positive("nli_hidden_size", "logit_scale_init")
        if not self.response_hidden_sizes:
            raise ValueError("response_hidden_sizes is [], expected the size of at least one hidden layer")
        if self.initializer_range is not None:
            self.require_positive("initializer_range")

    def validate_token_ids(self) -> None:
        """The special tokens are in the vocabulary."""
        for name in ("pad_token_id", "unk_token_id"):
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise ValueError(f"{name} is {getattr(self, name)}, expected an id below vocab_size {self.vocab_size}")


class ZeroLinear(nn.Linear):
    """A linear layer that starts at zero: the last layer of a residual branch, so that x + branch(x) starts as x."""


class ZeroEmbedding(nn.Embedding):
    """A table that starts at zero: it adds nothing until it has learnt something."""


class TokenWeights(nn.Embedding):
    """One learned number per vocabulary entry, (vocab_size, 1), which starts at one."""


def normalize(vectors: Tensor) -> Tensor:
    """Vectors (batch, size) divided by their length; a zero vector stays zero.

    `F.normalize` would multiply the gradient of a zero vector by 1e12, and an empty text gives one.
    """
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / torch.where(length > 1e-12, length, 1.0)


class _SparseBagSums(torch.autograd.Function):
    """`F.embedding_bag` in sum mode whose gradient comes summed by row, without a row for every token in between.

    The gradient of a row is the weighted sum of the gradients of the bags it occurs in: an embedding bag again, over
    the bags' gradients, which are few and stay in the processor's cache.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(table, ids, offsets, weights)
        return F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        table, ids, offsets, weights = ctx.saved_tensors
        counts = torch.cat([offsets, offsets.new_tensor([len(ids)])]).diff()
        bags = torch.repeat_interleave(counts, output_size=len(ids))
        gradient = gradient.contiguous()
        # Sorting distinct keys gives the order of a stable sort in less time.
        places = torch.arange(len(ids), device=ids.device)
        keys = torch.sort(ids * len(ids) + places).values
        order = keys % max(len(ids), 1)
        rows, occurrences = torch.unique_consecutive(ids[order], return_counts=True)
        in_order = None if weights is None else weights[order]
        starts = occurrences.cumsum(0) - occurrences
        values = F.embedding_bag(bags[order], gradient, starts, mode="sum", per_sample_weights=in_order)
        table_gradient = torch.sparse_coo_tensor(
            rows.unsqueeze(0), values, table.shape, is_coalesced=True, check_invariants=False
        )
        weight_gradient = None
        if ctx.needs_input_grad[3]:
            weight_gradient = torch.ops.aten._embedding_bag_per_sample_weights_backward(
                gradient, table, ids, offsets, bags, 0
            )
        return table_gradient, None, None, weight_gradient


class ConvSimPreTrainedModel(PreTrainedModel):
    """Initialisation, saving and the embedding tables, for the encoders and for the multitask models."""

    config: ConvSimConfig
    base_model_prefix = "encoder"

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            init.zeros_(module.bias)
        if isinstance(module, (ZeroLinear, ZeroEmbedding)):
            init.zeros_(module.weight)
        elif isinstance(module, (TokenWeights, nn.LayerNorm)):
            init.ones_(module.weight)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.initializer_range or module.embedding_dim**-0.5)
        elif isinstance(module, ResponseHead) and module.logit_scale is not None:
            init.constant_(module.logit_scale, math.log(self.config.logit_scale_init))

    def embedding_tables(self) -> list[nn.Parameter]:
        """The tables looked up by id, whose gradients `set_sparse_gradients` makes sparse."""
        tables = [module for module in self.modules() if isinstance(module, nn.Embedding)]
        return [parameter for table in tables for parameter in table.parameters()]

    def set_sparse_gradients(self, enabled: bool) -> None:
        """Whether `embedding_tables()` get sparse gradients, which need an optimiser that takes them."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                module.sparse = enabled  # DistributedDataParallel, too, looks here


class ConvSimEncoder(ConvSimPreTrainedModel):
    """Token ids to L2-normalised sentence embeddings; every encoder's `forward` has this one's first three arguments.

    `forward(input_ids, attention_mask=None, cu_seqlens=None) -> BaseModelOutputWithPooling`, in which `pooler_output
    (batch, embedding_size)` is the sentence embedding and `last_hidden_state (batch, tokens, width)` holds the token
    vectors, zero at padding, for padded input only. A text of no tokens gets a defined vector: the network's output for
    zeros, or zeros. On request (`output_hidden_states`) `hidden_states` are the word embeddings and the output of every
    layer that reads tokens, each like `last_hidden_state`, which is the last of them.
    """

    # Whether texts of like length are better encoded together, because some part of the work is done on padding.
    pads_batches: ClassVar[bool] = False
    # A folder saved from a multitask model opens as a bare encoder too: its heads are then left out on purpose.
    _keys_to_ignore_on_load_unexpected = [r"^(response|input|nli)_head\."]  # noqa: RUF012

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves weights, config and the code files; a bare encoder's folder offers no `AutoModelForPreTraining`."""
        self.config.auto_map = {}
        super().save_pretrained(save_directory, *args, **kwargs)

    def check_packed(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Packed `input_ids (total_tokens,)` as integers.

        Raises:
            ValueError: They have another shape, or come with an attention mask.
        """
        if input_ids.dim() != 1 or attention_mask is not None:
            raise ValueError(
                "cu_seqlens goes with packed input_ids (total_tokens,) and no attention_mask, "
                f"got input_ids of shape {tuple(input_ids.shape)}"
            )
        return input_ids.long()

    def check_padded(self, input_ids: Tensor, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Padded `input_ids (batch, tokens)` as integers, and the boolean mask (batch, tokens) of real tokens.

        Raises:
            ValueError: They have another shape.
        """
        if input_ids.dim() != 2:
            raise ValueError(
                f"input_ids has shape {tuple(input_ids.shape)}, expected (batch, tokens), "
                "or (total_tokens,) together with cu_seqlens"
            )
        mask = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        # A tokenizer may return an empty text as a float tensor of shape (1, 0).
        return input_ids.long(), mask

    def build_output(self, sentence: Tensor, **fields: Any) -> BaseModelOutputWithPooling:
        """The encoder's output, from the sentence vectors (batch, embedding_size) before normalisation."""
        # Under autocast the last layer gives half precision: normalise, and score later, in the weights' own.
        return BaseModelOutputWithPooling(pooler_output=normalize(sentence.to(self.dtype)), **fields)

    def look_up_sums(
        self, table: nn.Embedding, ids: Tensor, cu_seqlens: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Sums (batch, width) of the rows of each sentence of packed ids, each row times its weight (total_tokens,)."""
        if table.sparse and torch.is_grad_enabled():
            return _SparseBagSums.apply(table.weight, ids, cu_seqlens[:-1], weights)
        return F.embedding_bag(ids, table.weight, cu_seqlens[:-1], mode="sum", per_sample_weights=weights)


class ResponseHead(nn.Module):
    """The feed-forward network on the response side, v' = DNN(v) (Yang et al. 2018, figure 3); `input_network` too."""

    def __init__(self, config: ConvSimConfig, scaled: bool = True) -> None:
        super().__init__()
        self.residual, self.normalized = config.response_residual, config.normalize_response
        widths = [config.embedding_size, *config.response_hidden_sizes]
        last_class = ZeroLinear if self.residual else nn.Linear
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.layers.append(last_class(widths[-1], config.embedding_size))
        self.logit_scale = nn.Parameter(torch.empty(1)) if scaled and self.normalized else None

    def forward(self, embeddings: Tensor) -> Tensor:
        """Sentence embeddings to response vectors, both (batch, embedding_size).

        The score of an input for a response is the dot product u . v'; a learned scale, where there is one, is in v'.
        """
        hidden = embeddings
        for layer in self.layers[:-1]:
            hidden = F.relu(layer(hidden)) if self.residual else torch.tanh(layer(hidden))
        response = self.layers[-1](hidden)
        if self.residual:
            response = embeddings + response
        if self.normalized:
            response = normalize(response)
        return response if self.logit_scale is None else torch.exp(self.logit_scale) * response

    @torch.no_grad()
    def as_dense_layers(self) -> tuple[list[tuple[Tensor, Tensor, str]], float | None]:
        """The same function as a chain of plain dense layers, for formats that have nothing else.

        Returns:
            Layers (weight (out, in), bias (out,), activation "tanh", "relu" or "identity"), and None, or the scale by
            which their output is multiplied after it is normalised to length one.
        """
        layers = [(layer.get_parameter("weight").data, layer.get_parameter("bias").data) for layer in self.layers]
        if self.residual:
            layers = self._carry_input(layers)
        activation = "relu" if self.residual else "tanh"
        dense = [*((weight, bias, activation) for weight, bias in layers[:-1]), (*layers[-1], "identity")]
        return dense, None if self.logit_scale is None else float(torch.exp(self.logit_scale))

    @staticmethod
    def _carry_input(layers: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Widens ReLU layers so that x reaches the last one beside DNN(x): relu(x) - relu(-x) = x."""
        size = layers[0][0].shape[1]
        identity = torch.eye(size).to(layers[0][0])
        zeros = torch.zeros(2 * size).to(identity)
        carried = torch.eye(2 * size).to(identity)
        (first, first_bias), *middle, (last, last_bias) = layers
        return [
            (torch.cat([identity, -identity, first]), torch.cat([zeros, first_bias])),
            *((torch.block_diag(carried, weight), torch.cat([zeros, bias])) for weight, bias in middle),
            (torch.cat([identity, -identity, last], dim=1), last_bias),
        ]


class NliHead(nn.Module):
    """The SNLI classifier: (u1, u2, |u1 - u2|, u1 * u2), a ReLU layer, three logits (Yang et al. 2018, section 2.4)."""

    def __init__(self, config: ConvSimConfig) -> None:
        super().__init__()
        self.hidden = nn.Linear(4 * config.embedding_size, config.nli_hidden_size)
        self.output = nn.Linear(config.nli_hidden_size, 3)

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Embeddings (batch, embedding_size) of both to logits (batch, 3): entailment, neutral, contradiction."""
        features = torch.cat([premise, hypothesis, (premise - hypothesis).abs(), premise * hypothesis], dim=-1)
        return self.output(F.relu(self.hidden(features)))


@dataclass
class ConvSimMultitaskOutput(ModelOutput):
    """What the multitask model computes; a part whose texts were not given is None.

    Args:
        pooler_output: Embeddings u (batch, embedding_size) of the inputs, or of the premises, of length one.
        response_embeds: Response vectors v' (batch, embedding_size); the score of a pair is u . v', or u' . v'.
        query_embeds: With responses, the vectors u' (batch, embedding_size) of a model with an `input_network`.
        hypothesis_embeds: Embeddings (batch, embedding_size) of the hypotheses, of length one.
        nli_logits: (batch, 3): entailment, neutral, contradiction.
    """

    pooler_output: Tensor | None = None
    response_embeds: Tensor | None = None
    query_embeds: Tensor | None = None
    hypothesis_embeds: Tensor | None = None
    nli_logits: Tensor | None = None


class ConvSimForMultitask(ConvSimPreTrainedModel):
    """An encoder with the response network and the inference classifier; its config is its encoder's."""

    encoder_class: ClassVar[type[ConvSimEncoder]]

    def __init__(self, config: ConvSimConfig) -> None:
        super().__init__(config)
        self.encoder = self.encoder_class(config)
        self.response_head = ResponseHead(config)
        self.nli_head = NliHead(config)
        self.input_head = ResponseHead(config, scaled=False) if config.input_network else None
        self.post_init()

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves weights, config and the code files, in a folder that `AutoModel` opens too, as the bare encoder."""
        module = self.encoder_class.__module__.rpartition(".")[2]
        self.config.auto_map = {"AutoModel": f"{module}.{self.encoder_class.__name__}"}
        super().save_pretrained(save_directory, *args, **kwargs)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        response_input_ids: Tensor | None = None,
        response_attention_mask: Tensor | None = None,
        response_cu_seqlens: Tensor | None = None,
        hypothesis_input_ids: Tensor | None = None,
        hypothesis_attention_mask: Tensor | None = None,
        hypothesis_cu_seqlens: Tensor | None = None,
    ) -> ConvSimMultitaskOutput:
        """Embeds inputs (or premises) and, where given, responses and hypotheses, each batch padded or packed."""
        batches = [(input_ids, attention_mask, cu_seqlens)]
        if response_input_ids is not None:
            batches.append((response_input_ids, response_attention_mask, response_cu_seqlens))
        if hypothesis_input_ids is not None:
            batches.append((hypothesis_input_ids, hypothesis_attention_mask, hypothesis_cu_seqlens))
        pooled, *others = self._encode(batches)
        output = ConvSimMultitaskOutput(pooler_output=pooled)
        if response_input_ids is not None:
            output.response_embeds = self.response_head(others.pop(0))
            # Only where they are scored: DistributedDataParallel waits for a gradient of whatever is in the output.
            output.query_embeds = None if self.input_head is None else self.input_head(pooled)
        if hypothesis_input_ids is not None:
            output.hypothesis_embeds = others.pop(0)
            output.nli_logits = self.nli_head(pooled, output.hypothesis_embeds)
        return output

    def _encode(self, batches: list[tuple[Tensor, Tensor | None, Tensor | None]]) -> list[Tensor]:
        """Embeddings of each batch; packed batches go through the encoder as one, for one sparse gradient a table."""
        offsets = [cu_seqlens for _, _, cu_seqlens in batches if cu_seqlens is not None]
        if len(offsets) < len(batches):
            return [self.encoder(*batch, return_dict=True).pooler_output for batch in batches]
        joined = offsets[0]
        for cu_seqlens in offsets[1:]:
            joined = torch.cat([joined, joined[-1] + cu_seqlens[1:]])
        input_ids = torch.cat([ids.long() for ids, _, _ in batches])
        pooled = self.encoder(input_ids, cu_seqlens=joined, return_dict=True).pooler_output
        return list(pooled.split([len(cu_seqlens) - 1 for cu_seqlens in offsets]))


# So that `save_pretrained` copies the code files and names the classes in `auto_map`; subclasses inherit it.
ConvSimConfig.register_for_auto_class("AutoConfig")
ConvSimEncoder.register_for_auto_class("AutoModel")
ConvSimForMultitask.register_for_auto_class("AutoModelForPreTraining")
