"""What a run can be told: one dataclass, and what its values must satisfy."""

import dataclasses
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from data_scripts.errors import InputError
from data_scripts.write.hub import check_license

TOKENIZERS = ("word", "bare_word", "wordpiece")
MODEL_TYPES = ("dan", "transformer", "cbow", "bilstm")
# Task -> the option that names its data.
TASKS = {
    "response_prediction": "pairs",
    "snli": "snli",
    "entailment": "nli",
    "captions": "captions",
    "paraphrases": "paraphrases",
    "ranking": "paraphrases",
    "distillation": "teacher",
    "neighbours": "documents",
}
# Those that pick the true text among those of the batch.
IN_BATCH_TASKS = ("response_prediction", "entailment", "captions", "paraphrases")


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
    model_type: str = _option("dan", "encoder: dan, transformer, cbow or bilstm", choices=MODEL_TYPES)
    model_config: dict = _option({}, "fields of the encoder's config, as JSON: '{\"embedding_size\": 256}'")
    token_weights: str = _option(
        "ones",
        "start of a DAN's learned_token_weights, or of a CBOW's vectors' lengths: ones, or sif, a / (a + p(w)) "
        "with a = 0.001 (Arora et al., 2017)",
        choices=("ones", "sif"),
    )
    word_vectors: str = _option(
        "random", "start of the word table: random, skip_gram (of the texts trained on) or word vectors' file or folder"
    )
    initialise_from: str | None = _option(None, "folder or Hub id of a saved multitask model to start from")
    tokenizer: str | None = _option(
        None, "folder or Hub id of a tokenizer; by default the one of initialise_from, else one trained on the pairs"
    )
    tokenizer_kind: str = _option("word", f"tokenizer to train: {', '.join(TOKENIZERS)}", choices=TOKENIZERS)
    min_count: int = _option(2, "a word seen less often in the texts of a tokenizer trained here is unknown", least=1)
    vocab_size: int = _option(30_000, "largest vocabulary of a tokenizer trained here", least=10)
    max_tokens: int = _option(64, "tokens of a text that are read; the rest is cut off", least=1)

    # The data
    pairs: list[str] = _option([], "folders or Hub ids of conversation pairs, as `data_scripts reddit` writes them")
    snli: str | None = _option(None, "folder or Hub id of SNLI")
    snli_share: float = _option(1.0, "share of the SNLI training pairs that is used; 0: none", least=0, most=1)
    nli: list[str] = _option(
        [], "folders or Hub ids of inference (SNLI, MultiNLI …) whose entailed pairs the task entailment trains on"
    )
    captions: list[str] = _option([], "folders or Hub ids of captions by image, as `data_scripts captions` writes them")
    paraphrases: list[str] = _option([], "folders or Hub ids of pairs that say the same, or are judged whether they do")
    documents: list[str] = _option(
        [],
        "folders or Hub ids of sentences in order, as `data_scripts books` writes them, or of pairs, whose "
        "neighbours the task neighbours predicts (Siamese CBOW)",
    )
    texts: list[str] = _option(
        [], "folders or Hub ids of further texts, of any of our commands: for the word vectors only"
    )
    teacher: str | None = _option(
        None, "folder or Hub id of the SentenceTransformer whose similarities the task distillation teaches"
    )
    teacher_texts: int = _option(200_000, "training texts, at most, that the teacher encodes (once)", least=2)
    stsb: str | None = _option(None, "folder or Hub id of the STS Benchmark: judged on, and kept out of training")
    cqa: str | None = _option(None, "folder of SemEval CQA subtask B: judged on, and kept out of training")
    sts: str | None = _option(None, "folder of SemEval STS sets: judged on, and kept out of training")
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
    matryoshka_dims: list[int] = _option(
        [],
        "sizes below embedding_size to which vectors may be cut: the tasks that pick a text among those of the batch "
        "add the loss of the first numbers alone, for each size (Matryoshka: Kusupati et al., 2022)",
    )
    negatives: int = _option(
        2, "random sentences that the task neighbours sets beside the true ones; Siamese CBOW: 2", least=1
    )
    late_tasks: dict = _option({}, "odds of the tasks after late_from, as JSON; by default as before")
    similarity_scale: float = _option(
        20.0, "what cosines are multiplied by in the tasks that train the similarity of texts; Siamese CBOW: 1", above=0
    )

    # The schedule
    max_steps: int = _option(1000, "number of training steps", least=1)
    epochs: int | None = _option(
        None, "in place of max_steps: as many steps of batch_size as go so often through the rows of all tasks", least=1
    )
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
        "dev result that picks the best checkpoint: response_prediction.p_at_1, snli.accuracy, stsb.dev.all.pearson …; "
        "or last, which takes the last",
    )
    final_split: str = _option(
        "both", "what the finished model is judged on: dev and test (both), or dev alone", choices=("both", "dev")
    )
    log_every: int = _option(50, "log the loss every so many steps", least=1)
    trackers: list[str] = _option(["tensorboard"], "trackers by Accelerate's names, or none")
    device: str = _option("auto", "auto (a GPU if there is one), cpu or cuda", choices=("auto", "cpu", "cuda"))
    mixed_precision: str = _option(
        "auto",
        "no, fp16, bf16, or auto: what `accelerate launch` says, and bf16 where that is no and the device has "
        "instructions for it; a resumed run keeps its precision",
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
    license: str = _option(
        "apache-2.0", "licence of the model, for its card, as the Hub spells it: mit, cc-by-sa-4.0, other …"
    )
    language: list[str] = _option(["en"], "languages of the model, for its card, by their ISO 639 codes: en de …")

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
        has_odds = bool(self.tasks.get(task) or self.late_tasks.get(task))
        return has_odds and not (task == "snli" and self.snli_share == 0)

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


def validate(arguments: Arguments) -> None:
    """Raises InputError for values that are out of range or do not fit one another."""
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
    if not any(map(arguments.trains, TASKS)):
        raise InputError("snli_share is 0, but the tasks train on snli alone: give it a share, or another task odds")
    if arguments.matryoshka_dims and not any(map(arguments.trains, IN_BATCH_TASKS)):
        raise InputError(f"matryoshka_dims is for the tasks {', '.join(IN_BATCH_TASKS)}: give one of them odds")
    weighted = arguments.model_config.get("learned_token_weights") or arguments.model_type == "cbow"
    if arguments.token_weights != "ones" and not weighted:
        raise InputError("token_weights is sif, so model_config needs learned_token_weights: true (a DAN has it)")
    start = arguments.word_vectors  # a path may name what another run is still to make
    if start not in ("random", "skip_gram") and "/" not in start and not Path(start).exists():
        raise InputError(f"word_vectors is '{start}'; expected random, skip_gram, or a file or folder that is there")
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
