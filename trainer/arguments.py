"""The options that every run has; each task adds its own (`trainer.tasks`)."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from data_scripts.files.command_line import LARGEST
from data_scripts.files.errors import InputError
from data_scripts.files.hub import check_license

TOKENIZERS = ("word", "bare_word", "wordpiece")
DEFAULT_STEPS = 1000
MAX_STEPS = 100_000_000  # the plan of all batches is in memory; the paper's run has 40 million steps
MAX_TOKENS = 64  # of a text, by default, for encoders of sequences
DEFAULT_MODEL_TYPE = "dan"
# Options that say how a new model begins; a model of initialize_from has its own config, weights and tokenizer.
NEW_TOKENIZER = ("tokenizer_kind", "min_count", "vocab_size")
NEW_WEIGHTS = ("token_weights", "word_vectors", "word_vector_passes", "texts")
HUB_OPTIONS = ("hub_model_id", "hub_public", "hub_revision", "hub_create_pr")  # of push_to_hub
# The headings of `--help`, by the first option of each; the heading of a task's own options names the task.
HEADINGS = {
    "model_type": "model",
    "texts": "data",
    "tasks": "tasks",
    "max_steps": "optimization",
    "eval_every": "evaluation",
    "output_dir": "run",
    "push_to_hub": "Hub",
}
LANGUAGE = re.compile("[a-z]{2,3}|multilingual|code")  # what the Hub accepts: codes of two or three letters, two words


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """Declare a dataclass field that is an option of a run.

    Args:
        default: the value if neither the preset nor the command line gives one; lists and mappings are copied.
        help: the help text.
        minimum: the lowest value.
        above: a bound that the value must exceed.
        maximum: the highest value.
        choices: all values.
    """
    metadata = {"help": help, "minimum": minimum, "above": above, "maximum": maximum, "choices": choices}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Arguments:
    """The settings of one run. If a default is the paper's, the help text says so (SGD, 128, 0.01, 0.95 / 0.05).

    A run's own class also has the options of every registered task: `trainer.command_line.arguments_class`.
    """

    model_type: str | None = option(
        None,
        "encoder: the NAME of a modeling_NAME.py in modeling_convsim; by default that of initialize_from, or "
        f"{DEFAULT_MODEL_TYPE}",
    )
    model_config: dict = option(
        {},
        "fields of the encoder's config, as JSON: '{\"embedding_size\": 256}'; for a single field: "
        "--model_config.embedding_size 256",
    )
    token_weights: str = option(
        "ones",
        "initial token weights of a DAN with learned_token_weights, or initial scale of a CBOW's word embeddings: "
        "ones, or sif, a / (a + p(w)) with a = 0.001 (Arora et al., 2017)",
        choices=("ones", "sif"),
    )
    word_vectors: str = option(
        "random",
        "initial word embeddings: random; skip_gram (trained on the texts of the run); a file or folder of word "
        "vectors; or the folder or Hub id of a SentenceTransformer, which embeds the tokens",
    )
    word_vector_passes: int | None = option(
        None, "passes of skip_gram over the texts; by default 1 to 5, fewer over more texts", minimum=1
    )
    initialize_from: str | None = option(
        None,
        "folder or Hub id of a saved multitask model to start from, with its config and its tokenizer, or of a "
        "pretrained text encoder or SentenceTransformer, which gets new heads; on the command "
        f"line it replaces what a preset says of a new model ({', '.join((*NEW_TOKENIZER, *NEW_WEIGHTS))})",
    )
    tokenizer: str | None = option(
        None, "folder or Hub id of a tokenizer; by default that of initialize_from, or a new one trained on the texts"
    )
    tokenizer_kind: str = option("word", f"kind of the tokenizer to train: {', '.join(TOKENIZERS)}", choices=TOKENIZERS)
    min_count: int = option(
        2, "minimum number of occurrences of a word in the vocabulary of a new tokenizer", minimum=1
    )
    vocab_size: int = option(30_000, "maximum vocabulary size of a new tokenizer", minimum=10)
    max_tokens: int | None = option(
        None,
        "maximum number of tokens of a text; longer texts are truncated. By default, encoders that average words read "
        f"all of a text, and others {MAX_TOKENS} tokens",
        minimum=1,
    )

    texts: list[str] = option(
        [], "folders or Hub ids of more texts (datasets of any kind), used for skip-gram word vectors only"
    )
    stsb: str | None = option(
        None, "folder or Hub id of the STS Benchmark: evaluated, and removed from the training data"
    )
    cqa: str | None = option(None, "folder of SemEval CQA subtask B: evaluated, and removed from the training data")
    sts: str | None = option(None, "folder of the SemEval STS datasets: evaluated, and removed from the training data")
    cache_dir: str = option("runs/cache", "folder that caches token ids between runs")
    extensions: list[str] = option([], "Python files that register tasks and encoders of your own")

    tasks: dict = option(
        {"response_prediction": 0.95, "snli": 0.05},
        "sampling weight of each task, as JSON; every step samples one task; the paper: 0.95 and 0.05 (section 3.1). "
        "For a single weight: --tasks.snli 0.1",
    )

    max_steps: int | None = option(
        None, f"number of training steps; {DEFAULT_STEPS:,} unless epochs is given", minimum=1, maximum=MAX_STEPS
    )
    epochs: int | None = option(
        None, "number of passes over the examples of all tasks, instead of max_steps", minimum=1
    )
    batch_size: int = option(128, "examples per step, over all processes", minimum=2)
    mini_batch_size: int | None = option(
        None,
        "number of examples that a process encodes at a time (GradCache): the gradient is that of the whole batch, "
        "memory holds the activations of one mini-batch, and every example is encoded twice",
        minimum=1,
    )
    learning_rate: float = option(0.01, "learning rate", above=0)
    table_learning_rate: float | None = option(
        None,
        "learning rate of the embedding matrices; by default learning_rate, and with adamw 20 times learning_rate",
        above=0,
    )
    optimizer: str = option(
        "sgd", "sgd (the paper's) or adamw (with row-wise Adagrad for the embedding matrices)", choices=("sgd", "adamw")
    )
    weight_decay: float = option(
        0.0, "decoupled weight decay of the layers (not of the embedding matrices); adamw only", minimum=0
    )
    max_grad_norm: float | None = option(None, "clip the norm of the gradient to this value", above=0)
    warmup: float = option(0.0, "share of the run in which the learning rate rises from zero", minimum=0, maximum=1)
    decay: str = option(
        "constant",
        "learning rate after the warm-up: constant, or linear or cosine decay to zero",
        choices=("constant", "linear", "cosine"),
    )
    average_from: float = option(
        1.0,
        "share of the run after which the weights of every tenth step are averaged (stochastic weight averaging); the "
        "average is evaluated and saved",
        minimum=0,
        maximum=1,
    )
    late_from: float = option(
        1.0, "share of the run after which late_batch_size and late_learning_rate apply", minimum=0, maximum=1
    )
    late_batch_size: int | None = option(None, "batch size after late_from; the paper: 256", minimum=2)
    late_learning_rate: float | None = option(None, "learning rate after late_from; the paper: 0.001", above=0)

    adapt: bool = option(
        False,
        "adapt the model of initialize_from to a user's own conversations: training starts with token weights for "
        "these, batch size and max_steps follow from the number of pairs, and the result is start + a (trained - "
        "start), with the a that is best on dev (fewer than 4,000 pairs: in 3-fold cross-validation); the model "
        "itself if that is best",
    )

    eval_every: int = option(1000, "number of steps between evaluations on dev, each with a checkpoint", minimum=1)
    best_metric: str = option(
        "response_prediction.p_at_1",
        "dev result that selects the best checkpoint: response_prediction.p_at_1 (or p_at_n, the mean of P@1, P@3 and "
        "P@10, which varies less with the sample of queries), snli.accuracy, "
        "stsb.dev.all.pearson …; or last, which selects the last checkpoint",
    )
    final_split: str = option(
        "both", "split that the finished model is evaluated on: both (dev and test) or dev", choices=("both", "dev")
    )

    output_dir: str = option("runs/run", "the run's folder")
    overwrite: bool = option(False, "delete an earlier run in output_dir")
    resume: bool = option(False, "resume from the last checkpoint in output_dir")
    seed: int = option(0, "random seed", minimum=0, maximum=2**32 - 1)
    log_every: int = option(50, "number of steps between logs of the loss", minimum=1)
    trackers: list[str] = option(["tensorboard"], "trackers, by Accelerate's names, or none")
    device: str = option("auto", "auto (a GPU if there is one), cpu or cuda", choices=("auto", "cpu", "cuda"))
    mixed_precision: str = option(
        "auto",
        "no, bf16 or auto: the precision given to `accelerate launch`; if that is no, bf16 on a device with "
        "bfloat16 instructions; a resumed run keeps its precision",
        choices=("auto", "no", "bf16"),
    )
    num_processes: int | None = option(
        None, "expected number of processes; the run stops if it has another number", minimum=1
    )

    half_precision: bool = option(
        False,
        "store the finished model in half precision, in half the space (it loads as float32); results.json has the "
        "scores of both",
    )
    push_to_hub: bool = option(False, "publish the finished model; needs hub_model_id")
    hub_model_id: str | None = option(None, "repository of the published model: OWNER/NAME")
    hub_public: bool = option(False, "create a public repository, not a private one")
    hub_revision: str | None = option(None, "branch of the repository, created if it does not exist (default: main)")
    hub_create_pr: bool = option(False, "open a pull request instead of committing to the branch")
    license: str | None = option(
        None, "license of the model, for its card, as the Hub spells it: mit, cc-by-sa-4.0, other … (default: none)"
    )
    language: list[str] = option(["en"], "languages of the model, for its card, as ISO 639 codes: en de …")


def table_learning_rate_ratio(arguments: Arguments) -> float:
    """Return the learning rate of the embedding matrices over that of the layers; it is the same at every step."""
    if arguments.table_learning_rate is not None:
        return arguments.table_learning_rate / arguments.learning_rate
    # Adagrad's step size decays with each row's update count, Adam's does not.
    return 20.0 if arguments.optimizer == "adamw" else 1.0


def validate(arguments: Arguments) -> None:
    """Check each value, and that no option excludes another or makes it ineffective.

    Raises:
        InputError: a value is out of range, or two options do not fit together; the message names the options.
    """
    for each in fields(arguments):
        _validate_range(each.name, getattr(arguments, each.name), each.metadata)
    for name in ("output_dir", "cache_dir"):
        if "://" in (folder := getattr(arguments, name)):
            raise InputError(f"{name} is {folder}, a URL; expected a folder: name one on a disk, and copy it later")
    source = arguments.word_vectors  # a path may name the output of a run that has not started yet
    if source not in ("random", "skip_gram") and "/" not in source and not Path(source).exists():
        raise InputError(
            f"word_vectors is '{source}'; expected random, skip_gram, an existing file or folder, or OWNER/NAME of "
            "the Hub"
        )
    if arguments.best_metric.startswith("sts."):
        raise InputError(f"best_metric is '{arguments.best_metric}', but sts are test sets: name a result of dev")
    if arguments.license is not None:
        check_license("license", arguments.license)
    if not arguments.language or not all(map(LANGUAGE.fullmatch, arguments.language)):
        raise InputError(
            f"language is '{' '.join(arguments.language)}'; expected ISO 639 codes in lower case, such as en, "
            "separated by spaces"
        )
    _validate_combinations(arguments)
    _validate_adaptation(arguments)
    _refuse_ineffective_options(arguments)


def _validate_range(name: str, value: Any, rules: Any) -> None:
    if value is None:
        return
    if isinstance(value, (list, dict)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            _validate_range(f"{name}.{key}" if isinstance(value, dict) else name, each, rules)
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name} is {value}; expected a finite number")
    if rules["choices"] is not None and value not in rules["choices"]:
        raise InputError(f"{name} is '{value}'; expected one of {', '.join(rules['choices'])}")
    if rules["minimum"] is not None and not value >= rules["minimum"]:
        raise InputError(f"{name} is {value}; expected {rules['minimum']} or more")
    if rules["above"] is not None and not value > rules["above"]:
        raise InputError(f"{name} is {value}; expected more than {rules['above']}")
    maximum = LARGEST if isinstance(value, int) and rules["maximum"] is None else rules["maximum"]
    if maximum is not None and not value <= maximum:
        raise InputError(f"{name} is {value}; expected {maximum} or less")


def _validate_combinations(arguments: Arguments) -> None:
    if arguments.push_to_hub and not arguments.hub_model_id:
        raise InputError("push_to_hub is set, so hub_model_id is needed: --hub_model_id OWNER/NAME")
    if arguments.resume and arguments.overwrite:
        raise InputError("resume and overwrite exclude each other: drop one of them")


def _validate_adaptation(arguments: Arguments) -> None:
    if not arguments.adapt:
        return
    if not arguments.initialize_from:
        raise InputError("adapt needs a model to start from: --initialize_from FOLDER or OWNER/NAME")
    if [task for task, weight in arguments.tasks.items() if weight] != ["response_prediction"]:
        raise InputError("adapt trains on conversations alone: set tasks to {response_prediction: 1}")
    if arguments.average_from < 1:
        raise InputError("adapt interpolates whole models: drop average_from")
    refuse_ineffective(arguments, ("epochs",), "adapt, whose steps follow from the number of pairs")
    refuse_ineffective(arguments, ("best_metric",), "adapt, which chooses by the mean reciprocal rank")
    refuse_ineffective(arguments, ("resume",), "adapt, which takes minutes and starts again")


def _refuse_ineffective_options(arguments: Arguments) -> None:
    """Refuse options that another option makes ineffective.

    An option at its default value is not refused: the config.yaml of a run, which has all options, is a preset too.
    """
    late = ("late_batch_size", "late_learning_rate")
    if arguments.initialize_from:
        source = "initialize_from, which names a trained model with its tokenizer"
        refuse_ineffective(arguments, ("token_weights", "word_vectors", *NEW_TOKENIZER), source)
    if arguments.tokenizer:
        refuse_ineffective(arguments, NEW_TOKENIZER, "tokenizer, which names a trained tokenizer")
    if arguments.word_vectors != "skip_gram":
        cause = f"word_vectors: {arguments.word_vectors}"
        refuse_ineffective(arguments, ("texts", "word_vector_passes"), cause, "set word_vectors to skip_gram")
    if arguments.epochs:
        refuse_ineffective(arguments, ("max_steps",), "epochs", "drop epochs")
    if arguments.optimizer == "sgd":
        refuse_ineffective(arguments, ("weight_decay",), "optimizer: sgd", "set optimizer to adamw")
    if arguments.late_from == 1:
        refuse_ineffective(arguments, late, "late_from: 1, the end of the run", "set late_from below 1")
    elif not changed_options(arguments, late):
        raise InputError(f"late_from has no effect without {' or '.join(late)}: set one of them, or drop late_from")
    if not arguments.push_to_hub:
        refuse_ineffective(arguments, HUB_OPTIONS, "push_to_hub: false", "set push_to_hub to true")


def changed_options(arguments: Arguments, names: Iterable[str]) -> list[str]:
    """Return those of the named options whose value differs from their default."""
    defaults = type(arguments)()
    return [name for name in names if getattr(arguments, name) != getattr(defaults, name)]


def refuse_ineffective(arguments: Arguments, names: Iterable[str], cause: str, remedy: str = "") -> None:
    """Refuse options that have no effect together with another one.

    Args:
        arguments: the settings.
        names: the options that have no effect.
        cause: the other option, for the message.
        remedy: how to give them effect, for the message.

    Raises:
        InputError: one of the options has another value than its default.
    """
    if not (changed := changed_options(arguments, names)):
        return
    verb, pronoun = ("has", "it") if len(changed) == 1 else ("have", "them")
    reset = " ".join(f"--{name}{'' if isinstance(getattr(arguments, name), list) else ' none'}" for name in changed)
    alternative = f"{remedy}, or drop {pronoun}" if remedy else f"drop {pronoun}"
    raise InputError(
        f"{', '.join(changed)} {verb} no effect with {cause}: {alternative} (to reset an option of a preset: {reset})"
    )
