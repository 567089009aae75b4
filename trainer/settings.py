"""The settings of a run, read from a preset and the command line, which takes precedence.

An option that only some tasks read lists them in `tasks`. Tasks of extensions read `task_options`. This module imports
neither tasks nor torch, to keep `--help` fast.
"""

import dataclasses
import importlib.util
import json
import re
import sys
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from data_scripts.presets import PRESETS, find_preset, read_presets
from modeling_convsim.files.command_line import LARGEST, suggest
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import check_license
from modeling_convsim.shipped import resolve_base

DEFAULT_STEPS = 1000
MAX_STEPS = 100_000_000  # the plan of all batches is in memory; the paper's run has 40 million steps
MAX_TOKENS = 64  # of a text, by default, for encoders of sequences
DEFAULT_MODEL_TYPE = "dan"
# Options of a new model and its initialization; a model of initialize_from has its own config, weights and tokenizer.
NEW_MODEL = ("model_type", "model_config", "tokenizer")
NEW_TOKENIZER = ("tokenizer_kind", "min_count", "vocab_size")
NEW_WEIGHTS = ("token_weights", "word_vectors", "word_vector_passes", "texts")
# The headings of `--help`, by the first option of each.
HEADINGS = {
    "model_type": "model",
    "pairs": "data",
    "tasks": "tasks",
    "max_steps": "optimization",
    "eval_every": "evaluation",
    "output_dir": "run",
    "push_to_hub": "Hub",
}
LANGUAGE = re.compile("[a-z]{2,3}|multilingual|code")  # what the Hub accepts: codes of two or three letters, two words

USAGE = "convsim train PRESET [--OPTION VALUE ...]"
NONE = ("null", "none")
MODELS = ("initialize_from", "score_teachers", "teacher", "tokenizer", "word_vectors")  # options that name models
MAPPINGS = ("model_config", "tasks", "task_options")

Count = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
Several = Annotated[int, msgspec.Meta(ge=2, le=LARGEST)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]  # the sum of weights is finite

CONTRASTIVE = ("captions", "paraphrases", "entailment")
IN_BATCH = ("response_prediction", *CONTRASTIVE)


