"""The multitask model of a run: a new one with its initial embeddings, or the saved one of `initialize_from`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from transformers import AutoConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from modeling_convsim import ENCODERS, ConvSimConfig, ConvSimPretrainedConfig
from modeling_convsim.encoding.loading import parse_model_id
from modeling_convsim.files.errors import InputError
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.data.datasets import RunData, training_text_columns
from trainer.data.teacher import embed_tokens
from trainer.data.token_cache import token_columns
from trainer.data.token_weights import rarity_of, sif_of, token_shares
from trainer.data.word_vectors import cached_word_vectors, is_sentence_transformer, read_word_vectors
from trainer.encoders.loading import load_encoder
from trainer.encoders.protocol import Side
from trainer.settings import DEFAULT_MODEL_TYPE, MAX_TOKENS, Settings, refuse_unknown
from trainer.tasks import Task
from trainer.training.backbone import config_fields, find_backbone, new_config


def build_model(settings: Settings, tokenizer: PreTrainedTokenizerFast) -> ConvSimForMultitask:
    """Build a multitask model with random weights, or load that of `initialize_from`.

    Raises:
        InputError: the options do not define a model, or the model does not fit the tokenizer.
    """
    torch.manual_seed(settings.seed)
    if settings.initialize_from:
        model = _load_model(settings, settings.initialize_from)
    else:
        model_class = ENCODERS[settings.model_type or DEFAULT_MODEL_TYPE]
        special = {"pad_token_id": tokenizer.pad_token_id, "unk_token_id": tokenizer.unk_token_id}
        sizes = {"vocab_size": len(tokenizer), **special, **settings.model_config}
        config = new_config(model_class.config_class, sizes)
        try:
            model = model_class(config)
        except RuntimeError as error:
            if "allocate memory" not in str(error):
                raise
            raise InputError(
                "model_config: there is not enough memory for a model of this size; choose smaller values"
            ) from None
    model.config.language = list(settings.language)
    if len(tokenizer) > model.config.vocab_size:
        raise InputError(
            f"the tokenizer has {len(tokenizer)} entries, but the model's vocab_size is {model.config.vocab_size}: "
            "use the tokenizer that the model was trained with (leave out --tokenizer)"
        )
    return model


def validate_model(settings: Settings) -> None:
    """Check the options of a new model before any data are read.

    Raises:
        InputError: the options do not define a model.
    """
    if settings.model_type is not None:  # else `build_model` compares model_config with the config of initialize_from
        refuse_unknown("model_config", settings.model_config, config_fields(settings.model_type))
    if settings.initialize_from:
        return
    if settings.model_type == ConvSimPretrainedConfig.model_type.removeprefix("convsim_"):
        raise InputError("model_type is pretrained, which requires initialize_from: set it to a pretrained encoder")
    model_class = ENCODERS[settings.model_type or DEFAULT_MODEL_TYPE]
    config = new_config(model_class.config_class, {"vocab_size": settings.vocab_size, **settings.model_config})
    if settings.token_weights == "sif":
        with torch.device("meta"):
            encoder = model_class.encoder_class(config)
            weights = torch.ones(config.vocab_size, 1)
        try:
            encoder.scale_tokens(weights)
        except ValueError as error:
            raise InputError(f"token_weights is sif, but {error}") from None


def max_tokens(settings: Settings) -> int | None:
    """Return the number of tokens of a text that a run reads; None reads all.

    Raises:
        InputError: the model in `initialize_from` cannot be loaded.
    """
    if settings.max_tokens is not None:
        return settings.max_tokens
    model_type, limit = settings.model_type, MAX_TOKENS
    if source := settings.initialize_from:
        if backbone := find_backbone(source):
            return min(limit, backbone.build_config(settings.model_config).max_tokens or limit)
        model_type = model_type or load_initial_config(source).model_type.removeprefix("convsim_")
    return limit if ENCODERS[model_type or DEFAULT_MODEL_TYPE].encoder_class.pads_batches else None


def initial_prompts(settings: Settings) -> dict[Side, str]:
    """Return the prompt of each side of the model of a run.

    Raises:
        InputError: the model in `initialize_from` cannot be loaded.
    """
    config = _initial_config(settings, settings.initialize_from) if settings.initialize_from else ConvSimConfig()
    return {side: config.prompt(side) for side in get_args(Side)}


def _initial_config(settings: Settings, source: str) -> ConvSimConfig:
    """Return the config of the model of `initialize_from`, which is `source`."""
    backbone = find_backbone(source)
    return backbone.build_config(settings.model_config) if backbone else load_initial_config(source)


def load_initial_config(source: str, option: str = "initialize_from") -> ConvSimConfig:
    """Load the config of a model to start from, which `option` names.

    Raises:
        InputError: it cannot be loaded, or is not that of a multitask model.
    """
    config = load_pretrained(AutoConfig, source, option)
    is_multitask = any(name.endswith("ForMultitask") for name in config.architectures or ())
    if config.model_type.removeprefix("convsim_") not in ENCODERS or not is_multitask:
        raise InputError(
            f"{option}: {source} contains a {' '.join(config.architectures or [config.model_type])}, expected a "
            "multitask model; use a model saved by a run (runs/NAME/model)"
        )
    return config


def load_pretrained(loader: Any, source: str, option: str) -> Any:
    """Return what a loader opens: a folder, or OWNER/NAME or OWNER/NAME@REVISION. Code in the source is not run.

    Raises:
        InputError: the source cannot be loaded; the message names the option.
    """
    name, revision = (source, None) if Path(source).is_dir() else parse_model_id(source)
    try:
        loaded = loader.from_pretrained(name, **({"revision": revision} if revision else {}), trust_remote_code=False)
    # The type of the exception depends on the library that reads a damaged file; tokenizers raises bare Exceptions.
    except Exception as error:
        message = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{option}: {source} cannot be loaded: {message}") from None
    if isinstance(loaded, PreTrainedTokenizerBase):
        for name in ("is_local", "local_files_only"):  # how it was loaded here, which would be saved with it
            loaded.init_kwargs.pop(name, None)
    return loaded


def _load_model(settings: Settings, source: str) -> ConvSimForMultitask:
    config: Any = _initial_config(settings, source)
    model_type = config.model_type.removeprefix("convsim_")
    if settings.model_type not in (None, model_type):
        raise _conflict("model_type", settings.model_type, source, model_type)
    for name, value in settings.model_config.items():
        if (own_value := vars(config).get(name)) != value:
            raise _conflict(f"model_config.{name}", value, source, own_value)
    if backbone := find_backbone(source):
        if config.max_tokens is not None and (settings.max_tokens or 0) > config.max_tokens:
            limit = config.max_tokens
            raise InputError(f"max_tokens is {settings.max_tokens}, but {source} reads at most {limit} tokens")
        return backbone.build_model(config)
    model = load_pretrained(ENCODERS[model_type], source, "initialize_from")
    damaged = [name for name, weights in model.state_dict().items() if not weights.isfinite().all()]
    if damaged:
        raise InputError(
            f"initialize_from: the weights {', '.join(damaged)} of {source} are not finite; use another model"
        )
    return model


def _conflict(name: str, given: object, source: str, own: object) -> InputError:
    option = name.partition(".")[0]
    return InputError(
        f"{name} is {given}, but {own} in the model of initialize_from, {source}: leave out {option} (to reset an "
        f"option of a preset: --{option} none), or remove initialize_from to train a new model"
    )


def initialize_embeddings(
    settings: Settings,
    model: ConvSimForMultitask,
    tasks: dict[str, Task],
    data: RunData,
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Initialize the word embeddings and token weights of a new encoder as `word_vectors` and `token_weights` specify.

    Raises:
        InputError: the dimension of the vectors is not that of the word embeddings.
    """
    columns = [column for task in tasks.values() if task.adds_texts for column in task.columns]
    table = model.get_parameter("encoder.embed_tokens.weight")  # (vocab_size, width)
    if settings.word_vectors == "skip_gram":
        cache_dir, passes = Path(settings.cache_dir), settings.word_vector_passes
        further = [  # the token ids of the datasets of `texts`, which no task reads
            column
            for name, texts in training_text_columns(data).items()
            if name.startswith("texts/")
            for column in token_columns(data.training[name], texts, tokenizer, cache_dir, settings.max_tokens).values()
        ]
        unknown = tokenizer.unk_token_id
        vectors = cached_word_vectors(columns + further, len(table), table.shape[1], cache_dir, passes, unknown)
        _set_word_embeddings(model, vectors)
    elif settings.word_vectors != "random":
        _set_word_embeddings(model, _given_word_vectors(settings, model, tokenizer, *table.shape))
    if settings.token_weights == "sif":
        weights = torch.from_numpy(sif_of(token_shares(columns, len(table)))).to(table.dtype).unsqueeze(1)
        model.encoder.scale_tokens(weights)


