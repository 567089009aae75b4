"""The base class of training tasks, their registry, and their sampling weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from datasets import Dataset
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from modeling_convsim.files.errors import InputError
from trainer.data.datasets import RunData
from trainer.data.token_cache import TokenColumn
from trainer.settings import Settings, refuse_unknown, sources_of
from trainer.tasks.encoding import ScoreTeachers

TASKS: dict[str, type[Task]] = {}
"""Registered tasks: name, as in the option `tasks` -> class."""


def register_task(task: type[Task]) -> type[Task]:
    """Add a task to `TASKS`; a class decorator."""
    TASKS[task.name] = task
    return task


@dataclass(frozen=True)
class TaskInputs:
    """The inputs for building a task.

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
        card_line: its description in the model card, one sentence.
        required_option: the option that names its data, required in runs that train the task. For a task outside the
            package, an entry of `task_options`.
        datasets: the kinds of dataset (`trainer.data.datasets.DATASET_KINDS`) that it is trained on.
        evaluator: the evaluator (`trainer.evaluation.evaluators`) of the head that it trains. Runs that do not train
            the task skip it.
        adds_texts: whether its texts are used for word vectors and token weights; false if they repeat texts of other
            datasets.
        settings: the run's settings.
        columns: the token ids of its texts.
    """

    name: ClassVar[str]
    card_line: ClassVar[str]
    required_option: ClassVar[str]
    datasets: ClassVar[tuple[str, ...]] = ()
    evaluator: ClassVar[str | None] = None
    adds_texts: ClassVar[bool] = True

    def __init__(self, settings: Settings, *columns: TokenColumn) -> None:
        self.settings, self.columns = settings, columns

    @classmethod
    @abstractmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        """Build the tasks of a run: `{name: task}`, or `{name/DATASET: task}` for each of several datasets.

        Args:
            settings: the run's settings; `task_options` has the options of tasks outside the package.
            inputs: the datasets and the tokenizer.

        Raises:
            InputError: a dataset lacks a split or column that the task needs.
        """

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


def validate_tasks(settings: Settings) -> None:
    """Check that the tasks of a run exist, and that every trained task has data.

    Raises:
        InputError: a task is unknown, or a trained task has no data.
    """
    refuse_unknown("tasks", settings.tasks, TASKS)
    for name, weight in settings.tasks.items():
        required = TASKS[name].required_option
        if weight and not sources_of(vars(settings), required):
            raise InputError(f"tasks includes '{name}', which requires {required}: set it with --{required}")


def sampling_weights(weights: Mapping[str, float], tasks: Mapping[str, Sized]) -> dict[str, float]:
    """Return the sampling weight of each built task; a task with several datasets divides its weight among them.

    A batch has examples from one dataset: they are harder negatives than examples from different datasets. Datasets
    are weighted by the square root of their size: large datasets do not displace small ones.

    Args:
        weights: name of a task -> its sampling weight.
        tasks: key of a built task, `name` or `name/DATASET` -> the task; its length is the number of examples.
    """
    divided: dict[str, float] = {}
    for task, weight in weights.items():
        roots = {name: len(rows) ** 0.5 for name, rows in tasks.items() if name.partition("/")[0] == task}
        total = sum(roots.values())
        # A task without examples keeps its weight: `BatchPlan` then refuses it.
        divided |= {name: weight * root / total if total else weight for name, root in roots.items()}
    return divided
