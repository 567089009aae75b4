"""From settings to the tokenizer, the model and the tasks of a run."""

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerFast

from data_scripts.errors import InputError
from data_scripts.tokenizer import train_tokenizer
from modeling_convsim import (
    ConvSimCbowForMultitask,
    ConvSimDanForMultitask,
    ConvSimTransformerForMultitask,
)
from modeling_convsim.modeling_base import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.cache import token_columns
from trainer.data import Corpora
from trainer.tasks import ResponsePrediction, Snli, Task

logger = logging.getLogger(__name__)

_MODELS: dict[str, type[ConvSimForMultitask]] = {
    "dan": ConvSimDanForMultitask,
    "transformer": ConvSimTransformerForMultitask,
    "cbow": ConvSimCbowForMultitask,
}


def build_tokenizer(arguments: Arguments, corpora: Corpora, run_folder: Path) -> PreTrainedTokenizerFast:
    """The named tokenizer, that of the model to start from, or one trained on the training texts."""
    source = arguments.tokenizer or arguments.initialise_from
    trained = run_folder / "tokenizer"
    if source is None and trained.is_dir():
        source = str(trained)  # by another process, or before the run was resumed
    if source is not None:
        return _limited(_load(AutoTokenizer, source, "tokenizer"), arguments.max_tokens)
    texts: list[str] = []
    for sets, columns in ((corpora.pairs, ("input", "response")), (corpora.snli, ("premise", "hypothesis"))):
        if sets is not None and "train" in sets:
            texts += [text for column in columns for text in sets["train"][column]]
    tokenizer = train_tokenizer(texts, kind=arguments.tokenizer_kind, vocab_size=arguments.vocab_size)
    temporary = run_folder / ".tokenizer"
    tokenizer.save_pretrained(temporary)
    os.replace(temporary, trained)
    # Read back, so that a resumed run has the very same object.
    return _limited(_load(AutoTokenizer, str(trained), "tokenizer"), arguments.max_tokens)


def _limited(tokenizer: PreTrainedTokenizerFast, max_tokens: int) -> PreTrainedTokenizerFast:
    """The tokenizer, cutting texts where training cuts them."""
    tokenizer.model_max_length = max_tokens
    return tokenizer


def build_model(arguments: Arguments, tokenizer: PreTrainedTokenizerFast) -> ConvSimForMultitask:
    """A multitask model with weights drawn from the seed, or those of `initialise_from`."""
    torch.manual_seed(arguments.seed)
    model_class = _MODELS[arguments.model_type]
    if arguments.initialise_from:
        config = _load(AutoConfig, arguments.initialise_from, "initialise_from")
        if config.model_type != model_class.config_class.model_type:
            raise InputError(
                f"initialise_from holds a {config.model_type} model, but model_type is {arguments.model_type}"
            )
        changed = {key: value for key, value in arguments.model_config.items() if getattr(config, key, None) != value}
        if changed:
            raise InputError(f"model_config differs from the model in initialise_from: {changed}; drop these entries")
        model = _load(model_class, arguments.initialise_from, "initialise_from")
    else:
        given = {
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "unk_token_id": tokenizer.unk_token_id,
        }
        try:
            config = model_class.config_class(**{**given, **arguments.model_config})
        except (TypeError, ValueError) as error:
            raise InputError(f"model_config: {error}") from None
        model = model_class(config)
    if len(tokenizer) > model.config.vocab_size:
        raise InputError(
            f"the tokenizer has {len(tokenizer)} entries, the model room for {model.config.vocab_size}: "
            "use the tokenizer that the model was trained with (drop --tokenizer)"
        )
    return model


def build_tasks(
    arguments: Arguments, corpora: Corpora, tokenizer: PreTrainedTokenizerFast, show_progress: bool
) -> dict[str, Task]:
    """The tasks that have odds, over token ids from the cache."""

    def columns(rows: Any, names: list[str]) -> Any:
        return token_columns(rows, names, tokenizer, Path(arguments.cache_dir), arguments.max_tokens, show_progress)

    tasks: dict[str, Task] = {}
    if arguments.tasks.get("response_prediction") and corpora.pairs:
        found = columns(corpora.pairs["train"], ["input", "response"])
        tasks["response_prediction"] = ResponsePrediction(
            found["input"], found["response"], arguments.mask_false_negatives, arguments.symmetric_loss
        )
    if arguments.tasks.get("snli") and corpora.snli:
        found = columns(corpora.snli["train"], ["premise", "hypothesis"])
        labels = np.asarray(corpora.snli["train"]["label"], dtype=np.int64)
        tasks["snli"] = Snli(found["premise"], found["hypothesis"], labels)
    return tasks


def _load(loader: Any, source: str, option: str) -> Any:
    try:
        return loader.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise InputError(f"{option}: {source} cannot be loaded: {str(error).splitlines()[0]}") from None
