"""Any pretrained text encoder of transformers as the encoder: its token vectors, pooled and L2-normalized.

Not in the paper. `trainer/training/backbone.py` makes such a model from a folder or a repository of the Hub.
"""

from dataclasses import field
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import CONFIG_MAPPING, AutoConfig, AutoModel, BertConfig, PreTrainedConfig
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .modeling_base import ConvSimEncoder, ConvSimPreTrainedModel
from .modeling_config import ConvSimConfig
from .modeling_heads import ConvSimForMultitask, ConvSimForSequenceClassification

SIDES = ("input", "query", "response")


@strict
class ConvSimPretrainedConfig(ConvSimConfig):
    """Config of a pretrained encoder; see `ConvSimConfig` for the fields that all encoders share.

    `vocab_size`, `embedding_size` and `pad_token_id` are those of the backbone. Training starts at its embeddings, of
    inputs and of responses: the response network is residual and L2-normalized by default.

    Args:
        backbone_config: Config of the pretrained encoder, of a type that transformers implements; by default that of
            BERT with `vocab_size` tokens.
        pooling: How token vectors become a sentence vector: "mean", "cls" (the first token's) or "last" (the last
            token's).
        prompts: Text that is prepended to the texts of a side: "input", "query" or "response". Token ids that are
            given to the model include it.
        max_tokens: Most tokens of a text that the backbone reads, with special tokens; None if there is no limit.
    """

    model_type = "convsim_pretrained"
    label: ClassVar[str] = "Pretrained"
    attribute_map: ClassVar[dict[str, str]] = ConvSimConfig.attribute_map | {"hidden_size": "embedding_size"}
    sub_configs: ClassVar[dict[str, Any]] = {"backbone_config": AutoConfig}

    response_residual: bool = True
    normalize_response: bool = True
    backbone_config: dict[str, Any] | PreTrainedConfig | None = None
    pooling: Literal["mean", "cls", "last"] = "mean"
    prompts: dict[str, str] = field(default_factory=dict)
    max_tokens: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Reads the backbone's config, and copies its sizes."""
        backbone: Any = self.backbone_config
        if backbone is None:
            backbone = BertConfig(vocab_size=self.vocab_size, pad_token_id=self.pad_token_id)
        elif isinstance(backbone, dict):
            backbone = CONFIG_MAPPING[backbone["model_type"]].from_dict(backbone)
        self.backbone_config = backbone
        self.vocab_size, self.embedding_size = backbone.vocab_size, backbone.hidden_size
        self.pad_token_id = backbone.pad_token_id or 0
        super().__post_init__(**kwargs)

    def prompt(self, side: str) -> str:
        """See `ConvSimConfig`."""
        return self.prompts.get(side, "")

    def validate_prompts(self) -> None:
        """Requires prompts of sides that exist."""
        if unknown := set(self.prompts) - set(SIDES):
            raise ValueError(f"prompts has {', '.join(sorted(unknown))}, expected some of {', '.join(SIDES)}")


class _DenseModel(ConvSimPreTrainedModel):
    """What a pretrained encoder's classes share: all gradients are dense, those of its embedding matrix too."""

    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True

    def embedding_tables(self) -> list[nn.Parameter]:
        """Returns no tables: a sparse optimizer with its own learning rate is not what the backbone was trained by."""
        return []

    def set_sparse_gradients(self, enabled: bool) -> None:
        """Leaves the gradients dense."""


def _gather(values: Tensor, indices: Tensor) -> Tensor:
    """Selects tokens (batch, tokens, …) of each sentence by their positions (batch, selected)."""
    # take_along_dim cannot be exported for any number of sentences and tokens.
    dimensions = values.shape[2:]
    return values.gather(1, indices.view(*indices.shape, *[1] * len(dimensions)).expand(*indices.shape, *dimensions))