def option(default: Any, help: str, tasks: tuple[str, ...] = ()) -> Any:
    """Declare an option.

    Args:
        default: the value if neither the preset nor the command line gives one; lists and mappings are copied.
        help: the help text.
        tasks: the tasks that read it; by default, every run does.
    """
    metadata = {"help": help, "tasks": tasks}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Settings:
    """The settings of one run. The defaults SGD, 128, 0.01 and 0.95 / 0.05 are the paper's."""

    # -- model
    model_type: str | None = option(
        None,
        "encoder: the NAME of a modeling_NAME.py in modeling_convsim; by default the type of initialize_from, or "
        f"{DEFAULT_MODEL_TYPE}",
    )
    model_config: dict[str, Any] = option(
        {},
        "fields of the encoder's config, as JSON: '{\"embedding_size\": 256}'; for a single field: "
        "--model_config.embedding_size 256",
    )
    token_weights: Literal["ones", "sif"] = option(
        "ones",
        "initial token weights of a DAN with learned_token_weights, or initial scale of a CBOW's word embeddings: "
        "ones, or sif: a / (a + p(w)) with a = 0.001 (Arora et al., 2017)",
    )
    word_vectors: str = option(
        "random",
        "initial word embeddings: random; skip_gram (trained on the texts of the run); a file or folder of word "
        "vectors; or the folder or Hub id of a SentenceTransformer, which embeds the tokens",
    )
    word_vector_passes: Count | None = option(
        None, "number of passes of skip_gram over the texts; by default 1 to 5, depending on the number of texts"
    )
    initialize_from: str | None = option(
        None,
        "folder or Hub id of the model to start from, or base: a multitask model, whose config and tokenizer are used, "
        "or a pretrained text encoder or SentenceTransformer, which gets new heads. On the command line, or in a "
        "preset that extends another, it resets the preset's options for a new model "
        f"({', '.join((*NEW_MODEL, *NEW_TOKENIZER, *NEW_WEIGHTS))})",
    )
    tokenizer: str | None = option(
        None, "folder or Hub id of a tokenizer; by default initialize_from's, or a new one trained on the texts"
    )
    tokenizer_kind: Literal["word", "bare_word", "wordpiece"] = option("word", "type of tokenizer to train")
    min_count: Count = option(2, "minimum number of occurrences of a word in the vocabulary of a new tokenizer")
    vocab_size: Annotated[int, msgspec.Meta(ge=10, le=LARGEST)] = option(
        30_000, "maximum vocabulary size of a new tokenizer"
    )
    max_tokens: Count | None = option(
        None,
        "maximum number of tokens of a text; longer texts are truncated. By default, encoders that average words do "
        f"not truncate, and others use {MAX_TOKENS} tokens",
    )

    # -- data
    pairs: list[str] = option(
        [],
        "folders or Hub ids of conversation pairs, in the format of `convsim data reddit`; each batch has pairs from "
        "one dataset, and a duplicate pair is kept only in the first dataset that contains it",
        ("response_prediction", "response_distillation", "distillation"),
    )
    snli: str | None = option(
        None,
        "folder or Hub id of SNLI, for the task snli; its evaluation sentences are removed from the training data",
    )
    nli: list[str] = option(
        [],
        "folders or Hub ids of natural language inference datasets (SNLI, MultiNLI …)",
        ("entailment", "distillation"),
    )
    captions: list[str] = option(
        [],
        "folders or Hub ids of image captions, in the format of `convsim data captions`",
        ("captions", "distillation"),
    )
    paraphrases: list[str] = option(
        [],
        "folders or Hub ids of paraphrases, or of sentence pairs with similarity scores",
        ("paraphrases", "distillation"),
    )
    documents: list[str] = option(
        [],
        "folders or Hub ids of sentences in order, in the format of `convsim data books`, or of conversation pairs; "
        "the task predicts neighboring sentences",
        ("neighbors", "distillation"),
    )
    texts: list[str] = option(
        [], "folders or Hub ids of datasets of any kind, whose texts are used only to train skip-gram word vectors"
    )
    stsb: str | None = option(
        None, "folder or Hub id of the STS Benchmark, used for evaluation and removed from the training data"
    )
    cqa: str | None = option(
        None, "folder of SemEval CQA subtask B, used for evaluation and removed from the training data"
    )
    sts: str | None = option(
        None, "folder of the SemEval STS datasets, used for evaluation and removed from the training data"
    )
    cache_dir: str = option("runs/cache", "folder that caches token ids between runs")
    extensions: list[str] = option([], "Python files that register your own tasks and encoders")

    # -- tasks
    tasks: dict[str, Weight] = option(
        {"response_prediction": 0.95, "snli": 0.05},
        "sampling weight of each task, as JSON; each step samples one task; the paper: 0.95 and 0.05 (section 3.1). "
        "For a single weight: --tasks.snli 0.1",
    )
    mask_false_negatives: bool = option(
        False,
        "mask false negatives: in-batch negatives that equal the true response, or that answer the same input",
        ("response_prediction",),
    )
    symmetric_loss: bool = option(False, "also predict the input from the response", ("response_prediction",))
    snli_share: Share = option(1.0, "fraction of the SNLI training pairs to train on", ("snli",))
    similarity_scale: Positive = option(
        20.0,
        "factor by which cosine similarities are multiplied (inverse temperature); Siamese CBOW: 1",
        (*CONTRASTIVE, "distillation", "neighbors"),
    )
    negatives: Count = option(2, "number of random negative sentences per sentence; Siamese CBOW: 2", ("neighbors",))
    score_teachers: list[str] = option(
        [],
        "folders or Hub ids of convsim models with the run's tokenizer; the model is trained to reproduce their mean "
        "scores in each batch: self-distillation (Furlanello et al., 2018)",
        IN_BATCH,
    )
    score_teacher_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = option(
        0.8, "weight of the self-distillation loss; the weight of the task's own loss is 1 minus this value", IN_BATCH
    )
    teacher: str | None = option(
        None,
        "folder or Hub id of the teacher, a SentenceTransformer",
        ("distillation", "response_distillation"),
    )
    teacher_texts: Several = option(
        200_000, "maximum number of training texts that the teacher encodes", ("distillation",)
    )
    distilled_pairs: list[str] = option(
        [],
        "datasets of pairs whose responses the teacher scores: those in which it ranks replies well; by default all",
        ("response_distillation",),
    )
    teacher_pairs: Several = option(
        200_000, "maximum number of conversation pairs that the teacher encodes", ("response_distillation",)
    )
    task_options: dict[str, Any] = option(
        {}, "options of your own tasks (extensions), as JSON; for a single one: --task_options.NAME VALUE"
    )

    # -- optimization
    max_steps: Annotated[int, msgspec.Meta(ge=1, le=MAX_STEPS)] | None = option(
        None, f"number of training steps; by default {DEFAULT_STEPS:,}, unless epochs is set"
    )
    epochs: Count | None = option(None, "number of passes over the examples of all tasks; replaces max_steps")
    batch_size: Several = option(128, "number of examples per step, over all processes")
    learning_rate: Positive = option(0.01, "learning rate")
    table_learning_rate: Positive | None = option(
        None,
        "learning rate of the embedding matrices; by default learning_rate, or 20 times learning_rate with adamw",
    )
    optimizer: Literal["sgd", "adamw"] = option(
        "sgd", "sgd (the paper's) or adamw (with row-wise Adagrad for the embedding matrices)"
    )
    weight_decay: NotNegative = option(
        0.0, "decoupled weight decay of the layers (not of the embedding matrices); adamw only"
    )
    max_grad_norm: Positive | None = option(None, "clip the norm of the gradient to this value")
    warmup: Share = option(0.0, "fraction of the run in which the learning rate increases from zero")
    decay: Literal["constant", "linear", "cosine"] = option(
        "constant", "learning rate schedule after the warmup: constant, or linear or cosine decay to zero"
    )
    average_from: Share = option(
        1.0,
        "fraction of the run after which the weights of every tenth step are averaged (stochastic weight averaging); "
        "the average is evaluated and saved",
    )
    late_from: Share = option(1.0, "fraction of the run after which late_batch_size and late_learning_rate apply")
    late_batch_size: Several | None = option(None, "batch size after late_from; the paper: 256")
    late_learning_rate: Positive | None = option(None, "learning rate after late_from; the paper: 0.001")
    adapt: bool = option(
        False,
        "adapt the model of initialize_from to your own conversations: its token weights are adjusted, batch size and "
        "max_steps depend on the number of pairs, and the result is the best interpolation between initial and "
        "trained weights on dev (fewer than 4,000 pairs: in 3-fold cross-validation), or the unchanged model if "
        "adapting does not help",
    )

    # -- evaluation
    eval_every: Count = option(1000, "number of steps between evaluations on dev; each evaluation saves a checkpoint")
    best_metric: str = option(
        "response_prediction.p_at_1",
        "dev result that selects the best checkpoint: response_prediction.p_at_1 (or p_at_n, the mean of P@1, P@3 and "
        "P@10, which varies less with the sample of queries), snli.accuracy, stsb.dev.all.pearson …; or last, for the "
        "last checkpoint",
    )
    final_split: Literal["both", "dev"] = option(
        "both", "split on which the finished model is evaluated: both (dev and test) or dev"
    )

    # -- run
    output_dir: str = option("runs/run", "folder of the run")
    overwrite: bool = option(False, "replace an earlier run in output_dir")
    resume: bool = option(False, "resume from the last checkpoint in output_dir")
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] = option(0, "random seed")
    log_every: Count = option(50, "number of steps between logs of the loss")
    trackers: list[str] = option(["tensorboard"], "experiment trackers supported by Accelerate, or none")
    mixed_precision: Literal["auto", "no", "bf16"] = option(
        "auto",
        "no, bf16 or auto: the precision of `accelerate launch`, but bf16 instead of no on a device with bfloat16 "
        "instructions; a resumed run keeps its precision",
    )
    half_precision: bool = option(
        False, "save the finished model in half precision, which halves its size; it is loaded as float32"
    )

    # -- Hub
    push_to_hub: bool = option(
        False,
        "push the finished model to hub_model_id; a new repository is private (`convsim publish` has more options)",
    )
    hub_model_id: str | None = option(None, "repository of the model on the Hub: OWNER/NAME")
    license: str | None = option(
        None, "license of the model for its card, an identifier of the Hub: mit, cc-by-sa-4.0, other …"
    )
    language: list[str] = option(["en"], "languages of the model for its card, as ISO 639 codes: en de …")

    def table_learning_rate_ratio(self) -> float:
        """Return the learning rate of the embedding matrices over that of the layers; it is the same at every step."""
        if self.table_learning_rate is not None:
            return self.table_learning_rate / self.learning_rate
        # Adagrad's step size decays with each row's update count, Adam's does not.
        return 20.0 if self.optimizer == "adamw" else 1.0


