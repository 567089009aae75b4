"""From settings to the tokenizer, the model and the tasks of a run."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from data_scripts.errors import InputError
from data_scripts.tools.tokenizer import Kind, train_tokenizer
from modeling_convsim import (
    ConvSimBilstmConfig,
    ConvSimBilstmForMultitask,
    ConvSimCbowConfig,
    ConvSimCbowForMultitask,
    ConvSimDanConfig,
    ConvSimDanForMultitask,
    ConvSimTransformerConfig,
    ConvSimTransformerForMultitask,
)
from modeling_convsim.modeling_base import ConvSimConfig, ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.data.datasets import Corpora, training_sets, training_texts
from trainer.data.positive_pairs import from_captions, from_nli, from_paraphrases, scored_nli, scored_paraphrases
from trainer.data.sentence_order import find_neighbours, order_sentences
from trainer.data.teacher import teacher_vectors, texts_to_distill
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.data.word_vectors import cached_word_vectors, read_word_vectors, sif_weights
from trainer.tasks.tasks import (
    Contrastive,
    Distillation,
    NeighbouringSentences,
    Ranking,
    ResponsePrediction,
    Snli,
    Task,
)

_MODELS: dict[str, tuple[type[ConvSimConfig], type[ConvSimForMultitask]]] = {
    "dan": (ConvSimDanConfig, ConvSimDanForMultitask),
    "transformer": (ConvSimTransformerConfig, ConvSimTransformerForMultitask),
    "cbow": (ConvSimCbowConfig, ConvSimCbowForMultitask),
    "bilstm": (ConvSimBilstmConfig, ConvSimBilstmForMultitask),
}


def build_tokenizer(arguments: Arguments, corpora: Corpora, run_folder: Path) -> PreTrainedTokenizerFast:
    """The named tokenizer, that of the model to start from, or one trained on the training texts."""
    source = arguments.tokenizer or arguments.initialise_from
    trained = run_folder / "tokenizer"
    if source is None and trained.is_dir():
        source = str(trained)  # by another process, or before the run was resumed
    if source is not None:
        return _limited(_load(AutoTokenizer, source, "tokenizer"), arguments.max_tokens)
    tokenizer = train_tokenizer(
        training_texts(corpora), cast(Kind, arguments.tokenizer_kind), arguments.vocab_size, arguments.min_count
    )
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
    if not all(0 < size < model.config.embedding_size for size in arguments.matryoshka_dims):
        raise InputError(
            f"matryoshka_dims is {arguments.matryoshka_dims}; expected sizes above 0 and below the model's "
            f"embedding_size {model.config.embedding_size}"
        )
    return model


def start_from_texts(
    arguments: Arguments,
    model: ConvSimForMultitask,
    tasks: dict[str, Task],
    corpora: Corpora,
    tokenizer: PreTrainedTokenizerFast,
    show_progress: bool,
) -> None:
    """Give a new encoder's word table and token weights the start that the arguments ask for."""
    # What is distilled is texts of the other sets again.
    columns = [column for name, task in tasks.items() if name != "distillation" for column in task.columns]
    table = model.get_parameter("encoder.embed_tokens.weight")
    if arguments.word_vectors == "skip_gram":
        further: list[TokenColumn] = []
        for rows, names in (training_sets(corpora)[f"texts/{name}"] for name in corpora.texts):
            cache_dir, most = Path(arguments.cache_dir), arguments.max_tokens
            further += token_columns(rows, names, tokenizer, cache_dir, most, show_progress).values()
        vectors = cached_word_vectors(columns + further, len(table), table.shape[1], Path(arguments.cache_dir))
    elif arguments.word_vectors != "random":
        vectors = read_word_vectors(Path(arguments.word_vectors), tokenizer, len(table))
        if (given := vectors.shape[1]) != table.shape[1]:
            sizes = ("word_embedding_size", "hidden_size", "embedding_size")
            option = next(name for name in sizes if hasattr(model.config, name))
            raise InputError(
                f"word_vectors: {arguments.word_vectors} has vectors of {given} numbers, but a row of the model's word "
                f"table has {table.shape[1]}: set {option} to {given} in model_config"
            )
    if arguments.word_vectors != "random":
        # As long as a random start is on average: one, unless the config says otherwise.
        length = (model.config.initializer_range or table.shape[1] ** -0.5) * table.shape[1] ** 0.5
        known = torch.from_numpy(vectors.any(axis=1))
        with torch.no_grad():
            table[known] = length * torch.from_numpy(vectors)[known].to(table.dtype)
    if arguments.token_weights == "sif":
        weights = torch.from_numpy(sif_weights(columns, len(table))).to(table.dtype).unsqueeze(1)
        with torch.no_grad():
            if arguments.model_type == "cbow":
                table.mul_(weights)  # an average of vectors of these lengths is the weighted average
            else:
                model.get_parameter("encoder.token_weights.weight").copy_(weights)