class ConvSimPretrainedModel(_DenseModel, ConvSimEncoder):
    """A pretrained encoder of transformers and a pooling of its token vectors."""

    config: ConvSimPretrainedConfig
    pads_batches: ClassVar[bool] = True

    def __init__(self, config: ConvSimPretrainedConfig) -> None:
        super().__init__(config)
        self.backbone = AutoModel.from_config(config.backbone_config)
        if getattr(self.backbone, "pooler", None) is not None:
            self.backbone.pooler = None  # not used, so that its weights would have no gradient
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Returns the backbone's word embeddings."""
        return self.backbone.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        """Replaces the backbone's word embeddings."""
        self.backbone.set_input_embeddings(value)
        for config in (self.backbone.config, self.config.backbone_config):
            config.vocab_size = value.num_embeddings  # type: ignore[union-attr]

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`; the vector of an empty text is zero.

        `hidden_states` and `attentions` (batch, heads, tokens, tokens) are those of the backbone, which most backbones
        return only with eager attention.
        """
        if cu_seqlens is not None:
            ids, _ = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            read = lambda ids, mask: self._read(ids, mask.sum(1))[1]  # noqa: E731
            return self.build_output(self.read_in_groups(ids, cu_seqlens.long(), read))
        options = {name: self.requested(kwargs, name) for name in ("output_hidden_states", "output_attentions")}
        ids, mask = self.prepare_padded(input_ids, attention_mask)
        # Backbones number positions from the first one, so the tokens are moved before the padding, wherever it is.
        lengths = mask.sum(1)
        moved = torch.where(mask, mask.cumsum(1), lengths.unsqueeze(1) + (~mask).cumsum(1)) - 1  # (batch, tokens)
        positions = torch.arange(mask.shape[1], device=mask.device).expand_as(moved)
        order = torch.zeros_like(moved).scatter(1, moved, positions)
        output, vectors = self._read(_gather(ids, order), lengths, **options)
        last, *states = (
            state if state is None else _gather(state[:, : mask.shape[1]], moved) * mask.unsqueeze(-1)
            for state in (output.last_hidden_state, *(output.hidden_states or ()))
        )
        if states and states[-1] is not None:  # that of some backbones lacks the last layer norm
            states[-1] = last
        attentions = []
        for weights in output.attentions or ():  # (batch, heads, tokens, tokens)
            rows = _gather(weights.transpose(1, 2), moved)  # (batch, selected, heads, tokens)
            attentions.append(_gather(rows.transpose(1, 3), moved).permute(0, 2, 3, 1))
        return self.build_output(
            vectors,
            last_hidden_state=last,
            hidden_states=tuple(states) if options["output_hidden_states"] else None,
            attentions=tuple(attentions) if options["output_attentions"] else None,
        )

    def _read(self, ids: Tensor, lengths: Tensor, **options: Any) -> tuple[BaseModelOutputWithPooling, Tensor]:
        """Reads sentences padded at their ends.

        Args:
            ids: (sentences, width).
            lengths: number of tokens of each sentence (sentences,).
            **options: such as `output_hidden_states`.

        Returns:
            The backbone's output, undefined at padding, of sentences of at least one token; and sentence vectors
            (sentences, hidden_size), zero for sentences without tokens.
        """
        sentences, width = ids.shape
        if not sentences:
            empty = torch.zeros(0, width, self.config.embedding_size, dtype=self.dtype, device=ids.device)
            return BaseModelOutputWithPooling(empty, hidden_states=(empty,)), empty.sum(1)
        if not width:
            ids = F.pad(ids, (0, 1))
        steps = torch.arange(ids.shape[1], device=ids.device)
        is_token = steps < lengths.unsqueeze(1)  # (sentences, width)
        # Attention over no token at all would be undefined, so empty sentences attend to their first padding.
        attended = steps < lengths.clamp_min(1).unsqueeze(1)
        ids = ids.masked_fill(~is_token, self.config.pad_token_id)
        output = self.backbone(input_ids=ids, attention_mask=attended.long(), return_dict=True, **options)
        return output, self._pool(output.last_hidden_state, is_token, lengths)

    def _pool(self, states: Tensor, is_token: Tensor, lengths: Tensor) -> Tensor:
        """Pools hidden states (sentences, width, hidden_size), in float32: (sentences, hidden_size)."""
        if self.config.pooling == "mean":
            sums = (states * is_token.unsqueeze(-1)).sum(1, dtype=torch.promote_types(states.dtype, torch.float32))
            return sums / lengths.clamp_min(1).unsqueeze(-1)
        positions = (lengths - 1).clamp_min(0) if self.config.pooling == "last" else torch.zeros_like(lengths)
        vectors = _gather(states, positions.unsqueeze(1)).squeeze(1)
        return vectors * (lengths > 0).unsqueeze(-1)


class ConvSimPretrainedForSequenceClassification(_DenseModel, ConvSimForSequenceClassification):
    """A pretrained encoder with the NLI classifier; its tokenizer gives each sentence of a pair its special tokens."""

    config: ConvSimPretrainedConfig
    encoder_class = ConvSimPretrainedModel


class ConvSimPretrainedForMultitask(_DenseModel, ConvSimForMultitask):
    """A pretrained encoder with the response network and the NLI classifier."""

    config: ConvSimPretrainedConfig
    encoder_class = ConvSimPretrainedModel
    classifier_class = ConvSimPretrainedForSequenceClassification
