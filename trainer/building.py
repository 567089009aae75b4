"""From settings to the tokenizer, the model and the tasks of a run."""

import itertools
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from data_scripts.errors import InputError
from data_scripts.tokenizer import Kind, train_tokenizer
from modeling_convsim import (
    ConvSimCbowConfig,
    ConvSimCbowForMultitask,
    ConvSimDanConfig,
    ConvSimDanForMultitask,
    ConvSimTransformerConfig,
    ConvSimTransformerForMultitask,
)
from modeling_convsim.modeling_base import ConvSimConfig, ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.cache import token_columns
from trainer.data import Corpora
from trainer.tasks import ResponsePrediction, Snli, Task

_MODELS: dict[str, tuple[type[ConvSimConfig], type[ConvSimForMultitask]]] = {
    "dan": (ConvSimDanConfig, ConvSimDanForMultitask),
    "transformer": (ConvSimTransformerConfig, ConvSimTransformerForMultitask),
    "cbow": (ConvSimCbowConfig, ConvSimCbowForMultitask),
}


SIF_A = 1e-3  # Arora et al. (2017), section 4.1


def build_tokenizer(arguments: Arguments, corpora: Corpora, run_folder: Path) -> PreTrainedTokenizerFast:
    """The named tokenizer, that of the model to start from, or one trained on the training texts."""
    source = arguments.tokenizer or arguments.initialise_from
    trained = run_folder / "tokenizer"
    if source is None and trained.is_dir():
        source = str(trained)  # by another process, or before the run was resumed
    if source is not None:
        return _limited(_load(AutoTokenizer, source, "tokenizer"), arguments.max_tokens)
    texts = _training_texts(corpora)
    tokenizer = train_tokenizer(texts, cast(Kind, arguments.tokenizer_kind), arguments.vocab_size)
    temporary = run_folder / ".tokenizer"
    tokenizer.save_pretrained(temporary)
    os.replace(temporary, trained)
    # Read back, so that a resumed run has the very same object.
    return _limited(_load(AutoTokenizer, str(trained), "tokenizer"), arguments.max_tokens)


def _training_texts(corpora: Corpora) -> Iterator[str]:
    for sets, columns in ((corpora.pairs, ["input", "response"]), (corpora.snli, ["premise", "hypothesis"])):
        if sets is not None and "train" in sets:
            for batch in sets["train"].select_columns(columns).iter(batch_size=1000):
                yield from itertools.chain.from_iterable(batch.values())


def _limited(tokenizer: PreTrainedTokenizerFast, max_tokens: int) -> PreTrainedTokenizerFast:
    """The tokenizer, cutting texts where training cuts them."""
    tokenizer.model_max_length = max_tokens
    return tokenizer


def build_model(arguments: Arguments, tokenizer: PreTrainedTokenizerFast) -> ConvSimForMultitask:
    """A multitask model with weights drawn from the seed, or those of `initialise_from`."""
    torch.manual_seed(arguments.seed)
    config_class, model_class = _MODELS[arguments.model_type]
    if arguments.initialise_from:
        config = _load(AutoConfig, arguments.initialise_from, "initialise_from")
        if config.model_type != config_class.model_type:
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
        known = {option.name for option in fields(config_class)} - {o.name for o in fields(PreTrainedConfig)}
        unknown = sorted(set(arguments.model_config) - known)
        if unknown:
            raise InputError(f"model_config has {', '.join(unknown)}; expected some of {', '.join(sorted(known))}")
        try:
            config = config_class(**{**given, **arguments.model_config})
        except StrictDataclassError as error:
            # The last line says what was wrong with the value, those before it which check found it.
            raise InputError(f"model_config: {str(error).splitlines()[-1].strip()}") from None
        model = model_class(config)
    if len(tokenizer) > model.config.vocab_size:
        raise InputError(
            f"the tokenizer has {len(tokenizer)} entries, the model room for {model.config.vocab_size}: "
            "use the tokenizer that the model was trained with (drop --tokenizer)"
        )
    return model


def start_token_weights(model: ConvSimForMultitask, tasks: dict[str, Task]) -> None:
    """Set a DAN's learned token weights to a / (a + p(w)), p(w) the word's share of the training texts' words."""
    weights = model.get_parameter("encoder.token_weights.weight")
    counts = np.zeros(len(weights), dtype=np.int64)
    for column in (column for task in tasks.values() for column in task.columns):
        counts += np.bincount(column.ids, minlength=len(weights))
    sif = SIF_A / (SIF_A + counts / counts.sum())
    with torch.no_grad():
        weights[:, 0] = torch.from_numpy(sif).to(weights.dtype)


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
            found["input"],
            found["response"],
            arguments.mask_false_negatives,
            arguments.symmetric_loss,
            arguments.mini_batch_size,
        )
    if arguments.tasks.get("snli") and corpora.snli:
        found = columns(corpora.snli["train"], ["premise", "hypothesis"])
        labels = np.asarray(corpora.snli["train"]["label"], dtype=np.int64)
        tasks["snli"] = Snli(found["premise"], found["hypothesis"], labels, arguments.mini_batch_size)
    return tasks


def _load(loader: Any, source: str, option: str) -> Any:
    try:
        return loader.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise InputError(f"{option}: {source} cannot be loaded: {str(error).splitlines()[0]}") from None