@torch.no_grad()
def initialize_lexical_channel(
    model: ConvSimForMultitask, tasks: dict[str, Task], special_tokens: Sequence[int] = ()
) -> None:
    """Give the lexical channel of a model, if it has one, weights by the rarity of tokens in the tasks' texts.

    The weights of `special_tokens`, which the tokenizer adds to every text, are 0.
    """
    if model.lexical_channel is None:
        return
    columns = [column for task in tasks.values() if task.adds_texts for column in task.columns]
    weights = torch.from_numpy(rarity_of(token_shares(columns, model.config.vocab_size)))
    weights[list(special_tokens)] = 0
    model.lexical_channel.weights.copy_(weights)


def _given_word_vectors(
    settings: Settings, model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, vocab_size: int, width: int
) -> np.ndarray:
    """Return the vectors (vocab_size, width) of a file or a model; zeros for tokens without one."""
    source = settings.word_vectors
    if is_sentence_transformer(source):
        # Embedding all tokens takes minutes.
        _require_width(settings, model, load_encoder(source).encode(["a"]).shape[1], width)
        return embed_tokens(source, tokenizer, vocab_size, Path(settings.cache_dir))
    vectors = read_word_vectors(Path(source), tokenizer, vocab_size)
    _require_width(settings, model, vectors.shape[1], width)
    return vectors


def _require_width(settings: Settings, model: ConvSimForMultitask, given: int, width: int) -> None:
    if given == width:
        return
    names = {field.name for field in dataclasses.fields(model.config)}  # without the aliases of `attribute_map`
    options = ["word_embedding_size", "hidden_size", "embedding_size"]
    if getattr(model.config, "residual", False):
        options.remove("hidden_size")  # a residual Transformer's words have the size of its embeddings
    option = next(name for name in options if name in names)
    raise InputError(
        f"word_vectors: {settings.word_vectors} has vectors of {given} dimensions, but the model's word embeddings "
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
