"""A run from its settings to its results: data, tokenizer, tasks, model, training, evaluation, publication."""

import contextlib
import functools
import logging
import math
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from data_scripts.files.errors import InputError
from data_scripts.files.hub import check_repository_id
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.data.datasets import RunData
from trainer.distributed import (
    end_processes,
    is_first_on_machine,
    rank,
    share_weights,
    wait_for_all,
)
from trainer.hardware import available_threads, start_accelerator, start_processes
from trainer.tasks import TASKS, Task, sampling_weights
from trainer.training.backbone import find_backbone
from trainer.training.checkpoints import recorded_precision
from trainer.training.context import Interruption, RunContext
from trainer.training.finish import finish_run
from trainer.training.inputs import check_same_data, check_same_settings, fingerprint_inputs, load_inputs
from trainer.training.loop import TrainingLoop
from trainer.training.model import (
    build_model,
    initialize_embeddings,
    initialize_lexical_channel,
    max_tokens,
    validate_model,
)
from trainer.training.model_evaluator import ModelEvaluator, evaluators_to_skip
from trainer.training.run_folder import begin_run, open_folder
from trainer.training.schedule import BatchPlan, Schedule
from trainer.training.trainable_model import TrainableModel

logger = logging.getLogger(__name__)


def train(arguments: Arguments) -> dict[str, Any]:
    """Train, evaluate and save a model with the settings of a run; returns the contents of `results.json`.

    Args:
        arguments: the settings; those with `adapt` are for `trainer.adapt.adaptation.adapt`.

    Raises:
        InputError: the settings or the data are invalid, or another process of the run has ended.
        Interrupted: a signal has stopped the run.
    """
    with start_run(arguments) as context:
        return _train(context)


@contextlib.contextmanager
def start_run(arguments: Arguments) -> Iterator[RunContext]:
    """Start the processes of a run and lock its folder, until the context is left; a signal raises `Interrupted`.

    Raises:
        InputError: the settings are invalid, or the folder cannot be used.
    """
    if arguments.push_to_hub and arguments.hub_model_id:
        check_repository_id(arguments.hub_model_id)
    validate_model(arguments)
    arguments = replace(arguments, max_tokens=max_tokens(arguments))
    disable_progress_bar()  # transformers shows one for every file it loads
    interruption = Interruption()
    with contextlib.ExitStack() as exit_stack:
        exit_stack.enter_context(interruption.handle_signals())
        exit_stack.callback(end_processes)
        exit_stack.enter_context(interruption.explained(Path(arguments.output_dir)))
        context = _start(arguments, interruption, exit_stack)
        with _released_model(context.accelerator):
            yield context
        context.accelerator.end_training()


@contextlib.contextmanager
def _released_model(accelerator: Accelerator) -> Iterator[None]:
    """Delete the DDP model before its process group is destroyed, or a process can hang at exit.

    Accelerate refers to the model, and so do local variables of `_train`, which the traceback of an error keeps.
    """
    try:
        yield
    except BaseException as error:
        chained: BaseException | None = error
        while chained is not None:
            traceback.clear_frames(chained.__traceback__)
            chained = chained.__context__
        raise
    finally:
        accelerator.free_memory()


def _start(arguments: Arguments, interruption: Interruption, exit_stack: contextlib.ExitStack) -> RunContext:
    """Start Accelerate, and lock the run's folder until the exit stack is closed."""
    started, folder = time.monotonic(), Path(arguments.output_dir)
    start_processes(arguments)
    check_same_settings(arguments)
    accelerator = start_accelerator(arguments, recorded_precision(folder) if arguments.resume else None)
    if accelerator.is_main_process:
        exit_stack.enter_context(open_folder(folder, arguments))
    wait_for_all()
    torch.set_num_threads(available_threads())
    return RunContext(arguments, accelerator, folder, started, interruption=interruption)


def _train(context: RunContext) -> dict[str, Any]:
    data, tokenizer, tasks = load_inputs(context)
    if is_first_on_machine():
        context = replace(context, fingerprints=fingerprint_inputs(data, tokenizer, context.arguments))
    check_same_data(context.fingerprints)
    model = initialize_model(context, data, tokenizer, tasks)
    has_tokenizer = context.arguments.tokenizer or context.arguments.initialize_from
    begin = functools.partial(begin_run, context.folder, context.arguments, None if has_tokenizer else tokenizer)
    context = replace(context, arguments=_count_steps(context.arguments, tasks))
    plan = plan_batches(context.arguments, tasks, context.accelerator.num_processes)
    trainable = TrainableModel(model, context.arguments, context.accelerator)
    skip = evaluators_to_skip(tasks, context.arguments.final_split)
    evaluator = ModelEvaluator(trainable.full, tokenizer, data.evaluation, skip)
    progress = TrainingLoop(context, trainable, tasks, plan).run(evaluator, begin)
    return finish_run(context, evaluator, progress, _rows_by_dataset(tasks), data.leakage)


def initialize_model(
    context: RunContext, data: RunData, tokenizer: PreTrainedTokenizerFast, tasks: dict[str, Task]
) -> ConvSimForMultitask:
    """Build the model that training starts from, with the initial weights of the main process."""
    arguments = context.arguments
    model = build_model(arguments, tokenizer)
    if context.accelerator.is_main_process and not arguments.resume:  # then the checkpoint has the weights
        if not arguments.initialize_from:
            initialize_embeddings(arguments, model, tasks, data, tokenizer, show_progress=True)
            initialize_lexical_channel(model, tasks)
        elif find_backbone(arguments.initialize_from):
            initialize_lexical_channel(model, tasks, tokenizer.all_special_ids)
    wait_for_all()
    share_weights(model)
    return model


def _count_steps(arguments: Arguments, tasks: Mapping[str, Task]) -> Arguments:
    """Return the settings with the `max_steps` of `epochs`, if these are given."""
    if not arguments.epochs:
        return arguments
    rows = arguments.epochs * sum(len(task) for task in tasks.values())
    return replace(arguments, max_steps=math.ceil(rows / arguments.batch_size))


def plan_batches(arguments: Arguments, tasks: Mapping[str, Task], processes: int) -> BatchPlan:
    """Plan the batches of all steps.

    Raises:
        InputError: a batch size is not divisible by the number of processes, or a task has fewer than two rows.
    """
    schedule = Schedule(arguments)
    batch_sizes = schedule.batch_sizes()  # (steps,)
    if (batch_sizes % processes).any():
        raise InputError(f"batch_size and late_batch_size must be divisible by the {processes} processes")
    rows = {name: len(task) for name, task in tasks.items()}
    for name in tasks if rank() == 0 else ():
        if 0 < rows[name] < batch_sizes.max():
            logger.warning(
                "%s has %d training pairs, fewer than a batch of %d: its batches have all of them", name, rows[name],
                batch_sizes.max(),
            )  # fmt: skip
    return BatchPlan(arguments.seed, rows, sampling_weights(arguments.tasks, tasks), batch_sizes, processes)


def _rows_by_dataset(tasks: Mapping[str, Task]) -> dict[str, int]:
    """Return the number of training examples: DATASET -> examples, or "TASK/DATASET" for a task on several datasets."""
    rows = {}
    for key, task in tasks.items():
        name, _, dataset = key.partition("/")
        kinds = TASKS[name].datasets
        rows[kinds[0] if kinds and not dataset else key] = len(task)
    return rows
