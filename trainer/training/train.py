"""A run from its settings to its results: data, tokenizer, tasks, model, training, evaluation, publication."""

import contextlib
import functools
import logging
import math
import os
import re
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import check_repository_id
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.data.datasets import RunData
from trainer.evaluation.results import write_results
from trainer.processes import (
    available_threads,
    describe_processes,
    end_processes,
    rank,
    share_weights,
    start_accelerator,
    wait_for_all,
    world_size,
)
from trainer.publish.folder import build_folder
from trainer.publish.model_card import final_scores, read_scores
from trainer.publish.provenance import HUB_SOURCES, find_hub_sources, find_licenses
from trainer.publish.upload import Destination, publish
from trainer.runs import RESULTS, Run, RunContext
from trainer.settings import Settings, load_extensions
from trainer.tasks import TASKS, Task, sampling_weights, validate_tasks
from trainer.training.backbone import find_backbone
from trainer.training.checkpoints import Progress, recorded_precision
from trainer.training.inputs import fingerprint_inputs, load_inputs
from trainer.training.loop import TrainingLoop
from trainer.training.model import (
    build_model,
    initialize_embeddings,
    initialize_lexical_channel,
    max_tokens,
    validate_model,
)
from trainer.training.model_evaluator import ModelEvaluator, evaluators_to_skip
from trainer.training.schedule import BatchPlan, Schedule
from trainer.training.trainable_model import AVERAGE, TrainableModel

logger = logging.getLogger(__name__)


def train(settings: Settings) -> dict[str, Any]:
    """Train, evaluate and save a model with the settings of a run; returns the contents of `results.json`.

    Args:
        settings: the settings; those with `adapt` are for `trainer.adapt.adaptation.adapt`.

    Raises:
        InputError: the settings or the data are invalid, or another process of the run has ended.
        Interrupted: a signal has stopped the run.
    """
    with start_run(settings) as context:
        return _train(context)


@contextlib.contextmanager
def start_run(settings: Settings) -> Iterator[RunContext]:
    """Start the processes of a run and lock its folder, until the context is left.

    Raises:
        InputError: the settings are invalid, or the folder cannot be used.
    """
    load_extensions(settings.extensions)
    if settings.push_to_hub and settings.hub_model_id:
        check_repository_id(settings.hub_model_id)
    validate_tasks(settings)
    validate_model(settings)
    settings = replace(settings, max_tokens=max_tokens(settings))
    disable_progress_bar()  # transformers shows one for every file it loads
    started, folder = time.monotonic(), Path(settings.output_dir)
    with contextlib.ExitStack() as exit_stack:
        exit_stack.callback(end_processes)
        exit_stack.enter_context(_lost_processes_named(folder))
        accelerator = start_accelerator(settings, recorded_precision(folder) if settings.resume else None)
        if accelerator.is_main_process:
            exit_stack.enter_context(Run(folder).opened(settings))
        wait_for_all()
        torch.set_num_threads(available_threads())
        # Kernels that average word embeddings read it; a launcher may have set it.
        os.environ["OMP_NUM_THREADS"] = str(torch.get_num_threads())
        if accelerator.is_main_process:
            logger.info("%s", describe_processes(accelerator))
        with _released_model(accelerator):
            yield RunContext(settings, accelerator, folder, started)
        accelerator.end_training()


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


@contextlib.contextmanager
def _lost_processes_named(folder: Path) -> Iterator[None]:
    """Turn the error of gloo or NCCL after the loss of a process into a message that says how to resume."""
    try:
        yield
    except RuntimeError as error:
        # gloo raises no exception of its own.
        if world_size() == 1 or not (isinstance(error, dist.DistError) or "gloo" in str(error)):
            raise
        reason = re.sub(r"^\[\S+\] ", "", str(error)).partition(". ")[0].splitlines()[0]
        remedy = "continue with --resume true" if Run(folder).checkpoints else "start it again"
        raise InputError(
            f"another process of the run in {folder} has ended, or cannot be reached ({reason}); {remedy}"
        ) from error


def _train(context: RunContext) -> dict[str, Any]:
    data, tokenizer, tasks = load_inputs(context)
    fingerprints = fingerprint_inputs(data, tokenizer, context.settings) if rank() == 0 else {}
    model = initialize_model(context, data, tokenizer, tasks)
    has_tokenizer = context.settings.tokenizer or context.settings.initialize_from
    begin = functools.partial(Run(context.folder).begin, context.settings, None if has_tokenizer else tokenizer)
    if epochs := context.settings.epochs:
        steps = math.ceil(epochs * sum(len(task) for task in tasks.values()) / context.settings.batch_size)
        context = replace(context, settings=replace(context.settings, max_steps=steps))
    plan = plan_batches(context.settings, tasks, context.accelerator.num_processes)
    trainable = TrainableModel(model, context.settings, context.accelerator)
    skip = evaluators_to_skip(tasks, context.settings.final_split)
    evaluator = ModelEvaluator(trainable.full, tokenizer, data.evaluation, skip)
    progress = TrainingLoop(context, trainable, tasks, plan, fingerprints).run(evaluator, begin)
    results: dict[str, Any] = {}
    if context.accelerator.is_main_process:
        checkpoint = Run(context.folder).checkpoint(progress.best_step)
        average = checkpoint / AVERAGE
        evaluator.model.load_state_dict(load_file(average if average.exists() else checkpoint / "model.safetensors"))
        results = write_run(context, evaluator, progress, _rows_by_dataset(tasks), data.leakage)
    wait_for_all()
    return results


