"""Freezes a pretrained encoder while its heads are trained: each distinct text is encoded once."""

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from modeling_convsim.modeling_base import ConvSimEncoder
from modeling_convsim.modeling_heads import ConvSimForMultitask

Vectors = dict[bytes, Tensor]  # the sentence vector (embedding_size,) of token ids


def freeze(encoder: ConvSimEncoder, vectors: Vectors) -> None:
    """Freeze an encoder; it caches the vectors of packed texts in `vectors`."""
    encoder.requires_grad_(False)
    read = encoder.forward

    def look_up(
        input_ids: Tensor, attention_mask: Tensor | None = None, cu_seqlens: Tensor | None = None, **options: Any
    ) -> BaseModelOutputWithPooling:
        if cu_seqlens is None:
            return read(input_ids, attention_mask, **options)
        ids, offsets = input_ids.cpu().numpy(), cu_seqlens.tolist()
        texts = [ids[start:end].tobytes() for start, end in pairwise(offsets)]
        if new := [text for text in dict.fromkeys(texts) if text not in vectors]:
            packed = [torch.from_numpy(np.frombuffer(text, ids.dtype).copy()) for text in new]
            starts = torch.tensor([0, *map(len, packed)]).cumsum(0)
            was_training = encoder.training
            encoder.eval()
            with torch.no_grad():
                found = read(torch.cat(packed).to(input_ids.device), cu_seqlens=starts).pooler_output
            encoder.train(was_training)
            vectors.update(zip(new, found, strict=True))
        return BaseModelOutputWithPooling(pooler_output=torch.stack([vectors[text] for text in texts]))

    encoder.forward = look_up


def copy_model(model: ConvSimForMultitask) -> ConvSimForMultitask:
    """A copy of a model that shares its encoder if it is frozen."""
    is_frozen = "forward" in vars(model.encoder)
    return copy.deepcopy(model, {id(model.encoder): model.encoder} if is_frozen else {})


def unfreeze(encoder: ConvSimEncoder) -> None:
    """Stop caching, and make the encoder trainable again."""
    encoder.__dict__.pop("forward", None)
    encoder.requires_grad_(True)
