"""Initial word embeddings and token weights of a new encoder; a residual Transformer that starts from a DAN."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from modeling_convsim import ConvSimConfig, ConvSimTransformerConfig, ConvSimTransformerForMultitask
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.data.datasets import RunData, training_text_columns
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.token_weights import rarity_weights, sif_weights
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

    A lexical channel starts with `rarity_weights`.

    Raises:
        InputError: the dimension of the vectors is not that of the word embeddings.
    """
    columns = [column for task in tasks.values() if task.adds_texts for column in task.columns]
    table = model.get_parameter("encoder.embed_tokens.weight")  # (vocab_size, width)
    if arguments.word_vectors == "skip_gram":
        # gensim takes a second to import.
        from trainer.data.word_vectors import cached_word_vectors

        further = _further_texts(arguments, data, tokenizer, show_progress)
        cache_dir, passes = Path(arguments.cache_dir), arguments.word_vector_passes
        vectors = cached_word_vectors(columns + further, len(table), table.shape[1], cache_dir, passes)
        _set_word_embeddings(model, vectors)
    elif arguments.word_vectors != "random":
        _set_word_embeddings(model, _given_word_vectors(arguments, model, tokenizer, *table.shape))
    if arguments.token_weights == "sif":
        weights = torch.from_numpy(sif_weights(columns, len(table))).to(table.dtype).unsqueeze(1)
        model.encoder.scale_tokens(weights)
    if model.lexical_channel is not None:
        model.lexical_channel.weights.copy_(torch.from_numpy(rarity_weights(columns, len(table))))


def _given_word_vectors(
    arguments: Arguments, model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, vocab_size: int, width: int
) -> np.ndarray:
    """Return the vectors (vocab_size, width) of a file or a model; zeros for tokens without one."""
    # gensim and sentence-transformers take a second to import.
    from trainer.data.teacher import embed_tokens
    from trainer.data.word_vectors import is_sentence_transformer, read_word_vectors
    from trainer.encoders.loading import load_encoder

    source = arguments.word_vectors
    if is_sentence_transformer(source):
        # Embedding all tokens takes minutes.
        _require_width(arguments, model, load_encoder(source).encode(["a"]).shape[1], width)
        return embed_tokens(source, tokenizer, vocab_size, Path(arguments.cache_dir))
    vectors = read_word_vectors(Path(source), tokenizer, vocab_size)
    _require_width(arguments, model, vectors.shape[1], width)
    return vectors


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


def transformer_from_dan(
    model_config: dict[str, Any], dan: ConvSimForMultitask, source: str
) -> ConvSimTransformerForMultitask:
    """Build a residual Transformer with the word embeddings, token weights, DNN and heads of a trained DAN.

    Its attention layers are new, and contribute nothing at first: training starts at the DAN's embeddings.

    Args:
        model_config: fields of the Transformer's config. It takes those that both configs have from the DAN.
        dan: the multitask model.
        source: where the DAN was loaded from, for messages.

    Raises:
        InputError: the DAN is not one of residual sums of words, or `model_config` contradicts it or is invalid.
    """
    if not dan.config.residual or dan.config.bigram_buckets or dan.config.activation != "tanh":
        raise InputError(
            f"initialize_from: {source} is a DAN that has bigrams, has another activation than tanh or is not "
            "residual; a Transformer starts from a DAN with residual: true, bigram_buckets: 0 and activation: tanh, "
            "such as best_dan"
        )
    shared = {name: getattr(dan.config, name) for name in ConvSimConfig.__annotations__ if name in dan.config.to_dict()}
    shared |= {name: getattr(dan.config, name) for name in ("residual", "learned_token_weights", "hidden_sizes")}
    for name, value in shared.items():
        if model_config.get(name, value) != value:
            raise InputError(
                f"model_config.{name} is {model_config[name]}, but that of the DAN in initialize_from, {source}, is "
                f"{value}: leave it out"
            )
    try:
        model = ConvSimTransformerForMultitask(ConvSimTransformerConfig(**shared | model_config))
    except StrictDataclassError as error:
        raise InputError(f"model_config: {str(error).splitlines()[-1].strip()}") from None
    # In a Transformer, `layers` are those with attention.
    renamed = ("encoder.layers.", "encoder.dnn_layers.")
    weights = {name.replace(*renamed): value for name, value in dan.state_dict().items()}
    damaged = [name for name, value in weights.items() if not value.isfinite().all()]
    if damaged:
        raise InputError(f"initialize_from: the weights {', '.join(damaged)} of {source} are not finite")
    _, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    return model
