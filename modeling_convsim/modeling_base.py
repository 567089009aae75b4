"""The base classes of every ConvSim encoder: config, packed and padded input, heads, saving and loading.

A batch holds `batch` sentences of at most `tokens` tokens. It is either padded, `input_ids (batch, tokens)` with an
`attention_mask` of the same shape, or packed, `input_ids (total_tokens,)` with `cu_seqlens (batch + 1,)`: the offset at
which each sentence starts, followed by the one at which the last sentence ends. Ids after that belong to no sentence.

To write an encoder, subclass `ConvSimConfig`, `ConvSimEncoder` and `ConvSimForMultitask` in one file and register the
multitask class with `modeling_convsim.register_encoder`. Files named `modeling_*.py` in this folder are registered
automatically. Of this package, they import only each other, relatively, because a published model holds a copy of them.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple

NLI_LABELS = ("entailment", "neutral", "contradiction")  # the order of the logits
# What `forward` accepts beside the input. The Trainer passes the number of items; tokenizers may add token types, which
# are 0 in single texts.
FORWARD_OPTIONS = frozenset(
    ("num_items_in_batch", "output_attentions", "output_hidden_states", "return_dict", "token_type_ids")
)


@strict
class ConvSimConfig(PreTrainedConfig):
    """Sizes and options that every encoder and its heads share.

    Args:
        vocab_size: Number of tokens in the vocabulary.
        embedding_size: Dimensions of a sentence embedding.
        pad_token_id: Id of the padding token. Without an attention mask, these tokens are treated as padding.
        unk_token_id: Id of the token for unknown words.
        initializer_range: Standard deviation of the normal distribution that initializes embedding matrices. None means
            1 / sqrt(dimensions). Linear layers are Glorot-uniform with zero biases. (Our choice.)
        response_hidden_sizes: Units of the response network's hidden layers. Its output layer has `embedding_size`
            units. The paper gives no sizes; one layer of 500 units is our choice.
        response_residual: The response network computes v + DNN(v), which is the identity at initialization. Its
            hidden layers use ReLU instead of tanh, so that it can be exported as plain dense layers.
        normalize_response: L2-normalize the response vector, then multiply it by a learned scale.
        logit_scale_init: Initial value of that scale; above 0.
        input_network: Score responses with u' = DNN(u) instead of u, by a network like the response network, without
            the scale, L2-normalized if v' is (Yang et al. 2018, footnote 1). The sentence embedding is still u.
        nli_hidden_size: Hidden units of the NLI classifier.
        id2label: The names of the NLI classifier's classes; entailment, neutral and contradiction unless it is
            fine-tuned with other labels (`num_labels`).
        label2id: The same, from names to ids.

    Raises:
        StrictDataclassClassValidationError: A value is out of range; the message names the field.
    """

    # The encoder's name in tables; each encoder's config sets its own.
    label: ClassVar[str] = ""
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

    def __post_init__(self, **kwargs: Any) -> None:
        """Names the classes: NLI's, unless others or another number of them are given."""
        if self.id2label is None and kwargs.get("num_labels", len(NLI_LABELS)) == len(NLI_LABELS):
            self.id2label = dict(enumerate(NLI_LABELS))
        if self.id2label is not None and self.label2id is None:
            self.label2id = {name: int(label) for label, name in self.id2label.items()}
        super().__post_init__(**kwargs)

    def require_positive(self, *names: str) -> None:
        """Raises ValueError unless every named field, or every value of a list field, is above zero."""
        for name in names:
            value = getattr(self, name)
            if min(value if isinstance(value, list) else [value], default=1) <= 0:
                raise ValueError(f"{name} is {value}, expected numbers above 0")

    def validate_base_sizes(self) -> None:
        """Requires sizes above zero and at least one hidden layer in the response network."""
        self.require_positive("vocab_size", "embedding_size", "response_hidden_sizes")
        self.require_positive("nli_hidden_size", "logit_scale_init")
        if not self.response_hidden_sizes:
            raise ValueError("response_hidden_sizes is [], expected the size of at least one hidden layer")
        if self.initializer_range is not None:
            self.require_positive("initializer_range")

    def validate_token_ids(self) -> None:
        """Requires special tokens that are in the vocabulary."""
        for name in ("pad_token_id", "unk_token_id"):
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise ValueError(f"{name} is {getattr(self, name)}, expected an id below vocab_size {self.vocab_size}")


