"""The distances at which a Transformer's layers attend (Yang et al., 2018: short in the first layer, longer above)."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from modeling_convsim import ConvSimForMultitask
from modeling_convsim.encoding import Encoder

BATCH = 64


@torch.inference_mode()
def measure_attention(encoder: Any, sentences: Sequence[str]) -> dict[str, Any]:
    """The attention of a ConvSim Transformer by distance in tokens, the mean over heads.

    Returns:
        `layers` (layers, distances): the share of a layer's attention at each distance, from 0, with every word of all
        sentences counted once; `uniform` (distances,): the same for uniform attention over the words of a sentence;
        `sums` (layers, sentences): the mean distance of each word, summed over a sentence; `words` (sentences,).
    """
    distances = encoder.tokenizer.model_max_length
    layers = torch.zeros(encoder.model.config.num_hidden_layers, distances)
    uniform, sums, words = torch.zeros(distances), [], []
    for attention, mask in _attention_of_batches(encoder, sentences):
        positions = torch.arange(attention.shape[-1])
        distance = (positions[:, None] - positions).abs()  # (tokens, tokens)
        for layer, weights in enumerate(attention):  # (batch, tokens, tokens)
            layers[layer].index_add_(0, distance.flatten(), weights.sum(0).flatten())
        is_word = mask.float()
        same = is_word[:, :, None] * is_word[:, None] / is_word.sum(1).clamp(min=1)[:, None, None]
        uniform.index_add_(0, distance.flatten(), same.sum(0).flatten())
        sums.append((attention * distance).sum((2, 3)))
        words.append(mask.sum(1))
    return {
        "layers": (layers / layers.sum(1, keepdim=True)).tolist(),
        "uniform": (uniform / uniform.sum()).tolist(),
        "sums": torch.cat(sums, dim=1).tolist(),
        "words": torch.cat(words).tolist(),
    }


def _attention_of_batches(encoder: Encoder, sentences: Sequence[str]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The attention of each batch, mean over heads (layers, batch, tokens, tokens), and its mask (batch, tokens)."""
    model = encoder.model.encoder if isinstance(encoder.model, ConvSimForMultitask) else encoder.model
    for start in range(0, len(sentences), BATCH):
        batch = encoder.tokenizer(list(sentences[start : start + BATCH]), padding=True, truncation=True,
                                  return_tensors="pt")  # fmt: skip
        mask = batch["attention_mask"].bool()
        output = model(batch["input_ids"], batch["attention_mask"], output_attentions=True)
        attention = torch.stack([weights.float().mean(1) for weights in output.attentions])
        # Without the rows of padding; its columns have no weight.
        yield attention * mask[:, :, None], mask
