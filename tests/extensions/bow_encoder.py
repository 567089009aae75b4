"""An encoder in one file outside of the package: the sum of word embeddings."""

from typing import Any, ClassVar

import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from modeling_convsim import ConvSimConfig, ConvSimEncoder, ConvSimForMultitask, register_encoder


@strict
class ConvSimBowConfig(ConvSimConfig):
    model_type = "convsim_bow"
    label: ClassVar[str] = "bag of words"

    embedding_size: int = 8


class ConvSimBowModel(ConvSimEncoder):
    config: ConvSimBowConfig

    def __init__(self, config: ConvSimBowConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        if cu_seqlens is not None:
            ids, cu_seqlens = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            return self.build_output(self.look_up_sums(self.embed_tokens, ids, cu_seqlens))
        ids, mask = self.prepare_padded(input_ids, attention_mask)
        words = F.embedding(ids, self.embed_tokens.weight) * mask.unsqueeze(-1)  # (batch, tokens, embedding_size)
        return self.build_output(words.sum(1), last_hidden_state=words)


@register_encoder
class ConvSimBowForMultitask(ConvSimForMultitask):
    config: ConvSimBowConfig
    encoder_class = ConvSimBowModel
