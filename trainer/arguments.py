"""The options that every run has; each task adds its own (`trainer.tasks`)."""

import dataclasses
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from data_scripts.write.hub import check_license

TOKENIZERS = ("word", "bare_word", "wordpiece")


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] | None = None,
) -> Any:
    """A dataclass field that is an option of a run.

    Args:
        default: the value where neither the preset nor the command line gives one; lists and mappings are copied.
        help: what the command line says of it.
        minimum: the lowest value.
        above: what a value must exceed.
        maximum: the highest value.
        choices: all values.
    """
    metadata = {"help": help, "minimum": minimum, "above": above, "maximum": maximum, "choices": choices}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Arguments:
    """The settings of one run. Where a default is the paper's, the help text says so (SGD, 128, 0.01, 0.95 / 0.05).

    A run's own class also has the options of every registered task: `trainer.command_line.arguments_class`.
    """

    # The model
    model_type: str = option("dan", "encoder: the name of a modeling_NAME.py in modeling_convsim")
    model_config: dict = option({}, "fields of the encoder's config, as JSON: '{\"embedding_size\": 256}'")
    token_weights: str = option(
        "ones",
        "initial weight of each token, for a DAN with learned_token_weights and for a CBOW, whose vectors it scales: "
        "ones, or sif, a / (a + p(w)) with a = 0.001 (Arora et al., 2017)",
        choices=("ones", "sif"),
    )
    word_vectors: str = option(
        "random",
        "initial word embeddings: random, skip_gram (trained on the texts of the run), or a file or folder of word "
        "vectors",
    )
    initialize_from: str | None = option(None, "folder or Hub id of a saved multitask model to start from")
    tokenizer: str | None = option(
        None, "folder or Hub id of a tokenizer; by default the one of initialize_from, else one trained on the texts"
    )
    tokenizer_kind: str = option("word", f"tokenizer to train: {', '.join(TOKENIZERS)}", choices=TOKENIZERS)
    min_count: int = option(
        2, "a word that occurs less often in the texts of a trained tokenizer is unknown", minimum=1
    )
    vocab_size: int = option(30_000, "largest vocabulary of a trained tokenizer", minimum=10)
    max_tokens: int = option(64, "maximum number of tokens of a text; the rest is truncated", minimum=1)

    # The data
    texts: list[str] = option(
        [], "folders or Hub ids of further texts, of any of our commands: for the word vectors only"
    )
    stsb: str | None = option(None, "folder or Hub id of the STS Benchmark: evaluated on, and kept out of training")
    cqa: str | None = option(None, "folder of SemEval CQA subtask B: evaluated on, and kept out of training")
    sts: str | None = option(None, "folder of SemEval STS sets: evaluated on, and kept out of training")
    cache_dir: str = option("runs/cache", "where token ids are cached between runs")
    extensions: list[str] = option([], "Python files outside of the package with tasks and encoders of your own")

    # The tasks
    tasks: dict = option(
        {"response_prediction": 0.95, "snli": 0.05},
        "sampling weight of each task, as JSON; every step samples one task; the paper: 0.95 and 0.05 (section 3.1)",
    )
    late_tasks: dict = option({}, "sampling weights after late_from, as JSON; by default those of tasks")

    # The schedule
    max_steps: int = option(1000, "number of training steps", minimum=1)
    epochs: int | None = option(
        None,
        "instead of max_steps: as many steps of batch_size as pass so often over the examples of all tasks",
        minimum=1,
    )
    batch_size: int = option(128, "examples a step, over all processes", minimum=2)
    mini_batch_size: int | None = option(
        None,
        "examples of a process's batch that are encoded at a time; only the embeddings of the rest are in memory, and "
        "the gradient is the same, at the cost of a second forward pass (GradCache)",
        minimum=1,
    )
    learning_rate: float = option(0.01, "learning rate", above=0)
    table_learning_rate: float | None = option(
        None,
        "learning rate of the embedding matrices; by default learning_rate, and with adamw twenty times that",
        above=0,
    )
    optimizer: str = option(
        "sgd", "sgd (the paper's) or adamw (with row-wise Adagrad on the embedding matrices)", choices=("sgd", "adamw")
    )
    weight_decay: float = option(
        0.0, "decoupled weight decay of the layers (not of the embedding matrices); adamw only", minimum=0
    )
    max_grad_norm: float | None = option(None, "clip the gradient to this norm", above=0)
    warmup: float = option(0.0, "share of the run over which the learning rate rises from zero", minimum=0, maximum=1)
    decay: str = option(
        "constant",
        "learning rate after warm-up: constant, linear or cosine (to zero)",
        choices=("constant", "linear", "cosine"),
    )
    late_from: float = option(1.0, "share of the run after which the late_ values hold", minimum=0, maximum=1)
    late_batch_size: int | None = option(None, "batch size after late_from; the paper: 256", minimum=2)
    late_learning_rate: float | None = option(None, "learning rate after late_from; the paper: 0.001", above=0)

    # The run
    output_dir: str = option("runs/run", "the run's folder")
    overwrite: bool = option(False, "delete what an earlier run left in output_dir")
    resume: bool = option(False, "resume from the last checkpoint in output_dir")
    seed: int = option(0, "seed of everything that is drawn at random", minimum=0)
    eval_every: int = option(1000, "evaluate on dev and write a checkpoint every so many steps", minimum=1)
    eval_queries: int = option(2000, "maximum number of response prediction queries during training", minimum=1)
    best_metric: str = option(
        "response_prediction.p_at_1",
        "dev result that selects the best checkpoint: response_prediction.p_at_1, snli.accuracy, "
        "stsb.dev.all.pearson …; or last, which takes the last",
    )
    final_split: str = option(
        "both", "what the finished model is evaluated on: dev and test (both), or dev alone", choices=("both", "dev")
    )
    log_every: int = option(50, "log the loss every so many steps", minimum=1)
    trackers: list[str] = option(["tensorboard"], "trackers by Accelerate's names, or none")
    device: str = option("auto", "auto (a GPU if there is one), cpu or cuda", choices=("auto", "cpu", "cuda"))
    mixed_precision: str = option(
        "auto",
        "no, fp16, bf16, or auto: what `accelerate launch` says, and bf16 where that is no and the device has "
        "instructions for it; a resumed run keeps its precision",
        choices=("auto", "no", "fp16", "bf16"),
    )
    num_processes: int | None = option(None, "stop unless the run has this many processes", minimum=1)
    sharded: bool = option(
        False,
        "shard the layers' weights, gradients and optimizer states over the processes (FSDP): for encoders that do not "
        "fit into one GPU",
    )
    half_precision: bool = option(
        False,
        "store the finished model in half precision, in half the space (it loads as float32); results.json has the "
        "scores of both",
    )
    push_to_hub: bool = option(False, "publish the model when done; needs hub_model_id")
    hub_model_id: str | None = option(None, "where to publish: OWNER/NAME")
    hub_private: bool = option(False, "publish to a private repository")
    license: str = option(
        "apache-2.0", "license of the model, for its card, as the Hub spells it: mit, cc-by-sa-4.0, other …"
    )
    language: list[str] = option(["en"], "languages of the model, for its card, as ISO 639 codes: en de …")


