"""One tiny model of each kind, and the two forms of a batch."""

from collections.abc import Callable

import torch

from modeling_convsim import (
    ConvSimBilstmConfig,
    ConvSimBilstmForMultitask,
    ConvSimCbowConfig,
    ConvSimCbowForMultitask,
    ConvSimDanConfig,
    ConvSimDanForMultitask,
    ConvSimForMultitask,
    ConvSimTransformerConfig,
    ConvSimTransformerForMultitask,
)

HEADS = {"vocab_size": 60, "response_hidden_sizes": [10, 14], "nli_hidden_size": 8}
DAN = HEADS | {"word_embedding_size": 8, "bigram_buckets": 32, "hidden_sizes": [8, 9]}
BEST = {"residual": True, "learned_token_weights": True, "response_residual": True, "normalize_response": True}
BUILDERS: dict[str, Callable[[], ConvSimForMultitask]] = {
    "dan": lambda: ConvSimDanForMultitask(ConvSimDanConfig(**DAN, embedding_size=12)),
    "dan_best": lambda: ConvSimDanForMultitask(ConvSimDanConfig(**DAN, embedding_size=8, **BEST)),
    "dan_input_network": lambda: ConvSimDanForMultitask(
        ConvSimDanConfig(**DAN, embedding_size=8, **BEST, input_network=True)
    ),
    "dan_words": lambda: ConvSimDanForMultitask(ConvSimDanConfig(**DAN | {"bigram_buckets": 0}, embedding_size=12)),
    "transformer": lambda: ConvSimTransformerForMultitask(
        ConvSimTransformerConfig(
            **HEADS,
            embedding_size=12,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=20,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
    ),
    "cbow": lambda: ConvSimCbowForMultitask(ConvSimCbowConfig(**HEADS, embedding_size=12)),
    "bilstm": lambda: ConvSimBilstmForMultitask(
        ConvSimBilstmConfig(**HEADS, embedding_size=12, word_embedding_size=8, hidden_size=7, num_layers=2)
    ),
}
# Ids 0 and 1 are padding and unknown. A sentence of one word, empty ones at all three places, an unknown word.
SENTENCES = [[], [5, 6, 7], [8], [], [9, 10, 11, 1, 13, 9, 10], [14, 15], []]


def build(kind: str) -> ConvSimForMultitask:
    """A model in evaluation mode, every parameter drawn at random, so that none is zero or one by its start."""
    torch.manual_seed(0)
    model = BUILDERS[kind]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + 0.1)
    return model


def pack(sentences: list[list[int]]) -> dict[str, torch.Tensor]:
    lengths = torch.tensor([0] + [len(sentence) for sentence in sentences])
    ids = torch.tensor([token for sentence in sentences for token in sentence], dtype=torch.int64)
    return {"input_ids": ids, "cu_seqlens": lengths.cumsum(0)}


def pad(sentences: list[list[int]], width: int | None = None, left: bool = False) -> dict[str, torch.Tensor]:
    width = width or max(len(sentence) for sentence in sentences)
    # Padding holds a real id, so that a model that reads it gives another vector.
    ids = torch.full((len(sentences), width), 17)
    mask = torch.zeros_like(ids)
    for row, sentence in enumerate(sentences):
        places = slice(width - len(sentence), width) if left else slice(0, len(sentence))
        ids[row, places] = torch.tensor(sentence, dtype=torch.int64)
        mask[row, places] = 1
    return {"input_ids": ids, "attention_mask": mask}
