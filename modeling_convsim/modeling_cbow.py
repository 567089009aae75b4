"""The Siamese CBOW encoder: a sentence is the mean of its words' embeddings (Kenter et al. 2016, section 2)."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .modeling_base import ConvSimEncoder
from .modeling_config import ConvSimConfig
from .modeling_heads import ConvSimForMultitask, ConvSimForSequenceClassification


@strict
class ConvSimCbowConfig(ConvSimConfig):
    """Config of the Siamese CBOW encoder; see `ConvSimConfig` for the fields.

    `embedding_size` is also the size of the word embeddings, which are initialized from N(0, 0.01).
    """

    model_type = "convsim_cbow"
    label: ClassVar[str] = "averages"
    attribute_map: ClassVar[dict[str, str]] = ConvSimConfig.attribute_map | {"hidden_size": "embedding_size"}

    embedding_size: int = 300
    initializer_range: float | int | None = 0.01


class ConvSimCbowModel(ConvSimEncoder):
    """The mean of the embeddings of a sentence's known words; unknown words are ignored."""

    config: ConvSimCbowConfig

    def __init__(self, config: ConvSimCbowConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.post_init()

    @torch.no_grad()
    def scale_tokens(self, weights: Tensor) -> None:
        """Multiplies every word embedding by its weight, because a mean of scaled vectors is the weighted mean."""
        self.embed_tokens.weight.mul_(weights)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> BaseModelOutputWithPooling:
        """See `ConvSimEncoder`; the embedding of a sentence without a known word is zero.

        `pooler_output` is L2-normalized, so that a dot product is the paper's cosine (equation 2).
        """
        if cu_seqlens is not None:
            input_ids, cu_seqlens = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            known = input_ids != self.config.unk_token_id
            known_offsets = F.pad(known.cumsum(0), (1, 0))[cu_seqlens]
            sums, counts = self.look_up_sums(self.embed_tokens, input_ids[known], known_offsets), known_offsets.diff()
            words = None
        else:
            input_ids, mask = self.prepare_padded(input_ids, attention_mask)
            known = (input_ids != self.config.unk_token_id) & mask
            words = self.embed_tokens(input_ids) * known.unsqueeze(-1)  # (batch, tokens, embedding_size)
            sums, counts = words.sum(1), known.sum(1)
        # (batch, embedding_size)
        means = sums / counts.clamp_min(1).unsqueeze(-1).to(sums.dtype)
        return self.build_output(means, last_hidden_state=words)


class ConvSimCbowForSequenceClassification(ConvSimForSequenceClassification):
    """The Siamese CBOW encoder with the NLI classifier."""

    config: ConvSimCbowConfig
    encoder_class = ConvSimCbowModel


class ConvSimCbowForMultitask(ConvSimForMultitask):
    """The Siamese CBOW encoder with the response network and the NLI classifier."""

    config: ConvSimCbowConfig
    encoder_class = ConvSimCbowModel
    classifier_class = ConvSimCbowForSequenceClassification
