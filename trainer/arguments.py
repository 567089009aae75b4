"""What a run can be told: one dataclass; a preset is a YAML file of its fields, and the command line wins."""

import argparse
import dataclasses
import difflib
import functools
import json
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import yaml

from data_scripts.errors import InputError

MODEL_TYPES = ("dan", "transformer", "cbow")
# Task -> the option that names its data.
TASKS = {
    "response_prediction": "pairs",
    "snli": "snli",
    "entailment": "nli",
    "captions": "captions",
    "paraphrases": "paraphrases",
    "ranking": "paraphrases",
    "distillation": "teacher",
}


def _option(default: Any, help: str, **rules: Any) -> Any:
    """A field with its help text and what its values must satisfy: `above`, `least`, `most` or `choices`."""
    metadata = {"help": help, "rules": rules}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass
class Arguments:
    """The settings of one run. Where a default is the paper's, the help text says so (SGD, 128, 0.01, 0.95 / 0.05)."""

    # The model
    model_type: str = _option("dan", "encoder: dan, transformer or cbow", choices=MODEL_TYPES)
    model_config: dict = _option({}, "fields of the encoder's config, as JSON: '{\"embedding_size\": 256}'")
    token_weights: str = _option(
        "ones",
        "start of a DAN's learned_token_weights, or of a CBOW's vectors' lengths: ones, or sif, a / (a + p(w)) "
        "with a = 0.001 (Arora et al., 2017)",
        choices=("ones", "sif"),
    )
    word_vectors: str = _option(
        "random",
        "start of the word table: random, or skip_gram, trained on the training texts first (Mikolov et al., 2013; the "
        "paper's footnote 5 has word vectors from elsewhere)",
        choices=("random", "skip_gram"),
    )
    initialise_from: str | None = _option(None, "folder or Hub id of a saved multitask model to start from")
    tokenizer: str | None = _option(
        None, "folder or Hub id of a tokenizer; by default the one of initialise_from, else one trained on the pairs"
    )
    tokenizer_kind: str = _option(
        "word", "kind of tokenizer to train: word or wordpiece", choices=("word", "wordpiece")
    )
    vocab_size: int = _option(30_000, "largest vocabulary of a tokenizer trained here", least=10)
    max_tokens: int = _option(64, "tokens of a text that are read; the rest is cut off", least=1)

    # The data
    pairs: list[str] = _option(
        [], "folders (or Hub ids) of conversation pairs, as `python -m data_scripts` writes them"
    )
    snli: str | None = _option(None, "folder or Hub id of SNLI")
    snli_share: float = _option(1.0, "share of the SNLI training pairs that is used", least=0, most=1)
    nli: list[str] = _option(
        [], "folders or Hub ids of inference (SNLI, MultiNLI …) whose entailed pairs the task entailment trains on"
    )
    captions: list[str] = _option([], "folders or Hub ids of captions by image, as `data_scripts captions` writes them")
    paraphrases: list[str] = _option([], "folders or Hub ids of pairs that say the same, or are judged whether they do")
    texts: list[str] = _option(
        [], "folders or Hub ids of further texts, of any of our commands: for the word vectors only"
    )
    teacher: str | None = _option(
        None, "folder or Hub id of the SentenceTransformer whose similarities the task distillation teaches"
    )
    teacher_texts: int = _option(200_000, "training texts, at most, that the teacher encodes (once)", least=2)
    stsb: str | None = _option(None, "folder or Hub id of the STS Benchmark: judged on, and kept out of training")
    cqa: str | None = _option(None, "folder of SemEval CQA subtask B: judged on, and kept out of training")
    cache_dir: str = _option("runs/cache", "where token ids are kept between runs")

    # The tasks
    tasks: dict = _option(
        {"response_prediction": 0.95, "snli": 0.05},
        "odds of each task at each step, as JSON; the paper: 0.95 and 0.05 (section 3.1)",
    )
    mask_false_negatives: bool = _option(
        False, "take the same response, and other replies to the same input, out of the negatives"
    )
    symmetric_loss: bool = _option(False, "predict the input from the response too")
    late_tasks: dict = _option({}, "odds of the tasks after late_from, as JSON; by default as before")
    similarity_scale: float = _option(
        20.0, "what cosines are multiplied by in the tasks that train the similarity of texts", above=0
    )

    # The schedule
    max_steps: int = _option(1000, "number of training steps", least=1)
    batch_size: int = _option(128, "pairs a step, over all processes", least=2)
    mini_batch_size: int | None = _option(
        None,
        "pairs of a process's batch that are encoded at a time; the rest of the batch takes the memory of its vectors "
        "only, and the gradient is the same, for a second forward pass (gradient caching)",
        least=1,
    )
    learning_rate: float = _option(0.01, "learning rate", above=0)
    table_learning_rate: float | None = _option(
        None,
        "learning rate of the embedding tables; by default learning_rate, and with adamw twenty times that",
        above=0,
    )
    optimizer: str = _option(
        "sgd", "sgd (the paper's) or adamw (with row-wise Adagrad on the tables)", choices=("sgd", "adamw")
    )
    weight_decay: float = _option(0.0, "decoupled weight decay of the layers (not the tables); adamw only", least=0)
    max_grad_norm: float | None = _option(None, "clip the gradient to this norm", above=0)
    warmup: float = _option(0.0, "share of the run over which the learning rate rises from zero", least=0, most=1)
    decay: str = _option("constant", "learning rate after warm-up: constant, linear or cosine (to zero)",
                         choices=("constant", "linear", "cosine"))  # fmt: skip
    late_from: float = _option(1.0, "share of the run after which the two late_ values hold", least=0, most=1)
    late_batch_size: int | None = _option(None, "batch size of the last part; the paper: 256", least=2)
    late_learning_rate: float | None = _option(None, "learning rate of the last part; the paper: 0.001", above=0)

    # The run
    output_dir: str = _option("runs/run", "the run's folder")
    overwrite: bool = _option(False, "delete what an earlier run left in output_dir")
    resume: bool = _option(False, "go on from the last checkpoint in output_dir")
    seed: int = _option(0, "seed of everything that is drawn", least=0)
    eval_every: int = _option(1000, "judge on dev and write a checkpoint every so many steps", least=1)
    eval_queries: int = _option(2000, "queries of the response prediction judged during training", least=1)
    best_metric: str = _option(
        "response_prediction.p_at_1",
        "dev result that picks the best checkpoint: response_prediction.p_at_1, snli.accuracy, stsb.dev.all.pearson …",
    )
    final_split: str = _option(
        "both", "what the finished model is judged on: dev and test (both), or dev alone", choices=("both", "dev")
    )
    log_every: int = _option(50, "log the loss every so many steps", least=1)
    trackers: list[str] = _option(["tensorboard"], "trackers by Accelerate's names, or none")
    device: str = _option("auto", "auto (a GPU if there is one), cpu or cuda", choices=("auto", "cpu", "cuda"))
    mixed_precision: str = _option(
        "auto",
        "no, fp16, bf16, or auto: what `accelerate launch` says, and bf16 where that is no and matrix products in bf16 "
        "are found to be faster",
        choices=("auto", "no", "fp16", "bf16"),
    )
    num_processes: int | None = _option(None, "stop unless the run has this many processes", least=1)
    sharded: bool = _option(
        False,
        "keep only a part of the layers' weights, gradients and moments in each process (FSDP): for encoders that one "
        "GPU does not hold",
    )
    half_precision: bool = _option(
        False,
        "store the finished model in half precision, in half the space (it loads as float32); results.json has the "
        "scores of both",
    )
    push_to_hub: bool = _option(False, "publish the model when done; needs hub_model_id")
    hub_model_id: str | None = _option(None, "where to publish: OWNER/NAME")
    hub_private: bool = _option(False, "publish to a private repository")

    def batch_size_at(self, step: int) -> int:
        """Batch size, over all processes, of a step counted from 0."""
        return self.late_batch_size if self._is_late(step) and self.late_batch_size else self.batch_size

    def batch_sizes(self) -> np.ndarray:
        """`batch_size_at` of every step, (max_steps,) int32, without a loop over the paper's 40 million."""
        sizes = np.full(self.max_steps, self.batch_size, dtype=np.int32)
        sizes[self.first_late_step() :] = self.late_batch_size or self.batch_size
        return sizes

    def first_late_step(self) -> int:
        """The first step, counted from 0, of which the late_ values hold; `max_steps` where none has them."""
        return math.ceil(self.late_from * self.max_steps)

    def trains(self, task: str) -> bool:
        """Whether some step may draw the task."""
        return bool(self.tasks.get(task) or self.late_tasks.get(task))

    def table_ratio(self) -> float:
        """Learning rate of the tables over that of the layers, the same at every step."""
        if self.table_learning_rate is not None:
            return self.table_learning_rate / self.learning_rate
        # Steps of Adagrad shrink with every one that a row has made, those of Adam do not.
        return 20.0 if self.optimizer == "adamw" else 1.0

    def _is_late(self, step: int) -> bool:
        return step >= self.late_from * self.max_steps

    def learning_rate_at(self, step: int) -> float:
        """Learning rate of a step counted from 0: warm-up, then constant or decaying; the late rate replaces it."""
        if self._is_late(step) and self.late_learning_rate:
            return self.late_learning_rate
        progress = (step + 1) / self.max_steps
        if progress < self.warmup:
            return self.learning_rate * progress / self.warmup
        left = (1 - step / self.max_steps) / (1 - self.warmup) if self.warmup < 1 else 1.0
        if self.decay == "linear":
            return self.learning_rate * min(1.0, left)
        if self.decay == "cosine":
            return self.learning_rate * (1 - math.cos(math.pi * min(1.0, left))) / 2
        return self.learning_rate


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours to report."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def _build_parser() -> _Parser:
    """The command line of `Arguments`: one option a field, its type read from the annotation."""
    parser = _Parser(
        prog="trainer/run.py",
        description="Train an encoder as a preset says.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("preset", help="YAML file of the options below, for example trainer/presets/quickstart.yaml")
    for option in dataclasses.fields(Arguments):
        optional = isinstance(option.type, types.UnionType)
        kind: Any = typing.get_args(option.type)[0] if optional else option.type
        nargs = "*" if typing.get_origin(kind) is list else None
        kind = typing.get_args(kind)[0] if nargs else kind
        default = option.default_factory() if callable(option.default_factory) else option.default
        parser.add_argument(
            f"--{option.name}",
            type=functools.partial(_convert, kind, optional),
            nargs=nargs,
            metavar={bool: "true|false", dict: "JSON"}.get(kind, kind.__name__.upper()),
            default=default,
            help=option.metadata["help"],
        )
    return parser


def _convert(kind: type, optional: bool, text: str) -> Any:
    if optional and text.lower() in ("null", "none"):
        return None
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        value = json.loads(text) if kind is dict else kind(text)
        if not isinstance(value, kind):
            raise ValueError
        return value
    except (KeyError, ValueError):
        expected = {bool: "true or false", dict: "a JSON mapping", int: "a whole number", float: "a number"}[kind]
        raise argparse.ArgumentTypeError(f"expected {expected}, got '{text}'") from None


def parse_arguments(argv: list[str]) -> Arguments:
    """Arguments of `PRESET.yaml [--key value …]`.

    Raises:
        InputError: for a missing or unreadable preset, an unknown key, or a value of the wrong type or out of range.
    """
    parser = _build_parser()
    if not argv or argv[0].startswith("-"):
        parser.parse_args(["--help"] if "--help" in argv or "-h" in argv else [])
    preset, *overrides = argv
    try:
        arguments = _parse(parser, preset, _preset_as_options(Path(preset)))
    except InputError as error:
        raise InputError(f"{preset}: {error}") from None
    if overrides:
        try:
            arguments = _parse(
                parser, preset, [*_as_options(dataclasses.asdict(arguments)), *_merged(arguments, overrides)]
            )
        except InputError as error:
            raise InputError(f"command line: {error}") from None
    if arguments.table_learning_rate is None:
        # Last, so that an override of learning_rate moves both; written out, so that config.yaml says all.
        arguments.table_learning_rate = arguments.learning_rate * arguments.table_ratio()
    return arguments


def _parse(parser: argparse.ArgumentParser, preset: str, options: list[str]) -> Arguments:
    namespace = vars(parser.parse_args([preset, *options]))
    namespace.pop("preset")
    arguments = Arguments(**namespace)
    _validate(arguments)
    return arguments


def _preset_as_options(path: Path) -> list[str]:
    """A preset in the form of the command line, so that both are converted and checked in one way."""
    if not path.is_file():
        presets = ", ".join(sorted(preset.stem for preset in (Path(__file__).parent / "presets").glob("*.yaml")))
        raise InputError(f"no such preset file; the project's own are in trainer/presets: {presets}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"not readable as YAML: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"expected a mapping of options, found {type(values).__name__}")
    known = {option.name for option in dataclasses.fields(Arguments)}
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else "; `python trainer/run.py --help` lists the options"
            raise InputError(f"unknown key '{key}'{hint}")
    return _as_options(values)


def _as_options(values: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for key, value in values.items():
        if value is None:
            continue
        if isinstance(value, dict):
            value = json.dumps(value)
        items = value if isinstance(value, list) else [value]
        options += [f"--{key}", *(str(item) for item in items)]
    return options


def _merged(arguments: Arguments, overrides: list[str]) -> list[str]:
    """Overrides in which `--model_config` adds to the preset's mapping instead of replacing it."""
    option = "--model_config"
    # `--key=value` is two words like any other.
    merged = [word for text in overrides for word in (text.split("=", 1) if text.startswith(f"{option}=") else [text])]
    for index, word in enumerate(merged[:-1]):
        if word == option:
            addition = _convert_or_refuse(merged[index + 1], option)
            merged[index + 1] = json.dumps({**arguments.model_config, **addition})
    return merged


def _convert_or_refuse(text: str, option: str) -> dict:
    try:
        return _convert(dict, False, text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"argument {option}: {error}") from None


def _validate(arguments: Arguments) -> None:
    for option in dataclasses.fields(Arguments):
        value, rules = getattr(arguments, option.name), option.metadata["rules"]
        if value is None:
            continue
        if "choices" in rules and value not in rules["choices"]:
            raise InputError(f"{option.name} is '{value}'; expected one of {', '.join(rules['choices'])}")
        if "least" in rules and not value >= rules["least"]:
            raise InputError(f"{option.name} is {value}; expected {rules['least']} or more")
        if "above" in rules and not value > rules["above"]:
            raise InputError(f"{option.name} is {value}; expected more than {rules['above']}")
        if "most" in rules and not value <= rules["most"]:
            raise InputError(f"{option.name} is {value}; expected {rules['most']} or less")
    _validate_odds("tasks", arguments)
    if arguments.late_tasks:
        _validate_odds("late_tasks", arguments)
    weighted = arguments.model_config.get("learned_token_weights") or arguments.model_type == "cbow"
    if arguments.token_weights != "ones" and not weighted:
        raise InputError("token_weights is sif, so model_config needs learned_token_weights: true (a DAN has it)")
    if arguments.push_to_hub and not arguments.hub_model_id:
        raise InputError("push_to_hub is set, so hub_model_id is needed: --hub_model_id OWNER/NAME")
    if arguments.resume and arguments.overwrite:
        raise InputError("resume and overwrite exclude each other: drop one of them")


def _validate_odds(option: str, arguments: Arguments) -> None:
    given = getattr(arguments, option)
    for task, odds in given.items():
        if task not in TASKS:
            raise InputError(f"{option} has '{task}'; expected one of {', '.join(TASKS)}")
        if isinstance(odds, bool) or not isinstance(odds, (int, float)) or odds < 0:
            raise InputError(f"{option} gives '{task}' the odds {odds!r}; expected a number of 0 or more")
        if odds and not getattr(arguments, TASKS[task]):
            raise InputError(
                f"{option} trains on '{task}', so {TASKS[task]} is needed: name its folder with --{TASKS[task]}"
            )
    if not sum(given.values()) > 0:
        raise InputError(f"{option} gives no task odds above 0")