def initialize_model(
    context: RunContext, data: RunData, tokenizer: PreTrainedTokenizerFast, tasks: dict[str, Task]
) -> ConvSimForMultitask:
    """Build the model that training starts from, with the initial weights of the main process."""
    settings = context.settings
    model = build_model(settings, tokenizer)
    if context.accelerator.is_main_process and not settings.resume:  # then the checkpoint has the weights
        if not settings.initialize_from:
            initialize_embeddings(settings, model, tasks, data, tokenizer)
            initialize_lexical_channel(model, tasks)
        elif find_backbone(settings.initialize_from):
            initialize_lexical_channel(model, tasks, tokenizer.all_special_ids)
    wait_for_all()
    share_weights(model)
    return model


def plan_batches(settings: Settings, tasks: Mapping[str, Task], processes: int) -> BatchPlan:
    """Plan the batches of all steps.

    Raises:
        InputError: a batch size is not divisible by the number of processes, or a task has fewer than two rows.
    """
    schedule = Schedule(settings)
    batch_sizes = schedule.batch_sizes()  # (steps,)
    if (batch_sizes % processes).any():
        raise InputError(f"batch_size and late_batch_size must be divisible by the {processes} processes")
    rows = {name: len(task) for name, task in tasks.items()}
    for name in tasks if rank() == 0 else ():
        if 0 < rows[name] < batch_sizes.max():
            logger.warning(
                "%s has %d training pairs, fewer than a batch of %d: each of its batches contains all of them", name,
                rows[name], batch_sizes.max(),
            )  # fmt: skip
    return BatchPlan(settings.seed, rows, sampling_weights(settings.tasks, tasks), batch_sizes, processes)


def _rows_by_dataset(tasks: Mapping[str, Task]) -> dict[str, int]:
    """Return the number of training examples: DATASET -> examples, or "TASK/DATASET" for a task on several datasets."""
    rows = {}
    for key, task in tasks.items():
        name, _, dataset = key.partition("/")
        kinds = TASKS[name].datasets
        rows[kinds[0] if kinds and not dataset else key] = len(task)
    return rows


def write_run(
    context: RunContext,
    evaluator: ModelEvaluator,
    progress: Progress,
    rows: dict[str, int],
    leakage: dict[str, dict[str, int]],
    further: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Evaluate the finished model on dev and test, write `results.json` and `model/`, and publish if requested.

    The main process calls this.

    Args:
        context: the run.
        evaluator: the evaluator of the finished model.
        progress: the progress of the training.
        rows: number of training rows of each dataset, for results.json.
        leakage: for each training dataset, the number of rows that contain an evaluation sentence, for results.json.
        further: further parts of results.json.

    Returns:
        The contents of results.json.
    """
    settings, run = context.settings, Run(context.folder)
    if settings.half_precision:
        with torch.no_grad():
            for weights in evaluator.model.state_dict().values():
                weights.copy_(weights.half())
    results = evaluator.evaluate(settings.final_split, intervals=True) | dict(further or {})
    results["run"] = {
        "seconds": round(progress.seconds, 1),
        "total_seconds": round(time.monotonic() - context.started, 1),
        "pairs": progress.pairs,
        "steps": progress.step,
        "best_step": progress.best_step,
        "parameters": sum(parameter.numel() for parameter in evaluator.model.parameters()),
        "seed": settings.seed,
        "processes": context.accelerator.num_processes,
        "device": str(context.accelerator.device.type),
        "threads": progress.threads,
        "mixed_precision": context.accelerator.mixed_precision,
        "rows": rows,
    }
    results[HUB_SOURCES] = find_hub_sources(asdict(settings))
    results["licenses"] = find_licenses(asdict(settings))
    results["leakage"] = leakage
    build_folder(evaluator.model, evaluator.tokenizer, run.model, results=results, settings=asdict(settings))
    # The results are written last: they mark the run as finished.
    write_results(run.folder / RESULTS, results)
    scores = final_scores(list(read_scores(results, asdict(settings))))
    for score in reversed({score.part: score for score in reversed(scores)}.values()):  # the first of each part
        name = score.card.dataset_name
        logger.info("%s, %s: %s %.3f", name, score.split, score.card.metrics[score.metric], score.value)
    logger.info("results in %s, model in %s", run.folder / RESULTS, run.model)
    if settings.push_to_hub and settings.hub_model_id:
        publish(context.folder, Destination(settings.hub_model_id))
    return results