class ZeroLinear(nn.Linear):
    """A linear layer initialized to zero: the last layer of a residual branch, so that x + branch(x) starts as x."""


class ZeroEmbedding(nn.Embedding):
    """An embedding matrix initialized to zero: it contributes nothing until it is trained."""


class TokenWeights(nn.Embedding):
    """One learned weight per token, (vocab_size, 1), initialized to one."""


def normalize(vectors: Tensor) -> Tensor:
    """L2-normalizes vectors (batch, dimensions); a zero vector stays zero.

    `F.normalize` would multiply the gradient of a zero vector, such as that of an empty text, by 1e12.
    """
    norms = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)  # (batch, 1)
    return vectors / torch.where(norms > 1e-12, norms, 1.0)


class _SparseBagSums(torch.autograd.Function):
    """`F.embedding_bag` in sum mode with a coalesced sparse gradient, computed without one row per token.

    The gradient of a row is the weighted sum of the gradients of the bags that it occurs in. This is an embedding bag
    over the bags' gradients, which are few enough to stay in the processor's cache.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor, offsets: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(table, ids, offsets, weights)
        return F.embedding_bag(ids, table, offsets, mode="sum", per_sample_weights=weights)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        table, ids, offsets, weights = ctx.saved_tensors
        counts = torch.cat([offsets, offsets.new_tensor([len(ids)])]).diff()  # (bags,)
        bags = torch.repeat_interleave(counts, output_size=len(ids))  # (ids,): the bag of each id
        gradient = gradient.contiguous()  # (bags, dimensions)
        # Sorting distinct keys gives the order of a stable sort in less time.
        positions = torch.arange(len(ids), device=ids.device)
        keys = torch.sort(ids * len(ids) + positions).values
        order = keys % max(len(ids), 1)
        rows, occurrences = torch.unique_consecutive(ids[order], return_counts=True)
        sorted_weights = None if weights is None else weights[order]
        starts = occurrences.cumsum(0) - occurrences
        values = F.embedding_bag(bags[order], gradient, starts, mode="sum", per_sample_weights=sorted_weights)
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
    """Initialization and embedding tables of encoders and multitask models."""

    config: ConvSimConfig
    config_class: type[ConvSimConfig]  # set by transformers, from the annotation of `config`
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
        """The parameters of all embedding tables, whose gradients `set_sparse_gradients` makes sparse."""
        tables = [module for module in self.modules() if isinstance(module, nn.Embedding)]
        return [parameter for table in tables for parameter in table.parameters()]

    def set_sparse_gradients(self, enabled: bool) -> None:
        """Makes the gradients of `embedding_tables()` sparse, which the optimizer must support, or dense."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                module.sparse = enabled  # DistributedDataParallel reads this attribute, too


class ConvSimEncoderOutput(BaseModelOutputWithPooling):
    """An encoder's output, in whose tuple `pooler_output` comes second, whether the input is packed or padded."""

    def to_tuple(self) -> tuple[Any, ...]:
        """The fields that are not None, after `last_hidden_state`, which is None for packed input."""
        fields = super().to_tuple()
        return fields if self.last_hidden_state is not None else (None, *fields)


