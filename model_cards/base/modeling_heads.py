"""The heads over an encoder: response network and NLI classifier, and the models that have them."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import initialization as init
from transformers.loss.loss_utils import fixed_cross_entropy
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.processing_utils import Unpack
from transformers.utils import ModelOutput, TransformersKwargs, can_return_tuple

from .modeling_averaging import token_codes
from .modeling_base import ConvSimEncoder, ConvSimPreTrainedModel, ZeroLinear, normalize
from .modeling_config import ConvSimConfig
from .modeling_lexical import LexicalChannel


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

        The score of an input and a response is the dot product u . v'. Where vectors are L2-normalized, it is their
        cosine, which the learned `scale` multiplies in the loss only.
        """
        *hidden_layers, output_layer = self.layers
        hidden = embeddings
        for layer in hidden_layers:
            hidden = F.relu(layer(hidden)) if self.residual else torch.tanh(layer(hidden))
        response = output_layer(hidden)
        if self.residual:
            response = embeddings + response
        return normalize(response) if self.normalized else response

    @property
    def scale(self) -> Tensor | None:
        """What multiplies scores in the loss, (1,); None if response vectors are not normalized."""
        return None if self.logit_scale is None else torch.exp(self.logit_scale)

    @torch.no_grad()
    def as_dense_layers(self) -> list[tuple[Tensor, Tensor, str]]:
        """Expresses the network as a chain of plain dense layers, for formats that support no other layers.

        Returns:
            Layers (weight (out, in), bias (out,), activation "tanh", "relu" or "identity"). Their output is to be
            L2-normalized if `normalized`.
        """
        layers = [(layer.get_parameter("weight").data, layer.get_parameter("bias").data) for layer in self.layers]
        if self.residual:
            layers = self._carry_input(layers)
        activation = "relu" if self.residual else "tanh"
        return [*((weight, bias, activation) for weight, bias in layers[:-1]), (*layers[-1], "identity")]

    @staticmethod
    def _carry_input(layers: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Widens ReLU layers so that x reaches the last layer along with DNN(x): relu(x) - relu(-x) = x.

        relu(x + 1) - 1 would need half as many units, but bfloat16 rounds x + 1.
        """
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
        self.output = nn.Linear(config.nli_hidden_size, cast(int, config.num_labels))

    def forward(self, premise: Tensor, hypothesis: Tensor) -> Tensor:
        """Maps embeddings (batch, embedding_size) to logits (batch, num_labels), in the order of `config.id2label`."""
        # (batch, 4 * embedding_size)
        features = torch.cat([premise, hypothesis, (premise - hypothesis).abs(), premise * hypothesis], dim=-1)
        return self.output(F.relu(self.hidden(features)))


@dataclass
class ConvSimMultitaskOutput(ModelOutput):
    """The output of a multitask model; fields whose texts were not given are None.

    Args:
        loss: The sum of the losses that were requested, a scalar.
        pooler_output: L2-normalized embeddings u (batch, embedding_size) of the inputs or premises.
        response_embeds: Response vectors v' (batch, embedding_size), L2-normalized with `normalize_response`. The score
            of a pair is u . v', or u' . v'. With a `lexical_share`, (batch, embedding_size + lexical_size), except in
            training.
        response_scale: With `normalize_response`, what multiplies the scores in the loss, (1,).
        query_embeds: The vectors u' of a model with an `input_network` or a `lexical_share`, if responses are given,
            shaped like `response_embeds`.
        hypothesis_embeds: L2-normalized embeddings (batch, embedding_size) of the hypotheses.
        nli_logits: (batch, 3): entailment, neutral, contradiction.
    """

    loss: Tensor | None = None
    pooler_output: Tensor | None = None
    response_embeds: Tensor | None = None
    response_scale: Tensor | None = None
    query_embeds: Tensor | None = None
    hypothesis_embeds: Tensor | None = None
    nli_logits: Tensor | None = None


def scale_responses(output: ConvSimMultitaskOutput) -> Tensor:
    """Returns the response vectors (batch, size) whose dot products with queries are the loss's logits."""
    assert output.response_embeds is not None
    return output.response_embeds if output.response_scale is None else output.response_scale * output.response_embeds


class ConvSimForMultitask(ConvSimPreTrainedModel):
    """An encoder with the response network and the NLI classifier; its config is its encoder's.

    A file that defines an encoder may define its `ConvSimForSequenceClassification` too; `classifier_class` names it.
    """

    encoder_class: ClassVar[type[ConvSimEncoder]]
    accepts_loss_kwargs = False  # If gradients are accumulated, the Trainer divides the loss.

    def __init__(self, config: ConvSimConfig) -> None:
        super().__init__(config)
        self.encoder = self.encoder_class(config)
        self.response_head = ResponseHead(config)
        self.nli_head = NliHead(config)
        self.input_head = ResponseHead(config, scaled=False) if config.input_network else None
        self.lexical_channel = None
        if config.lexical_size:
            self.lexical_channel = LexicalChannel(config.vocab_size, config.lexical_size, config.pad_token_id)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, ResponseHead) and module.logit_scale is not None:
            init.constant_(module.logit_scale, math.log(self.config.logit_scale_init))
        elif isinstance(module, LexicalChannel):
            init.ones_(module.weights)
            init.copy_(module.codes, torch.tensor(token_codes(*module.codes.shape)))

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Resizes everything that has a row for each token."""
        embeddings = super().resize_token_embeddings(*args, **kwargs)
        if self.lexical_channel is not None:
            self.lexical_channel.resize(self.config.vocab_size)
        return embeddings

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
        **kwargs: Any,
    ) -> ConvSimMultitaskOutput:
        """Embeds inputs (or premises) and, if given, responses and hypotheses, from padded or packed batches.

        `transformers.Trainer` trains with the returned loss. The trainer of this project does more: it masks false
        negatives, gathers the responses of all processes, and mixes batches of several tasks.

        Args:
            labels: (batch,) classes of premises and hypotheses; the loss is the classifier's cross-entropy.
            return_loss: add the loss of response prediction, the cross-entropy of each input's own response among all
                responses of the batch (Yang et al. 2018, section 2.2).
            num_items_in_batch: what sums of losses are divided by, if gradients are accumulated; otherwise `batch`.
            **kwargs: other arguments, which are ignored.

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
            output.response_embeds = self.response_vectors(others.pop(0), *batches[1])
            output.response_scale = self.response_head.scale
            # Only if they are scored: DistributedDataParallel waits for a gradient of everything in the output.
            if self.has_query_vectors:
                output.query_embeds = self.query_vectors(pooled, *batches[0])
            if return_loss:
                queries = pooled if output.query_embeds is None else output.query_embeds
                scores = queries @ scale_responses(output).T  # (batch, batch)
                own = torch.arange(len(scores), device=scores.device)
                losses.append(fixed_cross_entropy(scores, own, num_items_in_batch))  # type: ignore[arg-type]
        if hypothesis_input_ids is not None:
            output.hypothesis_embeds = others.pop(0)
            output.nli_logits = self.nli_head(pooled, output.hypothesis_embeds)
            if labels is not None:
                losses.append(fixed_cross_entropy(output.nli_logits, labels, num_items_in_batch))  # type: ignore[arg-type]
        # The loss comes first in the tuple of an output.
        return ConvSimMultitaskOutput(loss=torch.stack(losses).sum() if losses else None, **output)

    @property
    def has_query_vectors(self) -> bool:
        """Whether responses are scored by other vectors of the input than its sentence embedding."""
        return self.input_head is not None or self._uses_lexical_channel

    @property
    def _uses_lexical_channel(self) -> bool:
        return self.config.lexical_share > 0 and not self.training

    def query_vectors(
        self,
        embeddings: Tensor,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """Maps sentence embeddings (batch, embedding_size), and the tokens they are of, to the vectors of queries.

        Returns:
            (batch, embedding_size), or (batch, embedding_size + lexical_size) with a `lexical_share`. Their dot
            products with `response_vectors` are the scores.
        """
        vectors = embeddings if self.input_head is None else self.input_head(embeddings)
        return self._append_lexical(vectors, input_ids, attention_mask, cu_seqlens)

    def response_vectors(
        self,
        embeddings: Tensor,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> Tensor:
        """As `query_vectors`, for responses."""
        return self._append_lexical(self.response_head(embeddings), input_ids, attention_mask, cu_seqlens)

    def _append_lexical(
        self, vectors: Tensor, input_ids: Tensor, attention_mask: Tensor | None, cu_seqlens: Tensor | None
    ) -> Tensor:
        if self.lexical_channel is None or not self._uses_lexical_channel:
            return vectors
        lexical = self.lexical_channel(input_ids, attention_mask, cu_seqlens)
        return self.lexical_channel.append(vectors, lexical, self.config.lexical_share)

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
    # If gradients are accumulated, the Trainer divides the loss: only the cross-entropy reads `num_items_in_batch`.
    accepts_loss_kwargs = False
    # A folder saved from a multitask model opens as a classifier, too.
    _keys_to_ignore_on_load_unexpected = [r"^(response|input)_head\.", r"^lexical_channel\."]  # noqa: RUF012

    def __init__(self, config: ConvSimConfig) -> None:
        super().__init__(config)
        self.encoder = self.encoder_class(config)
        self.nli_head = NliHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> SequenceClassifierOutput:
        """Classifies pairs of sentences.

        Args:
            input_ids: (batch, tokens), the tokens of both sentences, one after the other.
            attention_mask: (batch, tokens), 0 at padding.
            token_type_ids: (batch, tokens), 0 at the first sentence (the premise) and 1 at the second (the hypothesis).
            labels: (batch,) the pairs' classes; if they are given, the output has a loss, the cross-entropy, unless
                `config.problem_type` or `num_labels` request another one, as in transformers' classifiers.
            **kwargs: `num_items_in_batch`, which divides the sum of cross-entropies, instead of `batch`.

        Returns:
            `logits` (batch, num_labels), in the order of `config.id2label`.

        Raises:
            ValueError: There are no `token_type_ids`, or a shape is wrong.
        """
        if token_type_ids is None:
            raise ValueError(
                "expected token_type_ids, which distinguish the two sentences: "
                "tokenizer(first, second, return_token_type_ids=True)"
            )
        input_ids, mask = self.encoder.prepare_padded(input_ids, attention_mask)
        parts = (mask & (token_type_ids == sentence) for sentence in (0, 1))
        logits = self.nli_head(*(self.encoder(input_ids, part, return_dict=True).pooler_output for part in parts))
        loss = None
        if labels is not None:
            items = kwargs.get("num_items_in_batch")
            loss = self.loss_function(labels, logits, self.config, num_items_in_batch=items)
        return SequenceClassifierOutput(loss=loss, logits=logits)


ConvSimForMultitask.register_for_auto_class("AutoModelForPreTraining")
ConvSimForSequenceClassification.register_for_auto_class("AutoModelForSequenceClassification")