FIELDS = {each.name: each for each in dataclasses.fields(Settings)}
TYPES = typing.get_type_hints(Settings)


def sources_of(settings: Mapping[str, Any], kind: str) -> list[str]:
    """The sources that settings name for a kind of dataset, such as `pairs`; may be empty."""
    value = settings.get(kind, settings.get("task_options", {}).get(kind))
    return [value] if isinstance(value, str) else list(value or [])


def trained_tasks(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the tasks that some step may sample, in the order of `tasks`."""
    weights = settings.get("tasks", {}).items()
    return [task for task, weight in weights if weight and not (task == "snli" and settings.get("snli_share") == 0)]


# -- checks -----------------------------------------------------------------------------------------------------------


def build_settings(**values: Any) -> Settings:
    """Build the settings of a run: other options have their defaults.

    Raises:
        InputError: an option does not exist, a value has the wrong type or is out of range, or two options do not fit
            together.
    """
    settings = _convert(values)
    for name in MODELS:
        value = getattr(settings, name)
        setattr(settings, name, [*map(resolve_base, value)] if _is_list(name) else value and resolve_base(value))
    if settings.model_type is None and not settings.initialize_from:
        settings.model_type = DEFAULT_MODEL_TYPE
    _validate(settings)
    if settings.max_steps is None and settings.epochs is None and not settings.adapt:
        settings.max_steps = DEFAULT_STEPS
    return settings


def _convert(values: Mapping[str, Any]) -> Settings:
    """Convert values to the types of their options: text to numbers, for example."""
    if unknown := [name for name in values if name not in FIELDS]:
        hint = suggest(str(unknown[0]), FIELDS) or "; `convsim train --help` lists the options"
        raise InputError(f"unknown option '{unknown[0]}'{hint}")
    try:
        return msgspec.convert(dict(values), Settings, strict=False)
    except msgspec.ValidationError as error:
        message, _, path = str(error).rpartition(" - at ")
        name = re.sub(r"\W.*", "", path.removeprefix("`$."))
        choices = f"; expected one of {_choices(name)}" if _choices(name) else ""
        raise InputError(f"{name} is {json.dumps(values.get(name), default=str)}: {message}{choices}") from None


def _choices(name: str) -> str:
    is_choice = typing.get_origin(TYPES.get(name)) is Literal
    return ", ".join(typing.get_args(TYPES[name])) if is_choice else ""


def _validate(settings: Settings) -> None:
    """Check the format of values, and that no option excludes another or makes it ineffective."""
    for name in ("output_dir", "cache_dir"):
        if "://" in (folder := getattr(settings, name)):
            raise InputError(f"{name} is {folder}, a URL; expected a folder on a disk: upload it later")
    source = settings.word_vectors  # a path may name the output of a run that has not started yet
    if source not in ("random", "skip_gram") and "/" not in source and not Path(source).exists():
        raise InputError(
            f"word_vectors is '{source}'; expected random, skip_gram, an existing file or folder, or OWNER/NAME of "
            "the Hub"
        )
    if settings.best_metric.startswith("sts."):
        raise InputError(f"best_metric is '{settings.best_metric}', but sts has only test sets: choose a dev result")
    if settings.license is not None:
        check_license("license", settings.license)
    if not settings.language or not all(map(LANGUAGE.fullmatch, settings.language)):
        raise InputError(
            f"language is '{' '.join(settings.language)}'; expected ISO 639 codes in lower case, such as en, "
            "separated by spaces"
        )
    if settings.push_to_hub and not settings.hub_model_id:
        raise InputError("push_to_hub is set, so hub_model_id is needed: --hub_model_id OWNER/NAME")
    if settings.resume and settings.overwrite:
        raise InputError("resume and overwrite exclude each other: use only one of them")
    if not sum(settings.tasks.values()) > 0:
        raise InputError("no task has a sampling weight above 0: set one in tasks")
    if not trained_tasks(vars(settings)):
        raise InputError("snli_share is 0, but the run trains only on snli: increase it, or give another task a weight")
    if settings.adapt:
        _validate_adaptation(settings)
    _refuse_ineffective_options(settings)


def refuse_unknown(option: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names in a mapping that are not known.

    Raises:
        InputError: the message suggests a similar name.
    """
    for name in names:
        if name not in known:
            raise InputError(
                f"{option} has '{name}'{suggest(name, known)}; expected some of {', '.join(sorted(known))}"
            )


def _validate_adaptation(settings: Settings) -> None:
    if not settings.initialize_from:
        raise InputError("adapt needs a model to start from: --initialize_from FOLDER or OWNER/NAME")
    if [task for task, weight in settings.tasks.items() if weight] != ["response_prediction"]:
        raise InputError("adapt trains only on conversations: set tasks to {response_prediction: 1}")
    if settings.average_from < 1:
        raise InputError("adapt does not average weights: drop average_from")
    _refuse(settings, ("epochs",), "adapt, which derives the number of steps from the number of pairs")
    _refuse(settings, ("best_metric",), "adapt, which selects models by mean reciprocal rank")
    _refuse(settings, ("resume",), "adapt, which writes no checkpoints")


def _refuse_ineffective_options(settings: Settings) -> None:
    """Refuse options that another option makes ineffective.

    An option at its default value is not refused: the config.yaml of a run, which has all options, is a preset too.
    """
    late = ("late_batch_size", "late_learning_rate")
    if settings.initialize_from:
        source = "initialize_from, because the model has trained weights and a tokenizer"
        _refuse(settings, ("token_weights", "word_vectors", *NEW_TOKENIZER), source)
    if settings.tokenizer:
        _refuse(settings, NEW_TOKENIZER, "tokenizer, because the tokenizer is already trained")
    if settings.word_vectors != "skip_gram":
        cause = f"word_vectors: {settings.word_vectors}"
        _refuse(settings, ("texts", "word_vector_passes"), cause, "set word_vectors to skip_gram")
    if settings.epochs:
        _refuse(settings, ("max_steps",), "epochs", "drop epochs")
    if settings.optimizer == "sgd":
        _refuse(settings, ("weight_decay",), "optimizer: sgd", "set optimizer to adamw")
    if settings.late_from == 1:
        _refuse(settings, late, "late_from: 1 (the end of the run)", "set late_from below 1")
    elif not _changed(settings, late):
        raise InputError(f"late_from has no effect without {' or '.join(late)}: set one of them, or drop late_from")
    if not settings.push_to_hub:
        _refuse(settings, ("hub_model_id",), "push_to_hub: false", "set push_to_hub to true")
    if not settings.score_teachers:
        _refuse(settings, ["score_teacher_share"], "score_teachers: none", "list models in score_teachers")
    _refuse_options_of_absent_tasks(settings)


def _refuse_options_of_absent_tasks(settings: Settings) -> None:
    """Refuse options that only tasks outside of `tasks` read.

    A task of weight 0 is in `tasks`, so that weights may vary while the rest of the preset stays.
    """
    readers = {name: each.metadata["tasks"] for name, each in FIELDS.items() if each.metadata["tasks"]}
    if settings.tasks.keys() - {task for tasks in readers.values() for task in tasks}:
        return  # the tasks of extensions may read any option
    for name in _changed(settings, readers):
        if not set(readers[name]) & settings.tasks.keys():
            one = readers[name][0] if len(readers[name]) == 1 else f"one of {', '.join(readers[name])}"
            cause, remedy = f"tasks: {', '.join(settings.tasks)}", f"give {one} a sampling weight in tasks"
            _refuse(settings, [name], cause, remedy)


def _changed(settings: Settings, names: Iterable[str]) -> list[str]:
    """Return the named options whose values differ from their defaults."""
    defaults = Settings()
    return [name for name in names if getattr(settings, name) != getattr(defaults, name)]


def _refuse(settings: Settings, names: Iterable[str], cause: str, remedy: str = "") -> None:
    """Refuse options that have no effect together with another one, unless they have their defaults.

    Args:
        settings: the settings.
        names: the options that have no effect.
        cause: the other option, for the message.
        remedy: how to make them effective, for the message.
    """
    if not (changed := _changed(settings, names)):
        return
    verb, pronoun = ("has", "it") if len(changed) == 1 else ("have", "them")
    reset = " ".join(f"--{name}{'' if isinstance(getattr(settings, name), list) else ' none'}" for name in changed)
    alternative = f"{remedy}, or drop {pronoun}" if remedy else f"drop {pronoun}"
    raise InputError(
        f"{', '.join(changed)} {verb} no effect with {cause}: {alternative} (to reset an option of a preset: {reset})"
    )


# -- presets and the command line -------------------------------------------------------------------------------------


def parse_settings(argv: Sequence[str]) -> Settings:
    """Parse `PRESET [--option VALUE …]`; PRESET is the name of a preset that ships with convsim, or a YAML file.

    Raises:
        InputError: the preset is missing or unreadable, an option is unknown, a value has the wrong type or is out of
            range, or two options do not fit together.
        SystemExit: the command line has --help, which was printed.
    """
    if {"--help", "-h"} & set(argv):
        print(_format_help())
        raise SystemExit(0)
    if not argv or argv[0].startswith("-"):
        raise InputError("the first argument must be a preset; `convsim train` lists the presets")
    preset, *words = argv
    options: dict[str, Any] = {}
    for file, changes in read_presets(find_preset(preset)):
        with _errors_in(str(file)):
            options = _change(options, changes)
            _convert(options)
    with _errors_in("command line"):
        options = _change(options, _read_words(words))
        _convert(options)
    settings = build_settings(**options)
    if not settings.extensions:  # which may register tasks
        refuse_unknown("tasks", settings.tasks, {task for each in FIELDS.values() for task in each.metadata["tasks"]})
    if settings.table_learning_rate is None:
        # Last, so that an override of learning_rate changes both; written out, so that config.yaml is complete.
        settings.table_learning_rate = settings.learning_rate * settings.table_learning_rate_ratio()
    return settings


@contextmanager
def _errors_in(source: str) -> Iterator[None]:
    """Prefix the errors of a preset or of the command line with its name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _read_words(words: Sequence[str]) -> dict[str, Any]:
    """Read `--option VALUE …` and `--option=VALUE`, with underscores or hyphens: option -> its value or values."""
    options: dict[str, list[str]] = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            values = options[name.replace("-", "_")] = [value] if equals else []
        elif values is None:
            raise InputError(f"unknown argument '{word}'; expected --OPTION VALUE")
        else:
            values.append(word)
    return {name: _value_of(name, values) for name, values in options.items()}


def _value_of(name: str, words: list[str]) -> Any:
    """Return the words of a list, or the only word of another option, read as JSON for a mapping and its entries."""
    mapping, dot, _ = name.partition(".")
    if _is_list(name):
        return words
    if len(words) != 1:
        raise InputError(f"{name}: expected one value, got {len(words)}")
    if mapping in MAPPINGS and (dot or words[0].lower() not in NONE):
        try:
            return json.loads(words[0])
        except ValueError:
            return words[0]
    if float in (TYPES.get(name), *typing.get_args(TYPES.get(name))):
        with suppress(ValueError):
            return float(words[0])  # msgspec does not read .01
    return words[0]


def _change(options: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the values of a preset or of the command line; none gives an option its default.

    `model_config` is merged, unless `model_type` changes. A model to start from resets the options for a new model.
    """
    changes_type = changes.get("model_type", own_type := options.get("model_type", DEFAULT_MODEL_TYPE)) != own_type
    replaced = ["model_config"] if changes_type and not _is_none("model_type", changes["model_type"]) else []
    if not _is_none("initialize_from", changes.get("initialize_from")):
        replaced += [*NEW_TOKENIZER, *NEW_WEIGHTS, *(NEW_MODEL if "initialize_from" not in options else ())]
    changed = {name: value for name, value in options.items() if name not in replaced}
    for name, value in changes.items():
        mapping, dot, entry = str(name).partition(".")
        if dot and mapping in MAPPINGS:
            changed[mapping] = {**changed.get(mapping, getattr(Settings(), mapping)), entry: value}
        elif _is_none(name, value):
            changed.pop(name, None)
        elif name == "model_config" and isinstance(value, dict):
            changed[name] = {**changed.get(name, {}), **value}
        else:
            changed[name] = [value] if _is_list(name) and not isinstance(value, list) else value
    return changed


def _is_none(name: str, value: Any) -> bool:
    return value is None or (not _is_list(name) and str(value).lower() in NONE)


def _is_list(name: str) -> bool:
    return typing.get_origin(TYPES.get(name)) is list


def _format_help() -> str:
    """Return the help: every option under its heading, with its choices, the tasks that read it, and its default."""
    lines = [f"usage: {USAGE}", "", "Train an encoder with the settings of a preset. Command-line options override the"]
    lines += ["preset; the value none resets an option to its default."]
    defaults = Settings()
    for name, each in FIELDS.items():
        lines += ["", f"{HEADINGS[name]}:"] if name in HEADINGS else []
        notes = [f"one of {_choices(name)}"] if _choices(name) else []
        notes += [f"used by {', '.join(each.metadata['tasks'])}"] if each.metadata["tasks"] else []
        notes += [f"default: {_format_default(getattr(defaults, name))}"]
        text = f"{each.metadata['help']} ({'; '.join(notes)})"
        lines.append(textwrap.fill(text, 100, initial_indent=f"  --{name}  ", subsequent_indent=" " * 6))
    return "\n".join([*lines, "", list_presets()])


def _format_default(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return json.dumps(value) if isinstance(value, (dict, bool)) else str(value).replace("None", "none")


def list_presets() -> str:
    """Return a table of the presets with their descriptions, the comments of their first lines, and how to run one."""
    files = sorted(PRESETS.glob("*.yaml"))
    width = max(len(file.stem) for file in files)
    descriptions = {file.stem: file.read_text(encoding="utf-8").partition("\n")[0].strip("# ") for file in files}
    rows = [f"  {name:{width}}  {description}" for name, description in descriptions.items()]
    how = "`convsim train quickstart`, or in several processes with `accelerate launch -m trainer.run quickstart`"
    return "\n".join(["presets:", *rows, "", f"Run one with {how}."])


def load_extensions(files: Iterable[str]) -> None:
    """Import Python files that register the user's tasks and encoders; each file is imported once.

    Args:
        files: the option `extensions`.

    Raises:
        InputError: a file does not exist, or its import raises an error.
    """
    for file in files:
        path = Path(file).resolve()
        name = f"convsim_extension_{path.stem}"
        if getattr(sys.modules.get(name), "__file__", None) == str(path):
            continue
        if path.suffix != ".py" or not path.is_file():
            raise InputError(f"extensions: {file} is not a Python file")
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None and specification.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(specification)
        try:
            specification.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise InputError(f"extensions: {file} cannot be imported: {type(error).__name__}: {error}") from error
