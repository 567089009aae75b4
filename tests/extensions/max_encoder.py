"""An encoder in one file outside of the package: the maximum of the words' embeddings and zero in each dimension."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import can_return_tuple

from modeling_convsim import ConvSimConfig, ConvSimEncoder, ConvSimForMultitask, register_encoder


@strict
class ConvSimMaxConfig(ConvSimConfig):
    model_type = "convsim_max"
    label: ClassVar[str] = "maxima"


class ConvSimMaxModel(ConvSimEncoder):
    config: ConvSimMaxConfig

    def __init__(self, config: ConvSimMaxConfig) -> None:
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
            input_ids, cu_seqlens = self.prepare_packed(input_ids, attention_mask, cu_seqlens)
            words = self.embed_tokens(input_ids)
            return self.build_output(torch.segment_reduce(words, "max", lengths=cu_seqlens.diff(), initial=0.0))
        input_ids, mask = self.prepare_padded(input_ids, attention_mask)
        words = self.embed_tokens(input_ids) * mask.unsqueeze(-1)
        return self.build_output(F.pad(words, (0, 0, 0, 1)).amax(1), last_hidden_state=words)


@register_encoder
class ConvSimMaxForMultitask(ConvSimForMultitask):
    config: ConvSimMaxConfig
    encoder_class = ConvSimMaxModel
