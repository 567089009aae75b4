"""Initial word embeddings and token weights of a new encoder."""

import dataclasses
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.data.datasets import RunData, training_text_columns
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.token_weights import sif_weights
from trainer.tasks import Task


def initialize_embeddings(
    arguments: Arguments,
    model: ConvSimForMultitask,
    tasks: dict[str, Task],
    data: RunData,
    tokenizer: PreTrainedTokenizerFast,
    show_progress: bool,
) -> None:
    """Initialize the word embeddings and token weights of a new encoder as `word_vectors` and `token_weights` specify.

    Raises:
        InputError: the dimension of the vectors is not that of the word embeddings.
    """
    columns = [column for task in tasks.values() if task.adds_texts for column in task.columns]
    table = model.get_parameter("encoder.embed_tokens.weight")  # (vocab_size, width)
    if arguments.word_vectors == "skip_gram":
        # gensim takes a second to import.
        from trainer.data.skip_gram import cached_word_vectors

        further = _further_texts(arguments, data, tokenizer, show_progress)
        vectors = cached_word_vectors(
            columns + further, len(table), table.shape[1], Path(arguments.cache_dir), arguments.seed
        )
        _set_word_embeddings(model, vectors)
    elif arguments.word_vectors != "random":
        from trainer.data.word_vectors import read_word_vectors

        vectors = read_word_vectors(Path(arguments.word_vectors), tokenizer, len(table))
        _require_width(arguments, model, vectors.shape[1], table.shape[1])
        _set_word_embeddings(model, vectors)
    if arguments.token_weights == "sif":
        weights = torch.from_numpy(sif_weights(columns, len(table))).to(table.dtype).unsqueeze(1)
        model.encoder.scale_tokens(weights)


def _further_texts(
    arguments: Arguments, data: RunData, tokenizer: PreTrainedTokenizerFast, show_progress: bool
) -> list[TokenColumn]:
    """Return the token ids of the datasets of `texts`, which no task reads."""
    cache_dir = Path(arguments.cache_dir)
    names_of = training_text_columns(data)
    further: list[TokenColumn] = []
    for source in data.named("texts"):
        name = f"texts/{source}"
        rows = data.training[name]
        further += token_columns(
            rows, names_of[name], tokenizer, cache_dir, arguments.max_tokens, show_progress
        ).values()
    return further


def _require_width(arguments: Arguments, model: ConvSimForMultitask, given: int, width: int) -> None:
    if given == width:
        return
    names = {field.name for field in dataclasses.fields(model.config)}  # without the aliases of `attribute_map`
    options = ["word_embedding_size", "hidden_size", "embedding_size"]
    if getattr(model.config, "residual", False):
        options.remove("hidden_size")  # a residual Transformer's words have the size of its embeddings
    option = next(name for name in options if name in names)
    raise InputError(
        f"word_vectors: {arguments.word_vectors} has vectors of {given} dimensions, but the model's word embeddings "
        f"have {width}: set {option} to {given} in model_config"
    )


@torch.no_grad()
def _set_word_embeddings(model: ConvSimForMultitask, vectors: np.ndarray) -> None:
    """Copy the nonzero rows of `vectors` (vocab_size, width), scaled to the average length of a random embedding."""
    table = model.get_parameter("encoder.embed_tokens.weight")
    width = table.shape[1]
    length = (model.config.initializer_range or width**-0.5) * width**0.5  # 1 by default
    known = torch.from_numpy(vectors.any(axis=1))
    table[known] = length * torch.from_numpy(vectors)[known].to(table.dtype)
