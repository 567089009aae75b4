"""How far a Transformer's layers look (Yang et al., 2018: near in the first layer, further in higher ones)."""

from collections.abc import Sequence

import torch

from data_scripts.errors import InputError
from modeling_convsim import ConvSimForMultitask
from modeling_convsim.encoding import Encoder
from trainer.encoders.protocol import SentenceEncoder

BATCH = 64


@torch.inference_mode()
def attention_by_distance(encoder: SentenceEncoder, sentences: Sequence[str]) -> list[list[float]]:
    """For each layer the share of its attention at each distance in tokens, from 0: (layers, distances), rows sum to 1.

    The mean over heads, words and sentences; every word counts once.

    Raises:
        InputError: the encoder is no Transformer of ours.
    """
    if not isinstance(encoder, Encoder) or encoder.model.config.model_type != "convsim_transformer":
        raise InputError("attention: expected a Transformer of ours")
    model = encoder.model.encoder if isinstance(encoder.model, ConvSimForMultitask) else encoder.model
    most = encoder.tokenizer.model_max_length
    sums = torch.zeros(model.config.num_hidden_layers, most)
    for start in range(0, len(sentences), BATCH):
        batch = encoder.tokenizer(list(sentences[start : start + BATCH]), padding=True, truncation=True,
                                  return_tensors="pt")  # fmt: skip
        mask = batch["attention_mask"].bool()
        output = model(batch["input_ids"], batch["attention_mask"], output_attentions=True)
        width = mask.shape[1]
        distances = (torch.arange(width)[:, None] - torch.arange(width)).abs()
        for layer, weights in enumerate(output.attentions):
            kept = weights.float().mean(1) * mask[:, :, None]  # padding attends to nothing, nor is it attended to
            sums[layer].index_add_(0, distances.flatten(), kept.sum(0).flatten())
    return (sums / sums.sum(1, keepdim=True)).tolist()


def uniform_by_distance(encoder: SentenceEncoder, sentences: Sequence[str]) -> list[float]:
    """The same shares for attention that looks at all words of a sentence alike: (distances,)."""
    assert isinstance(encoder, Encoder)
    sums = torch.zeros(encoder.tokenizer.model_max_length)
    for ids in encoder.tokenizer(list(sentences), truncation=True)["input_ids"]:
        places = torch.arange(len(ids))
        distances = (places[:, None] - places).abs().flatten()
        sums.index_add_(0, distances, torch.full((len(ids) ** 2,), 1 / max(len(ids), 1)))
    return (sums / sums.sum()).tolist()
