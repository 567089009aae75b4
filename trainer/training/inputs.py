"""What a run reads: its datasets, its tokenizer, and the tasks that train on them."""

from pathlib import Path
from typing import cast

from datasets import Dataset
from transformers import PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from trainer.arguments import Arguments
from trainer.data.datasets import DATASET_KINDS, RunData, load_run_data
from trainer.data.token_cache import TokenColumn, token_columns
from trainer.distributed import first_on_each_machine, share, wait_for_all
from trainer.tasks import TASKS, Task, TaskInputs, trained_tasks
from trainer.tasks.encoding import load_score_teachers
from trainer.training.context import RunContext
from trainer.training.tokenizer import build_tokenizer


def load_inputs(context: RunContext) -> tuple[RunData, PreTrainedTokenizerFast, dict[str, Task]]:
    """Load the datasets and the tokenizer, and build the tasks. Every process must call this.

    The first process of each machine fills the caches on its disk, the others read them.

    Raises:
        InputError: a dataset or the tokenizer cannot be used, or a dataset lacks what a task needs.
    """
    arguments, is_main = context.arguments, context.accelerator.is_main_process
    with first_on_each_machine():
        data = load_run_data(arguments)
        context.hook.complete_splits(data)
    tokenizer = build_tokenizer(arguments, data) if is_main else None
    wait_for_all()
    tokenizer = cast(PreTrainedTokenizerFast, share(tokenizer))
    with first_on_each_machine():
        return data, tokenizer, build_tasks(arguments, data, tokenizer, is_main)


def build_tasks(
    arguments: Arguments, data: RunData, tokenizer: PreTrainedTokenizerFast, show_progress: bool
) -> dict[str, Task]:
    """Build the tasks that some step may sample, with token ids from the cache.

    Raises:
        InputError: a dataset lacks what a task needs.
    """

    def tokenize(rows: Dataset, columns: list[str]) -> dict[str, TokenColumn]:
        cache_dir = Path(arguments.cache_dir)
        return token_columns(rows, columns, tokenizer, cache_dir, arguments.max_tokens, show_progress)

    sources = getattr(arguments, "score_teachers", [])  # an option of tasks with in-batch negatives
    teachers = load_score_teachers(sources, tokenizer) if sources else None
    inputs = TaskInputs(data, tokenizer, tokenize, teachers)
    tasks: dict[str, Task] = {}
    for name in trained_tasks(arguments):
        task = TASKS[name]
        for kind in task.datasets:
            if DATASET_KINDS[kind].is_joined and not data.of_kind(kind):
                raise InputError(f"{kind}: no training split, which the task {name} needs")
        tasks |= task.build(arguments, inputs)
    return tasks
