"""Building of a run's tasks from its datasets and its tokenizer."""

from pathlib import Path

from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from trainer.arguments import Arguments
from trainer.data.datasets import DATASET_KINDS, RunData
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.tasks import TASKS, Task, TaskInputs, trained_tasks
from trainer.tasks.score_teachers import ScoreTeachers, load_score_teachers


def build_tasks(
    arguments: Arguments, data: RunData, tokenizer: PreTrainedTokenizerFast, show_progress: bool
) -> dict[str, Task]:
    """Build the tasks that some step may sample, with token ids from the cache.

    Raises:
        InputError: a dataset lacks what a task needs.
    """
    cache_dir = Path(arguments.cache_dir)

    def tokenize(rows: Dataset, columns: list[str]) -> dict[str, TokenColumn]:
        return token_columns(rows, columns, tokenizer, cache_dir, arguments.max_tokens, show_progress)

    inputs = TaskInputs(data, tokenizer, tokenize, _load_teachers(arguments, tokenizer))
    tasks: dict[str, Task] = {}
    for name in trained_tasks(arguments):
        task = TASKS[name]
        for kind in task.datasets:
            if DATASET_KINDS[kind].is_joined and not data.of_kind(kind):
                raise InputError(f"{kind}: no training split, which the task {name} needs")
        tasks |= task.build(arguments, inputs)
    return tasks


def _load_teachers(arguments: Arguments, tokenizer: PreTrainedTokenizerFast) -> ScoreTeachers | None:
    """Return the models of `score_teachers`, an option of tasks with in-batch negatives."""
    sources = getattr(arguments, "score_teachers", [])
    return load_score_teachers(sources, tokenizer) if sources else None
