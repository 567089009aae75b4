"""The distances at which a Transformer's layers attend (Yang et al., 2018: short in the first layer, longer above)."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from data_scripts.errors import InputError
from modeling_convsim import ConvSimForMultitask
from modeling_convsim.encoding import Encoder
from trainer.encoders.protocol import SentenceEncoder

BATCH = 64


@torch.inference_mode()
def attention_by_distance(encoder: SentenceEncoder, sentences: Sequence[str]) -> list[list[float]]:
    """The share of each layer's attention at each distance in tokens, from 0: (layers, distances), rows sum to 1.

    The mean over heads and over the words of all sentences; every word counts once.

    Raises:
        InputError: the encoder is not a ConvSim Transformer.
    """
    encoder = _check_transformer(encoder)
    sums = torch.zeros(encoder.model.config.num_hidden_layers, encoder.tokenizer.model_max_length)
    for attention, _ in _attention_of_batches(encoder, sentences):
        distances = _token_distances(attention.shape[-1])
        for layer, weights in enumerate(attention):  # (batch, tokens, tokens)
            sums[layer].index_add_(0, distances.flatten(), weights.sum(0).flatten())
    return (sums / sums.sum(1, keepdim=True)).tolist()


@torch.inference_mode()
def distances_by_sentence(encoder: SentenceEncoder, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """For each sentence, the sum over its words of their mean distance (layers, sentences), and its words (sentences,).

    The sum of the distances over the sum of the words is the layer's mean distance.
    """
    sums, words = [], []
    for attention, mask in _attention_of_batches(encoder, sentences):
        sums.append((attention * _token_distances(attention.shape[-1])).sum((2, 3)))
        words.append(mask.sum(1))
    return torch.cat(sums, dim=1).numpy(), torch.cat(words).numpy()


def _attention_of_batches(
    encoder: SentenceEncoder, sentences: Sequence[str]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The attention of each batch, mean over heads (layers, batch, tokens, tokens), and its mask (batch, tokens)."""
    encoder = _check_transformer(encoder)
    model = encoder.model.encoder if isinstance(encoder.model, ConvSimForMultitask) else encoder.model
    for start in range(0, len(sentences), BATCH):
        batch = encoder.tokenizer(list(sentences[start : start + BATCH]), padding=True, truncation=True,
                                  return_tensors="pt")  # fmt: skip
        mask = batch["attention_mask"].bool()
        output = model(batch["input_ids"], batch["attention_mask"], output_attentions=True)
        attention = torch.stack([weights.float().mean(1) for weights in output.attentions])
        # Without the rows of padding; its columns have no weight.
        yield attention * mask[:, :, None], mask


def _check_transformer(encoder: SentenceEncoder) -> Encoder:
    if not isinstance(encoder, Encoder) or encoder.model.config.model_type != "convsim_transformer":
        raise InputError("attention: expected a ConvSim Transformer")
    return encoder


def uniform_by_distance(encoder: SentenceEncoder, sentences: Sequence[str]) -> list[float]:
    """The same shares for attention that is uniform over the words of a sentence: (distances,)."""
    assert isinstance(encoder, Encoder)
    sums = torch.zeros(encoder.tokenizer.model_max_length)
    for ids in encoder.tokenizer(list(sentences), truncation=True)["input_ids"]:
        distances = _token_distances(len(ids)).flatten()
        sums.index_add_(0, distances, torch.full((len(ids) ** 2,), 1 / max(len(ids), 1)))
    return (sums / sums.sum()).tolist()


def _token_distances(tokens: int) -> torch.Tensor:
    """The distance between each two of so many tokens, (tokens, tokens)."""
    positions = torch.arange(tokens)
    return (positions[:, None] - positions).abs()