def build_tasks(
    arguments: Arguments, corpora: Corpora, tokenizer: PreTrainedTokenizerFast, show_progress: bool
) -> dict[str, Task]:
    """The tasks that have odds, over token ids from the cache."""

    def columns(rows: Any, names: list[str]) -> Any:
        return token_columns(rows, names, tokenizer, Path(arguments.cache_dir), arguments.max_tokens, show_progress)

    tasks: dict[str, Task] = {}
    size = arguments.mini_batch_size
    if arguments.trains("response_prediction") and corpora.pairs:
        found = columns(corpora.pairs["train"], ["input", "response"])
        tasks["response_prediction"] = ResponsePrediction(
            found["input"],
            found["response"],
            arguments.mask_false_negatives,
            arguments.symmetric_loss,
            size,
            arguments.matryoshka_dims,
        )
    if arguments.trains("snli") and corpora.snli:
        found = columns(corpora.snli["train"], ["premise", "hypothesis"])
        labels = np.asarray(corpora.snli["train"]["label"], dtype=np.int64)
        tasks["snli"] = Snli(found["premise"], found["hypothesis"], labels, size)
    for task, named, read in (
        ("entailment", corpora.nli, from_nli),
        ("captions", corpora.captions, from_captions),
        ("paraphrases", corpora.paraphrases, from_paraphrases),
    ):
        for name, rows in named.items() if arguments.trains(task) else ():
            similar = read(rows, arguments.seed)
            texts = columns(similar.texts, ["text"])["text"]
            tasks[f"{task}/{name}"] = Contrastive(
                f"{task}/{name}", texts, similar, arguments.similarity_scale, size, arguments.matryoshka_dims
            )
    for named, read_scored in ((corpora.nli, scored_nli), (corpora.paraphrases, scored_paraphrases)):
        for name, rows in named.items() if arguments.trains("ranking") else ():
            if (scored := read_scored(rows)) is not None:
                texts = columns(scored.texts, ["text"])["text"]
                tasks[f"ranking/{name}"] = Ranking(f"ranking/{name}", texts, scored, arguments.similarity_scale, size)
    for name, rows in corpora.documents.items() if arguments.trains("neighbours") else ():
        sentences = order_sentences(rows, f"documents/{name}")
        texts = columns(sentences.texts, ["text"])["text"]
        found = find_neighbours(sentences, texts, cast(int, tokenizer.unk_token_id), f"documents/{name}")
        task = f"neighbours/{name}"
        tasks[task] = NeighbouringSentences(task, texts, found, arguments.negatives, arguments.similarity_scale, size)
    if arguments.trains("distillation") and arguments.teacher:
        distinct = texts_to_distill(corpora, arguments.teacher_texts)
        vectors = teacher_vectors(arguments.teacher, distinct, Path(arguments.cache_dir))
        texts = columns(distinct, ["text"])["text"]
        tasks["distillation"] = Distillation(texts, vectors, arguments.similarity_scale, size)
    return tasks


def odds_by_set(odds: dict[str, float], tasks: dict[str, Task]) -> dict[str, float]:
    """The odds of each task of `tasks`, where those of a task of several sets are shared out by the root of their rows.

    A batch then holds rows of one set, which tell each other apart less easily than those of another; the root keeps
    the large sets from drowning the small ones.
    """
    shared: dict[str, float] = {}
    for task, share in odds.items():
        sets = {name: len(rows) ** 0.5 for name, rows in tasks.items() if name.partition("/")[0] == task}
        total = sum(sets.values())
        # A task without any row keeps its odds, so that `BatchPlan` refuses it.
        shared |= {name: share * part / total if total else share for name, part in sets.items()}
    return shared


def _load(loader: Any, source: str, option: str) -> Any:
    try:
        return loader.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise InputError(f"{option}: {source} cannot be loaded: {str(error).splitlines()[0]}") from None