def table_learning_rate_ratio(arguments: Arguments) -> float:
    """Learning rate of the embedding matrices over that of the layers, the same at every step."""
    if arguments.table_learning_rate is not None:
        return arguments.table_learning_rate / arguments.learning_rate
    # Adagrad's step size decays with each row's update count, Adam's does not.
    return 20.0 if arguments.optimizer == "adamw" else 1.0


def validate(arguments: Arguments) -> None:
    """Check every value by itself, and those that must fit one another.

    Raises:
        InputError: a value is out of range, or two exclude each other; the message names the options.
    """
    for each in dataclasses.fields(arguments):
        _validate_range(each.name, getattr(arguments, each.name), each.metadata)
    source = arguments.word_vectors  # a path may name what another run is still to make
    if source not in ("random", "skip_gram") and "/" not in source and not Path(source).exists():
        raise InputError(f"word_vectors is '{source}'; expected random, skip_gram, or an existing file or folder")
    if arguments.best_metric.startswith("sts."):
        raise InputError(f"best_metric is '{arguments.best_metric}', but sts are test sets: name a result of dev")
    check_license("license", arguments.license)
    # What the Hub takes: two or three letters, or one of two words.
    if not arguments.language or not all(map(re.compile("[a-z]{2,3}|multilingual|code").fullmatch, arguments.language)):
        raise InputError(
            f"language is '{' '.join(arguments.language)}'; expected ISO 639 codes in small letters, such as en, or "
            "several with spaces between"
        )
    if arguments.push_to_hub and not arguments.hub_model_id:
        raise InputError("push_to_hub is set, so hub_model_id is needed: --hub_model_id OWNER/NAME")
    if arguments.resume and arguments.overwrite:
        raise InputError("resume and overwrite exclude each other: drop one of them")


def _validate_range(name: str, value: Any, rules: Any) -> None:
    if value is None:
        return
    if rules["choices"] is not None and value not in rules["choices"]:
        raise InputError(f"{name} is '{value}'; expected one of {', '.join(rules['choices'])}")
    if rules["minimum"] is not None and not value >= rules["minimum"]:
        raise InputError(f"{name} is {value}; expected {rules['minimum']} or more")
    if rules["above"] is not None and not value > rules["above"]:
        raise InputError(f"{name} is {value}; expected more than {rules['above']}")
    if rules["maximum"] is not None and not value <= rules["maximum"]:
        raise InputError(f"{name} is {value}; expected {rules['maximum']} or less")
