"""A tiny model of every registered encoder, variants of the DAN, its classes, and the two forms of a batch."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ENCODERS, ConvSimForMultitask, ConvSimPreTrainedModel

# Small values for the fields that a config may have.
HEADS: dict[str, Any] = {"vocab_size": 60, "response_hidden_sizes": [10, 14], "nli_hidden_size": 8}
DAN: dict[str, Any] = HEADS | {"word_embedding_size": 8, "bigram_buckets": 32, "hidden_sizes": [8, 9]}
TINY: dict[str, Any] = DAN | {
    "embedding_size": 12,
    "hidden_size": 16,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
BEST = {"residual": True, "learned_token_weights": True, "response_residual": True, "normalize_response": True}
BERT: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 80,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
MODERN_BERT: dict[str, Any] = BERT | {
    "model_type": "modernbert",
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "attention_dropout": 0.0,
    "global_attn_every_n_layers": 2,
    "local_attention": 4,
}
XLM_ROBERTA: dict[str, Any] = BERT | {"model_type": "xlm-roberta", "pad_token_id": 0}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "dan_best": ("dan", {"embedding_size": 8, **BEST}),
    "dan_input_network": ("dan", {"embedding_size": 8, **BEST, "input_network": True}),
    "dan_lexical": ("dan", {"embedding_size": 8, **BEST, "lexical_size": 40, "lexical_share": 0.3}),
    "dan_sum": ("dan", {"embedding_size": 8, **BEST, "hidden_sizes": []}),
    "dan_tanh": ("dan", {"embedding_size": 8, **BEST, "hidden_sizes": [], "dynamic_tanh": True}),
    "dan_words": ("dan", {"bigram_buckets": 0}),
    "dan_single_sum": ("dan", {"single_sum": True}),
    "pretrained": ("pretrained", {"backbone_config": BERT}),
    "pretrained_modernbert": ("pretrained", {"backbone_config": MODERN_BERT, "pooling": "cls"}),
    "pretrained_xlm_roberta": ("pretrained", {"backbone_config": XLM_ROBERTA, "pooling": "last"}),
    "transformer": ("transformer", {}),
    "transformer_residual": ("transformer", {**BEST, "residual_scale": 0.5}),
    "transformer_residual_words": ("transformer", {"residual": True}),
}
# The parameters of most tests: of each encoder, the variant that has the parameters of the others, too.
KINDS = ["bilstm", "cbow", "dan_best", "pretrained", "transformer_residual"]
PARTS = ["encoder", "multitask", "classifier"]  # the classes of each kind
# Ids 0 and 1 are the padding and unknown token; `pad` pads with 17. Empty sentences come first, last and in between.
SENTENCES = [[], [5, 6, 7], [8], [], [9, 10, 11, 1, 13, 9, 10], [14, 17], []]


def build(kind: str, **changed: Any) -> ConvSimForMultitask:
    """Builds the encoder of a name, or a variant, in evaluation mode, with some fields of its config changed.

    Every parameter is random, so that none is initialized to zero or one.
    """
    torch.manual_seed(0)
    name, options = VARIANTS.get(kind, (kind, {}))
    config_class = ENCODERS[name].config_class
    names = {field.name for field in fields(config_class)}
    sizes = {key: value for key, value in TINY.items() if key in names}
    model = ENCODERS[name](config_class(**sizes | options | changed)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3 + 0.1)
    return model


def save(model: ConvSimPreTrainedModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    """Saves a model and its tokenizer; returns the folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def build_part(kind: str, part: str) -> ConvSimPreTrainedModel:
    """Builds one of the `PARTS` of an encoder, all with the same weights."""
    model = build(kind)
    if part == "encoder":
        return model.encoder
    if part == "multitask":
        return model
    assert model.classifier_class is not None
    classifier = model.classifier_class(model.config).eval()
    classifier.encoder, classifier.nli_head = model.encoder, model.nli_head
    return classifier


def part_inputs(part: str, labels: bool = True) -> dict[str, Any]:
    """A padded batch for one of the `PARTS`; `labels` request every loss that it has."""
    batch: dict[str, Any] = pad(SENTENCES)
    if part == "classifier":
        # The second sentence starts in the middle.
        batch["token_type_ids"] = (torch.arange(7) >= 3).long().expand(7, 7)
    elif part == "multitask":
        for prefix, sentences in (("response", SENTENCES[::-1]), ("hypothesis", SENTENCES[2:] + SENTENCES[:2])):
            batch |= {f"{prefix}_{name}": value for name, value in pad(sentences).items()}
        if labels:
            batch["return_loss"] = True
    if labels and part != "encoder":
        batch["labels"] = torch.tensor([0, 1, 2, 1, 2, 0, 0])
    return batch


def pack(sentences: list[list[int]]) -> dict[str, torch.Tensor]:
    lengths = torch.tensor([0] + [len(sentence) for sentence in sentences])
    ids = torch.tensor([token for sentence in sentences for token in sentence], dtype=torch.int64)
    return {"input_ids": ids, "cu_seqlens": lengths.cumsum(0)}


def pad(sentences: list[list[int]], width: int | None = None, left: bool = False) -> dict[str, torch.Tensor]:
    width = width or max(len(sentence) for sentence in sentences)
    # Padding holds a real id, so that a model that reads padding computes a different vector.
    ids = torch.full((len(sentences), width), 17)
    mask = torch.zeros_like(ids)
    for row, sentence in enumerate(sentences):
        positions = slice(width - len(sentence), width) if left else slice(0, len(sentence))
        ids[row, positions] = torch.tensor(sentence, dtype=torch.int64)
        mask[row, positions] = 1
    return {"input_ids": ids, "attention_mask": mask}
