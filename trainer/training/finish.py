"""The end of a run: evaluation of the best checkpoint, results.json, the model's folder, and publication."""

import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import load_file

from data_scripts.files.folders import write_checksums
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.distributed import gather, seconds_waited, wait_for_all
from trainer.evaluation.results import write_results
from trainer.hardware import measure_speed
from trainer.publish.folder import build_folder
from trainer.publish.training_data import HUB_SOURCES, find_hub_sources, find_licenses
from trainer.publish.upload import Destination, publish
from trainer.training.checkpoints import checkpoint_of
from trainer.training.context import Progress, RunContext
from trainer.training.metrics_log import METRICS
from trainer.training.model_evaluator import ModelEvaluator
from trainer.training.run_folder import CONFIG
from trainer.training.trainable_model import AVERAGE

logger = logging.getLogger(__name__)


def finish_run(
    context: RunContext,
    evaluator: ModelEvaluator,
    progress: Progress,
    rows: dict[str, int],
    leakage: dict[str, dict[str, int]],
) -> dict[str, Any]:
    """Evaluate the best checkpoint on dev and test, write `results.json` and `model/`, and publish if requested.

    Every process must call this; the main process does the work.

    Args:
        context: the run.
        evaluator: evaluates the complete model, which gets the weights of the best checkpoint.
        progress: the progress of the training.
        rows: number of training rows of each dataset, for results.json.
        leakage: for each training dataset, the number of its rows with an evaluation sentence, for results.json.

    Returns:
        The contents of results.json; an empty mapping on the other processes.
    """
    results: dict[str, Any] = {}
    if context.accelerator.is_main_process:
        _load_best(evaluator.model, context.folder, progress)
        results = write_run(context, evaluator, progress, rows, leakage)
    wait_for_all()
    if len(waits := gather(seconds_waited())) > 1 and context.accelerator.is_main_process:
        seconds = ", ".join(f"{wait:,.1f}" for wait in waits)
        logger.info("Seconds that each process waited for others between steps: %s", seconds)
    return results


def write_run(
    context: RunContext,
    evaluator: ModelEvaluator,
    progress: Progress,
    rows: dict[str, int],
    leakage: dict[str, dict[str, int]],
    further: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """As `finish_run`, on the main process, for the model that the evaluator has; `further` parts of the results."""
    matrices: dict[str, np.ndarray] = {}
    results = _final_results(context, evaluator, matrices) | dict(further or {})
    results["run"] = _describe_run(context, evaluator, progress, rows)
    results[HUB_SOURCES] = find_hub_sources(asdict(context.arguments))
    results["licenses"] = find_licenses(asdict(context.arguments))
    results["leakage"] = leakage
    _write(context, evaluator, results, matrices.get("stsb_tuned"))
    return results


def _load_best(model: ConvSimForMultitask, folder: Path, progress: Progress) -> None:
    checkpoint = checkpoint_of(folder, progress.best_step)
    average = checkpoint / AVERAGE
    model.load_state_dict(load_file(average if average.exists() else checkpoint / "model.safetensors"))


def _final_results(context: RunContext, evaluator: ModelEvaluator, matrices: dict[str, np.ndarray]) -> dict[str, Any]:
    """Evaluate the model; with `half_precision` the float16 weights, and the float32 weights as `full_precision`.

    `matrices` receives the tuned matrix of the published weights.
    """
    split: Literal["dev", "both"] = "both" if context.arguments.final_split == "both" else "dev"
    results = evaluator.evaluate(split, intervals=True, matrices=matrices)
    if not context.arguments.half_precision:
        return results
    _convert_to_half_precision(evaluator.model)
    results.pop("stsb_tuned", None)  # tuning on the float16 weights changes it by more than the precision does
    return {**evaluator.evaluate(split, intervals=True, matrices=matrices), "full_precision": results}


@torch.no_grad()
def _convert_to_half_precision(model: ConvSimForMultitask) -> None:
    for weights in model.state_dict().values():
        weights.copy_(weights.half())


def _describe_run(
    context: RunContext, evaluator: ModelEvaluator, progress: Progress, rows: dict[str, int]
) -> dict[str, Any]:
    """Return the part "run" of results.json."""
    model, accelerator = evaluator.model, context.accelerator
    return {
        "seconds": round(progress.seconds, 1),
        "total_seconds": round(time.monotonic() - context.started, 1),
        "pairs": progress.pairs,
        "steps": progress.step,
        "best_step": progress.best_step,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seed": context.arguments.seed,
        "processes": accelerator.num_processes,
        "device": str(accelerator.device.type),
        "threads": progress.threads,
        "mixed_precision": accelerator.mixed_precision,
        "rows": rows,
        **measure_speed(model.encoder, evaluator.tokenizer),
    }


def _write(
    context: RunContext, evaluator: ModelEvaluator, results: dict[str, Any], sts_matrix: np.ndarray | None
) -> None:
    """Write results.json and the model's folder; publish them if the settings request it."""
    arguments, results_file, model_folder = context.arguments, context.folder / "results.json", context.folder / "model"
    build_folder(
        evaluator.model,
        evaluator.tokenizer,
        model_folder,
        results=results,
        settings=asdict(arguments),
        sts_matrix=sts_matrix,
    )
    # The results are last: they tell that the run is finished.
    write_results(results_file, results)
    written = [name for name in (CONFIG, METRICS, results_file.name) if (context.folder / name).is_file()]
    write_checksums(context.folder, written)
    logger.info("results in %s, model in %s", results_file, model_folder)
    if arguments.push_to_hub and arguments.hub_model_id:
        destination = Destination(
            arguments.hub_model_id, arguments.hub_public, arguments.hub_revision, arguments.hub_create_pr
        )
        publish(context.folder, destination)
