"""The base class of training tasks, their registry, the options that several share, and which of them a run trains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from data_scripts.files.command_line import suggest
from data_scripts.files.errors import InputError
from trainer.arguments import Arguments, changed_options, option, refuse_ineffective

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset
    from torch import Tensor, nn
    from transformers import PreTrainedTokenizerFast

    from trainer.data.datasets import RunData
    from trainer.data.token_cache import TokenColumn
    from trainer.tasks.encoding import ScoreTeachers

MAX_WEIGHT = 1_000_000  # a sampling weight; their sum is finite
TASKS: dict[str, type[Task]] = {}
"""Registered tasks: name, as in the option `tasks` -> class."""


def register_task(task: type[Task]) -> type[Task]:
    """Add a task to `TASKS`; a class decorator."""
    TASKS[task.name] = task
    return task


@dataclass(frozen=True)
class TaskInputs:
    """The inputs from which a task is built.

    Attributes:
        data: the datasets of the run, without evaluation sentences.
        tokenizer: the tokenizer of the run.
        tokenize: tokenizes text columns of a dataset: (dataset, column names) -> column name -> token ids.
        teachers: the models of `score_teachers`; None without that option.
    """

    data: RunData
    tokenizer: PreTrainedTokenizerFast
    tokenize: Callable[[Dataset, list[str]], dict[str, TokenColumn]]
    teachers: ScoreTeachers | None = None

    def tokenize_texts(self, texts: Dataset) -> TokenColumn:
        """Return the token ids of the column `text`."""
        return self.tokenize(texts, ["text"])["text"]


class Task(ABC):
    """A training task over one dataset, or over one of several datasets of the same kind.

    Attributes:
        name: its name in the option `tasks`.
        label: the name of its training data in tables of models.
        card_line: its description in the model card, one sentence.
        Options: the run's options that it reads; a dataclass that extends `trainer.arguments.Arguments`.
        required_option: the option that names its data; a run that trains the task must give it.
        datasets: the kinds of dataset (`trainer.data.datasets.DATASET_KINDS`) that it is trained on.
        evaluator: the evaluator (`trainer.evaluation.evaluators`) of the head that it trains. Runs that do not train
            the task skip it.
        adds_texts: whether its texts count for word vectors and token weights; false if they repeat texts of other
            datasets.
        reads_all_datasets: whether it trains on the texts of every training dataset of the run.
        options: the run's options.
        columns: the token ids from which it builds its batches.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    card_line: ClassVar[str]
    Options: ClassVar[type[Arguments]] = Arguments
    required_option: ClassVar[str]
    datasets: ClassVar[tuple[str, ...]] = ()
    evaluator: ClassVar[str | None] = None
    adds_texts: ClassVar[bool] = True
    reads_all_datasets: ClassVar[bool] = False

    def __init__(self, options: Any, *columns: TokenColumn) -> None:
        self.options, self.columns = options, columns

    @classmethod
    @abstractmethod
    def build(cls, options: Any, inputs: TaskInputs) -> dict[str, Task]:
        """Build the tasks of a run: `{name: task}`, or `{name/DATASET: task}` for each of several datasets.

        Args:
            options: the run's options, an instance of `Options`.
            inputs: the datasets and the tokenizer.

        Raises:
            InputError: a dataset lacks what the task needs.
        """

    @classmethod
    def is_disabled(cls, options: Any) -> bool:
        """Return whether the options leave the task without training data, whatever its sampling weight."""
        return False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of training examples."""

    @abstractmethod
    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Build the tensors of some examples, on the CPU.

        Args:
            rows: (batch,) indices of examples.
        """

    @abstractmethod
    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss of this process's examples, and metrics to log by name.

        Args:
            model: the multitask model, which may be wrapped for distributed training.
            batch: the output of `batch` on the model's device; this method may change it.
        """


@dataclass
class InBatchOptions(Arguments):
    """For tasks with in-batch negatives."""

    matryoshka_dims: list[int] = option(
        [],
        "train Matryoshka embeddings, which may be truncated to these numbers of dimensions: the loss of each size is "
        "added (Kusupati et al., 2022)",
    )
    score_teachers: list[str] = option(
        [],
        "folders or Hub ids of trained models of this project, with the run's tokenizer, whose mean scores of the "
        "texts of a batch are reproduced: self-distillation (Furlanello et al., 2018)",
    )
    score_teacher_share: float = option(
        0.8, "share of the loss that compares with the scores of score_teachers", above=0, maximum=1
    )


@dataclass
class SimilarityOptions(Arguments):
    """For tasks that train the similarity of texts."""

    similarity_scale: float = option(
        20.0,
        "inverse temperature, by which cosines are multiplied; Siamese CBOW: 1",
        above=0,
    )


@dataclass
class TeacherOptions(Arguments):
    """For tasks that reproduce the similarities of a SentenceTransformer."""

    teacher: str | None = option(None, "folder or Hub id of the teacher, a SentenceTransformer")


@dataclass
class PairOptions(Arguments):
    """For tasks on conversation pairs."""

    pairs: list[str] = option(
        [],
        "folders or Hub ids of conversation pairs, in the format of `data_scripts reddit`; a batch has pairs of one of "
        "them, and a pair that several have is used once, as one of the first",
    )


def trained_tasks(arguments: Arguments) -> list[str]:
    """Return the names of the tasks that some step may sample, in the order of the option `tasks`."""
    return [name for name, weight in arguments.tasks.items() if weight and not TASKS[name].is_disabled(arguments)]


def validate_tasks(arguments: Arguments) -> None:
    """Check the option `tasks`, that every trained task has data, and that every option of a task has an effect.

    Raises:
        InputError: a task is unknown, a sampling weight is not a number of 0 or more, the data of a trained task are
            not given, or an option belongs to a task that is not in `tasks`.
    """
    for name, weight in arguments.tasks.items():
        _validate_weight(name, weight, arguments)
    if not sum(arguments.tasks.values()) > 0:
        raise InputError("tasks gives no task a sampling weight above 0")
    if not trained_tasks(arguments):
        raise InputError("snli_share is 0, but the run trains on snli alone: raise it, or give another task a weight")
    _refuse_options_of_absent_tasks(arguments)
    if not getattr(arguments, "score_teachers", None):
        remedy = "name models in score_teachers"
        refuse_ineffective(arguments, ["score_teacher_share"], "score_teachers: none", remedy)


def _validate_weight(name: str, weight: object, arguments: Arguments) -> None:
    if name not in TASKS:
        raise InputError(f"tasks has '{name}'{suggest(name, TASKS)}; expected one of {', '.join(TASKS)}")
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight <= MAX_WEIGHT:
        raise InputError(f"tasks gives '{name}' the sampling weight {weight!r}; expected a number from 0 to 1,000,000")
    required = TASKS[name].required_option
    if weight and not getattr(arguments, required):
        raise InputError(f"tasks trains on '{name}', so {required} is needed: name its folder with --{required}")


def _refuse_options_of_absent_tasks(arguments: Arguments) -> None:
    """Refuse options that only tasks outside of `tasks` read.

    A task of weight 0 is in `tasks`: a sweep varies weights and keeps the rest of the preset.
    """
    of_every_run = {field.name for field in fields(Arguments)}
    of_tasks = [field.name for field in fields(arguments) if field.name not in of_every_run]
    for name in changed_options(arguments, of_tasks):
        readers = [task.name for task in TASKS.values() if name in {field.name for field in fields(task.Options)}]
        if not set(readers) & set(arguments.tasks) and not _is_dataset_in_use(name, arguments.tasks):
            one = readers[0] if len(readers) == 1 else f"one of {', '.join(readers)}"
            cause, remedy = f"tasks: {', '.join(arguments.tasks)}", f"give {one} a sampling weight in tasks"
            refuse_ineffective(arguments, [name], cause, remedy)


def _is_dataset_in_use(option: str, tasks: Iterable[str]) -> bool:
    """Return whether an option names a dataset that is used without a task of its own.

    A task may read every dataset, and the evaluation sentences of a dataset are removed from the training data.
    """
    if option not in {kind for task in TASKS.values() for kind in task.datasets}:
        return False
    if any(TASKS[name].reads_all_datasets for name in tasks):
        return True
    from trainer.data.datasets import DATASET_KINDS  # imports datasets, which takes a second

    return bool(DATASET_KINDS[option].evaluation_columns)


def sampling_weights(weights: Mapping[str, float], tasks: Mapping[str, Sized]) -> dict[str, float]:
    """Return the sampling weight of each built task; a task with several datasets divides its weight among them.

    A batch holds examples of one dataset, which are harder to tell apart than those of different ones. Datasets are
    weighted by the square root of their size, so that large datasets do not displace small ones.

    Args:
        weights: name of a task -> its sampling weight.
        tasks: key of a built task, `name` or `name/DATASET` -> the task, whose length is its number of examples.
    """
    divided: dict[str, float] = {}
    for task, weight in weights.items():
        roots = {name: len(rows) ** 0.5 for name, rows in tasks.items() if name.partition("/")[0] == task}
        total = sum(roots.values())
        # A task without examples keeps its weight, so that `BatchPlan` refuses it.
        divided |= {name: weight * root / total if total else weight for name, root in roots.items()}
    return divided