class ConvSimEncoder(ConvSimPreTrainedModel):
    """Maps token ids to L2-normalized sentence embeddings.

    Every encoder implements `forward(input_ids, attention_mask=None, cu_seqlens=None, inputs_embeds=None, **kwargs)`,
    which returns a `BaseModelOutputWithPooling`: `pooler_output (batch, embedding_size)` is the sentence embedding;
    `last_hidden_state (batch, tokens, dimensions)` holds the token vectors, zero at padding, for padded input only.
    With `output_hidden_states`, which needs padded input, `hidden_states` holds the token embeddings and the output of
    every layer that reads tokens, each shaped like `last_hidden_state`, which is the last of them; at padding, all but
    the last are undefined. The embedding of a text without tokens is the network's output for zeros, or zeros.

    `inputs_embeds (batch, tokens, dimensions)` replaces the embeddings of padded `input_ids`, which are those of
    `get_input_embeddings()`. Keyword arguments that an encoder would ignore are refused by `check_options`.
    """

    # Whether sentences of similar length should be batched together, because part of the work is done on padding.
    pads_batches: ClassVar[bool] = False
    # Formats that `python -m trainer.export` can write; "onnx" needs a padded forward without data-dependent shapes.
    export_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    # A folder saved from a multitask model opens as a bare encoder, too, whose heads are left out on purpose.
    _keys_to_ignore_on_load_unexpected = [r"^(response|input|nli)_head\."]  # noqa: RUF012

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves weights, config and code; `AutoModelForPreTraining` cannot open the folder of a bare encoder."""
        self.config.auto_map = {}
        super().save_pretrained(save_directory, *args, **kwargs)

    def scale_tokens(self, weights: Tensor) -> None:
        """Sets the initial weight of every token in the sentence embedding.

        Args:
            weights: (vocab_size, 1).

        Raises:
            ValueError: The encoder has no token weights.
        """
        raise ValueError(
            f"{self.config.model_type} has no token weights: use a DAN with learned_token_weights: true, or CBOW"
        )

    def check_options(self, options: Mapping[str, Any], packed: bool, attentions: bool = False) -> bool:
        """Checks the keyword arguments of `forward`.

        Args:
            options: the keyword arguments.
            packed: whether the input is packed.
            attentions: whether the encoder can return attention weights.

        Returns:
            Whether hidden states are requested, by `options` or by the config.

        Raises:
            TypeError: An argument is unknown.
            ValueError: Something is requested that the encoder does not return for this input.
        """
        if unknown := options.keys() - FORWARD_OPTIONS:
            raise TypeError(
                f"{type(self).__name__}.forward() got unexpected arguments: {', '.join(sorted(unknown))}; expected "
                f"input_ids, attention_mask, cu_seqlens, inputs_embeds, {', '.join(sorted(FORWARD_OPTIONS))}"
            )
        requested = {
            name: options.get(name) if options.get(name) is not None else getattr(self.config, name)
            for name in ("output_hidden_states", "output_attentions")
        }
        if requested["output_attentions"] and not attentions:
            raise ValueError(f"output_attentions: {type(self).__name__} has no attention")
        if packed and any(requested.values()):
            names = [name for name, value in requested.items() if value]
            raise ValueError(f"{' and '.join(names)}: expected padded input (input_ids and attention_mask), got packed")
        return bool(requested["output_hidden_states"])

    def prepare_packed(
        self, input_ids: Tensor | None, attention_mask: Tensor | None, cu_seqlens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Validates a packed batch and converts it to int64.

        Returns:
            The ids of the sentences, without any that follow the last one, and `cu_seqlens`.

        Raises:
            ValueError: A shape is wrong, there is an attention mask, or `cu_seqlens` are not offsets of the ids.
        """
        if input_ids is None or input_ids.dim() != 1 or attention_mask is not None:
            shape = "no input_ids" if input_ids is None else f"input_ids of shape {tuple(input_ids.shape)}"
            raise ValueError(
                f"cu_seqlens goes with packed input_ids (total_tokens,) and no attention_mask, got {shape}"
            )
        if cu_seqlens.dim() != 1 or not len(cu_seqlens):
            raise ValueError(f"cu_seqlens has shape {tuple(cu_seqlens.shape)}, expected (batch + 1,)")
        cu_seqlens = cu_seqlens.long()
        # Read in one transfer, for the sake of GPUs.
        first, last, is_ascending = torch.stack(
            [cu_seqlens[0], cu_seqlens[-1], (cu_seqlens[1:] >= cu_seqlens[:-1]).all().long()]
        ).tolist()
        if first or last > len(input_ids) or not is_ascending:
            raise ValueError(
                f"cu_seqlens goes from {first} to {last}{'' if is_ascending else ' and descends'}, expected ascending "
                f"offsets from 0 to at most {len(input_ids)}, the number of packed input_ids"
            )
        return input_ids[:last].long(), cu_seqlens

    def prepare_embeds(
        self, input_ids: Tensor | None, attention_mask: Tensor | None, inputs_embeds: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Validates `inputs_embeds (batch, tokens, dimensions)` and derives the mask.

        Returns:
            The embeddings, and the boolean mask (batch, tokens), true at real tokens.

        Raises:
            ValueError: There are `input_ids` too, or a shape is wrong.
        """
        if input_ids is not None:
            raise ValueError("expected input_ids or inputs_embeds, got both")
        size = self.get_input_embeddings().weight.shape[1]
        if inputs_embeds.dim() != 3 or inputs_embeds.shape[-1] != size:
            raise ValueError(f"inputs_embeds has shape {tuple(inputs_embeds.shape)}, expected (batch, tokens, {size})")
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[:2], device=inputs_embeds.device)
        return inputs_embeds, attention_mask.bool()

    def prepare_padded(self, input_ids: Tensor | None, attention_mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Validates padded `input_ids (batch, tokens)`, converts them to integers, and derives the mask.

        Returns:
            The ids, and the boolean mask (batch, tokens), true at real tokens.

        Raises:
            ValueError: The shape is wrong.
        """
        if input_ids is None:
            raise ValueError("expected input_ids or inputs_embeds, got neither")
        if input_ids.dim() != 2:
            raise ValueError(
                f"input_ids has shape {tuple(input_ids.shape)}, expected (batch, tokens), "
                "or (total_tokens,) together with cu_seqlens"
            )
        mask = input_ids != self.config.pad_token_id if attention_mask is None else attention_mask.bool()
        # A tokenizer may return an empty text as a float tensor of shape (1, 0).
        return input_ids.long(), mask

    def build_output(self, sentence: Tensor, **fields: Any) -> BaseModelOutputWithPooling:
        """L2-normalizes sentence vectors (batch, embedding_size) and builds the encoder's output."""
        # Under autocast the last layer returns half precision; normalize (and later score) in the weights' dtype.
        # Weights in half precision: norms that are computed in float32 are closer to one.
        wide = sentence.to(torch.promote_types(self.dtype, torch.float32))
        return ConvSimEncoderOutput(pooler_output=normalize(wide).to(self.dtype), **fields)

    def look_up_sums(
        self, table: nn.Embedding, ids: Tensor, cu_seqlens: Tensor, weights: Tensor | None = None
    ) -> Tensor:
        """Sums the embeddings of each packed sentence, weighted by `weights (total_tokens,)`: (batch, dimensions)."""
        if table.sparse and torch.is_grad_enabled():
            return _SparseBagSums.apply(table.weight, ids, cu_seqlens[:-1], weights)
        return F.embedding_bag(ids, table.weight, cu_seqlens[:-1], mode="sum", per_sample_weights=weights)


class ResponseHead(nn.Module):
    """The feed-forward network v' = DNN(v) of the response side (Yang et al. 2018, figure 3) or the input network."""

    def __init__(self, config: ConvSimConfig, scaled: bool = True) -> None:
        super().__init__()
        self.residual, self.normalized = config.response_residual, config.normalize_response
        sizes = [config.embedding_size, *config.response_hidden_sizes]
        output_class = ZeroLinear if self.residual else nn.Linear
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.layers.append(output_class(sizes[-1], config.embedding_size))
        self.logit_scale = nn.Parameter(torch.empty(1)) if scaled and self.normalized else None

    def forward(self, embeddings: Tensor) -> Tensor:
        """Maps sentence embeddings to response vectors, both (batch, embedding_size).

        The score of an input and a response is the dot product u . v', which includes the learned scale, if any.
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
        """Expresses the network as a chain of plain dense layers, for formats that support no other layers.

        Returns:
            Layers (weight (out, in), bias (out,), activation "tanh", "relu" or "identity"), and the scale that
            multiplies their L2-normalized output; None if it is not normalized.
        """
        layers = [(layer.get_parameter("weight").data, layer.get_parameter("bias").data) for layer in self.layers]
        if self.residual:
            layers = self._carry_input(layers)
        activation = "relu" if self.residual else "tanh"
        dense = [*((weight, bias, activation) for weight, bias in layers[:-1]), (*layers[-1], "identity")]
        return dense, None if self.logit_scale is None else float(torch.exp(self.logit_scale))

    @staticmethod
    def _carry_input(layers: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Widens ReLU layers so that x reaches the last layer along with DNN(x): relu(x) - relu(-x) = x."""
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
    """The NLI classifier: (u1, u2, |u1 - u2|, u1 * u2), a ReLU layer, logits (Yang et al. 2018, section 2.4)."""

    def __init__(self, config: ConvSimConfig) -> None:
        super().__init__()
        self.hidden = nn.Linear(4 * config.embedding_size, config.nli_hidden_size)
        self.output = nn.Linear(config.nli_hidden_size, config.num_labels)

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Maps embeddings (batch, embedding_size) to logits (batch, num_labels), in the order of `config.id2label`."""
        # (batch, 4 * embedding_size)
        features = torch.cat([premise, hypothesis, (premise - hypothesis).abs(), premise * hypothesis], dim=-1)
        return self.output(F.relu(self.hidden(features)))


def cross_entropy(logits: Tensor, labels: Tensor, items: Tensor | int | None) -> Tensor:
    """The mean cross-entropy of logits (batch, classes) and labels (batch,), or their sum divided by `items`."""
    if items is None:
        return F.cross_entropy(logits, labels)
    return F.cross_entropy(logits, labels, reduction="sum") / items


@dataclass
class ConvSimMultitaskOutput(ModelOutput):
    """The output of a multitask model; fields whose texts were not given are None.

    Args:
        loss: The sum of the losses that were requested, a scalar.
        pooler_output: L2-normalized embeddings u (batch, embedding_size) of the inputs or premises.
        response_embeds: Response vectors v' (batch, embedding_size). The score of a pair is u . v', or u' . v'.
        query_embeds: The vectors u' (batch, embedding_size) of a model with an `input_network`, if responses are given.
        hypothesis_embeds: L2-normalized embeddings (batch, embedding_size) of the hypotheses.
        nli_logits: (batch, 3): entailment, neutral, contradiction.
    """

    loss: Tensor | None = None
    pooler_output: Tensor | None = None
    response_embeds: Tensor | None = None
    query_embeds: Tensor | None = None
    hypothesis_embeds: Tensor | None = None
    nli_logits: Tensor | None = None


class ConvSimForMultitask(ConvSimPreTrainedModel):
    """An encoder with the response network and the NLI classifier; its config is its encoder's.

    A file that defines an encoder may define its `ConvSimForSequenceClassification` too; `classifier_class` names it.
    """

    encoder_class: ClassVar[type[ConvSimEncoder]]
    classifier_class: ClassVar[type[ConvSimPreTrainedModel] | None] = None

    def __init__(self, config: ConvSimConfig) -> None:
        super().__init__(config)
        self.encoder = self.encoder_class(config)
        self.response_head = ResponseHead(config)
        self.nli_head = NliHead(config)
        self.input_head = ResponseHead(config, scaled=False) if config.input_network else None
        self.post_init()

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves weights, config and code in a folder that `AutoModel`, too, can open, as the bare encoder."""
        self.config.auto_map = {"AutoModel": _class_path(self.encoder_class)}
        if self.classifier_class is not None:
            self.config.auto_map["AutoModelForSequenceClassification"] = _class_path(self.classifier_class)
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
        labels: Tensor | None = None,
        return_loss: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> ConvSimMultitaskOutput:
        """Embeds inputs (or premises) and, if given, responses and hypotheses, from padded or packed batches.

        `transformers.Trainer` trains with the returned loss. The project's own trainer does more: it masks false
        negatives, gathers the responses of all processes, and mixes batches of several tasks.

        Args:
            labels: (batch,) classes of premises and hypotheses; the loss is the classifier's cross-entropy.
            return_loss: add the loss of response prediction, the cross-entropy of each input's own response among all
                responses of the batch (Yang et al. 2018, section 2.2).
            num_items_in_batch: what sums of losses are divided by, if gradients are accumulated; otherwise `batch`.

        Raises:
            ValueError: A loss is requested without the texts that it needs, or a shape is wrong.
        """
        if labels is not None and hypothesis_input_ids is None:
            raise ValueError("labels are the classes of pairs of sentences: expected hypothesis_input_ids too")
        if return_loss and response_input_ids is None:
            raise ValueError("return_loss requests the loss of response prediction: expected response_input_ids too")
        batches = [(input_ids, attention_mask, cu_seqlens)]
        if response_input_ids is not None:
            batches.append((response_input_ids, response_attention_mask, response_cu_seqlens))
        if hypothesis_input_ids is not None:
            batches.append((hypothesis_input_ids, hypothesis_attention_mask, hypothesis_cu_seqlens))
        pooled, *others = self._encode(batches)
        output = ConvSimMultitaskOutput(pooler_output=pooled)
        losses = []
        if response_input_ids is not None:
            output.response_embeds = self.response_head(others.pop(0))
            # Only if they are scored: DistributedDataParallel waits for a gradient of everything in the output.
            output.query_embeds = None if self.input_head is None else self.input_head(pooled)
            if return_loss:
                queries = pooled if output.query_embeds is None else output.query_embeds
                scores = queries @ output.response_embeds.T  # (batch, batch)
                own = torch.arange(len(scores), device=scores.device)
                losses.append(cross_entropy(scores, own, num_items_in_batch))
        if hypothesis_input_ids is not None:
            output.hypothesis_embeds = others.pop(0)
            output.nli_logits = self.nli_head(pooled, output.hypothesis_embeds)
            if labels is not None:
                losses.append(cross_entropy(output.nli_logits, labels, num_items_in_batch))
        output.loss = torch.stack(losses).sum() if losses else None
        return output

    def _encode(self, batches: list[tuple[Tensor, Tensor | None, Tensor | None]]) -> list[Tensor]:
        """Embeds each batch; packed batches are joined, so that each table has one sparse gradient."""
        are_packed = all(cu_seqlens is not None for _, _, cu_seqlens in batches)
        if len(batches) == 1 or not are_packed:
            return [self.encoder(*batch, return_dict=True).pooler_output for batch in batches]
        packed = [self.encoder.prepare_packed(*batch) for batch in batches]  # type: ignore[arg-type]
        offsets = [cu_seqlens for _, cu_seqlens in packed]
        joined = offsets[0]
        for cu_seqlens in offsets[1:]:
            joined = torch.cat([joined, joined[-1] + cu_seqlens[1:]])
        input_ids = torch.cat([ids for ids, _ in packed])
        pooled = self.encoder(input_ids, cu_seqlens=joined, return_dict=True).pooler_output
        return list(pooled.split([len(cu_seqlens) - 1 for cu_seqlens in offsets]))


class ConvSimForSequenceClassification(ConvSimPreTrainedModel):
    """An encoder with the NLI classifier, for pairs of sentences; its config is its encoder's.

    A tokenizer marks the second sentence of a pair with `token_type_ids` of 1.
    """

    encoder_class: ClassVar[type[ConvSimEncoder]]
    # A folder saved from a multitask model opens as a classifier, too.
    _keys_to_ignore_on_load_unexpected = [r"^(response|input)_head\."]  # noqa: RUF012

    def __init__(self, config: ConvSimConfig) -> None:
        super().__init__(config)
        self.encoder = self.encoder_class(config)
        self.nli_head = NliHead(config)
        self.post_init()

    def save_pretrained(self, save_directory: str | os.PathLike, *args: Any, **kwargs: Any) -> None:
        """Saves weights, config and code in a folder that `AutoModel`, too, can open, as the bare encoder."""
        self.config.auto_map = {"AutoModel": _class_path(self.encoder_class)}
        super().save_pretrained(save_directory, *args, **kwargs)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> SequenceClassifierOutput:
        """Classifies pairs of sentences.

        Args:
            input_ids: (batch, tokens), the tokens of both sentences, one after the other.
            attention_mask: (batch, tokens), 0 at padding.
            token_type_ids: (batch, tokens), 0 at the first sentence (the premise) and 1 at the second (the hypothesis).
            labels: (batch,) the pairs' classes; if they are given, the output has a loss, the cross-entropy.
            num_items_in_batch: what the sum of losses is divided by, if gradients are accumulated; otherwise `batch`.

        Returns:
            `logits` (batch, num_labels), in the order of `config.id2label`.

        Raises:
            ValueError: There are no `token_type_ids`, or a shape is wrong.
        """
        if token_type_ids is None:
            raise ValueError(
                "expected token_type_ids, which tell the two sentences apart: "
                "tokenizer(first, second, return_token_type_ids=True)"
            )
        input_ids, mask = self.encoder.prepare_padded(input_ids, attention_mask)
        sentences = [
            self.encoder(input_ids, mask & (token_type_ids == number), return_dict=True).pooler_output
            for number in (0, 1)
        ]
        logits = self.nli_head(*sentences)
        loss = None if labels is None else cross_entropy(logits, labels, num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def _class_path(cls: type) -> str:
    """A class as `auto_map` names it: its file, which `save_pretrained` copies, and its name."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


# With this, `save_pretrained` copies the code files and writes `auto_map`; subclasses inherit it.
ConvSimConfig.register_for_auto_class("AutoConfig")
ConvSimEncoder.register_for_auto_class("AutoModel")
ConvSimForMultitask.register_for_auto_class("AutoModelForPreTraining")
ConvSimForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
