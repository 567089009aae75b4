"""The base class of training tasks: a task declares its options, datasets, batches and loss in one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from trainer.arguments import Arguments

if TYPE_CHECKING:
    import numpy as np
    from datasets import Dataset
    from torch import Tensor, nn
    from transformers import PreTrainedTokenizerFast

    from trainer.data.datasets import RunData
    from trainer.data.token_cache import TokenColumn
    from trainer.tasks.score_teachers import ScoreTeachers

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
