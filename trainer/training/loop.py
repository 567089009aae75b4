"""The one training loop: schedule, step, judge on dev, save, resume, and the finished run's folder."""

import copy
import json
import logging
import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_model
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from data_scripts.errors import InputError
from data_scripts.write.hub import check_repository_id
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_base import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.data.datasets import Corpora, load_corpora
from trainer.distributed import average_tables, leave_out_tables, tell_exchange
from trainer.evaluation.evaluators import evaluate_encoder
from trainer.evaluation.results import flatten, write_results
from trainer.hardware import available_threads, fastest_threads, measure_speed, start_accelerator
from trainer.publish.folder import build_folder
from trainer.publish.model_card import find_licenses
from trainer.publish.upload import publish
from trainer.training.batching import BatchPlan
from trainer.training.optimizers import build_optimisers, clip_gradient, sum_by_row
from trainer.training.run_folder import (
    drop_metrics_after,
    last_checkpoint,
    place_checkpoint,
    prepare_folder,
    recorded_precision,
)
from trainer.training.setup import build_model, build_tasks, build_tokenizer, odds_by_set, start_from_texts
from trainer.training.sharding import load_parts, save_parts, shard, whole_weights

logger = logging.getLogger(__name__)


def train(arguments: Arguments) -> dict[str, Any]:
    """Train, judge and save a model as the arguments say; returns the contents of `results.json`.

    Raises:
        InputError: for settings or data that cannot be trained on.
    """
    if arguments.push_to_hub and arguments.hub_model_id:
        check_repository_id(arguments.hub_model_id)
    started = time.monotonic()
    disable_progress_bar()  # transformers draws one for every file it loads
    folder = Path(arguments.output_dir)
    accelerator = start_accelerator(arguments, recorded_precision(folder) if arguments.resume else None)
    if accelerator.is_main_process:
        prepare_folder(folder, arguments)
    accelerator.wait_for_everyone()

    # The first process fills the caches on disk, the others read them.
    with accelerator.main_process_first():
        corpora = load_corpora(arguments)
        tokenizer = build_tokenizer(arguments, corpora, folder)
        tasks = build_tasks(arguments, corpora, tokenizer, accelerator.is_main_process)
    model = build_model(arguments, tokenizer)
    if not arguments.initialise_from:
        with accelerator.main_process_first():
            start_from_texts(arguments, model, tasks, corpora, tokenizer, accelerator.is_main_process)
    if arguments.epochs:
        rows = arguments.epochs * sum(len(task) for task in tasks.values())
        arguments = replace(arguments, max_steps=math.ceil(rows / arguments.batch_size))
    batch_sizes = arguments.batch_sizes()
    if (batch_sizes % accelerator.num_processes).any():
        raise InputError(
            f"batch_size and late_batch_size must be divisible by the {accelerator.num_processes} processes"
        )
    plan = BatchPlan(
        arguments.seed,
        {name: len(task) for name, task in tasks.items()},
        odds_by_set(arguments.tasks, tasks),
        batch_sizes,
        arguments.first_late_step(),
        odds_by_set(arguments.late_tasks, tasks),
    )
    run = _Run(arguments, accelerator, folder, model, tokenizer, corpora, plan, tasks, started)
    run.fit()
    results = run.finish()
    # The model that reduces with the process group must go before the group, or a process may hang as it ends.
    del run, model
    accelerator.free_memory()
    accelerator.end_training()
    return results


# Task -> the set it is trained on, by its name in `Corpora` and in results.json.
TRAINED_ON = {"response_prediction": "pairs", "snli": "snli"}


class _Run:
    """A run in progress: the trained objects, where it is, and what it has seen."""

    def __init__(
        self,
        arguments: Arguments,
        accelerator: Accelerator,
        folder: Path,
        model: ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        corpora: Corpora,
        plan: BatchPlan,
        tasks: dict[str, Any],
        started: float,
    ) -> None:
        self.started = started
        self.arguments, self.accelerator, self.folder = arguments, accelerator, folder
        self.tokenizer, self.corpora, self.plan, self.tasks = tokenizer, corpora, plan, tasks
        # What a head does that this run does not train says nothing.
        self.judged_on = copy.copy(corpora)
        for task, name in TRAINED_ON.items():
            if task not in tasks:
                setattr(self.judged_on, name, None)
        model.set_sparse_gradients(True)
        self.whole = model  # what the first process judges and saves
        if arguments.sharded:
            self.whole = copy.deepcopy(model) if accelerator.is_main_process else model
            shard(model, accelerator.device)
            self.model: Any = model
        else:
            leave_out_tables(model, model.embedding_tables())
            self.model = accelerator.prepare(model)
        self.tables = model.embedding_tables()
        self.table_ids = {id(table) for table in self.tables}
        optimisers = build_optimisers(
            model, self.tables, arguments.optimizer, arguments.learning_rate, arguments.weight_decay
        )
        self.optimisers = [accelerator.prepare(optimiser) for optimiser in optimisers]
        # Accelerate's wrapper searches the disk for packages at every step, and only scaling of the loss needs it.
        scales = accelerator.scaler is not None
        self.steppers = self.optimisers if scales else [wrapper.optimizer for wrapper in self.optimisers]
        self.parameters = list(model.parameters())
        self.progress: dict[str, Any] = {"step": 0, "pairs": 0, "seconds": 0.0}
        self.progress |= {"best": None, "best_step": None, "threads": None}
        self.progress["mixed_precision"] = accelerator.mixed_precision
        self.all_threads = available_threads()
        self.losses: dict[str, list[Tensor]] = {}
        self.trackers = [tracker for tracker in arguments.trackers if tracker != "none"]

    def fit(self) -> None:
        """Train from the last checkpoint, or from the start, to the last step."""
        arguments, accelerator, progress = self.arguments, self.accelerator, self.progress
        if arguments.resume:
            self._load()
        if self.trackers:
            accelerator.init_trackers("tensorboard" if self.trackers == ["tensorboard"] else "convsim")
        if progress["step"] == 0:
            self._judge()  # a mistake in the settings shows now, not after the first thousand steps
        total = int(arguments.batch_sizes().sum(dtype=np.int64))
        started = time.monotonic() - progress["seconds"]
        self.find_threads()
        self._tell_exchange()
        with tqdm(
            total=total,
            initial=progress["pairs"],
            unit=" pairs",
            unit_scale=True,
            smoothing=0.05,
            desc=self.folder.name,
            disable=not accelerator.is_main_process,
        ) as bar:
            for step in range(progress["step"], arguments.max_steps):
                self._step(step)
                progress["step"] = step + 1
                progress["pairs"] += arguments.batch_size_at(step)
                progress["seconds"] = time.monotonic() - started
                bar.update(arguments.batch_size_at(step))
                last = step + 1 == arguments.max_steps
                if (step + 1) % arguments.log_every == 0 or last:
                    self._log(bar)
                if (step + 1) % arguments.eval_every == 0 or last:
                    self._judge()
                    self._save()
                    progress["seconds"] = time.monotonic() - started

    def find_threads(self) -> None:
        """On a CPU, time the first step with fewer and fewer threads, moving no weight; train with the fastest."""
        progress = self.progress
        if self.accelerator.device.type == "cpu" and self.all_threads > 1 and progress["threads"] is None:

            def step() -> None:
                self._zero_gradients()
                self._backward(0)

            progress["threads"] = fastest_threads(step, self.all_threads)
            self._zero_gradients()
            self.losses.clear()
        torch.set_num_threads(progress["threads"] or self.all_threads)

    def _tell_exchange(self) -> None:
        """Log what a step sends over the wire, with this many processes and with others."""
        processes = self.accelerator.num_processes
        if processes == 1 or self.progress["step"]:
            return
        self._backward(0)
        held = [(len(sum_by_row(t.grad)._values()), t.detach()) for t in self.tables if t.grad is not None]
        layers = sum(p.numel() for p in self.parameters if p.grad is not None and id(p) not in self.table_ids)
        self._zero_gradients()
        self.losses.clear()
        share = self.arguments.batch_size // processes
        vectors = share * self.whole.config.embedding_size
        if self.accelerator.is_main_process:
            tell_exchange(processes, share, layers, held, vectors)

    def _step(self, step: int) -> None:
        self._set_learning_rate(step)
        self._backward(step)
        average_tables(self.tables)
        if self.arguments.max_grad_norm is not None:
            for optimiser in self.optimisers:
                self.accelerator.unscale_gradients(optimiser)
            clip_gradient(self.parameters, self.arguments.max_grad_norm)
        for optimiser in self.steppers:
            optimiser.step()
        self._zero_gradients()

    def _zero_gradients(self) -> None:
        for optimiser in self.steppers:
            optimiser.zero_grad()

    def _backward(self, step: int) -> None:
        """Loss and gradients of a step's batch."""
        arguments, accelerator = self.arguments, self.accelerator
        # Dropout's draws are a function of (seed, step, rank), so that a resumed run makes the same.
        seeds = np.random.SeedSequence([arguments.seed, step, accelerator.process_index])
        self._seed(int(seeds.generate_state(1)[0]))
        name, rows = self.plan.batch(step)
        share = len(rows) // accelerator.num_processes
        rows = rows[accelerator.process_index * share :][:share]
        batch = {
            key: value.to(accelerator.device, non_blocking=True) for key, value in self.tasks[name].batch(rows).items()
        }
        with accelerator.autocast():
            loss, figures = self.tasks[name].loss(self.model, batch)
        accelerator.backward(loss)
        self.losses.setdefault(f"{name}/loss", []).append(loss.detach())
        for key, figure in figures.items():
            self.losses.setdefault(f"{name}/{key}", []).append(figure)

    def _seed(self, seed: int) -> None:
        """As `torch.manual_seed`, without the stack trace that it takes for `torch.compile` at every call."""
        torch.default_generator.manual_seed(seed)
        if self.accelerator.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _set_learning_rate(self, step: int) -> None:
        arguments = self.arguments
        rate = arguments.learning_rate_at(step)
        table_rate = rate * arguments.table_ratio()
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = table_rate if id(group["params"][0]) in self.table_ids else rate

    def _log(self, bar: tqdm) -> None:
        means = {
            name: float(self.accelerator.reduce(torch.stack(values).mean(), "mean"))
            for name, values in self.losses.items()
        }
        self.losses.clear()
        step = self.progress["step"]
        if not all(np.isfinite(value) for value in means.values()):
            raise InputError(
                f"the loss is not finite at step {step} ({means}): lower learning_rate or set max_grad_norm; "
                f"the last checkpoint in {self.folder} is kept"
            )
        rate = self.arguments.learning_rate_at(step - 1)
        self._write({"step": step, "pairs": self.progress["pairs"], "learning_rate": rate, **means})
        losses: dict[str, list[float]] = {}
        for name, value in means.items():
            if name.endswith("/loss"):
                losses.setdefault(name.partition("/")[0], []).append(value)
        bar.set_postfix({task: f"{np.mean(values):.3f}" for task, values in losses.items()}, refresh=False)

    def _write(self, row: dict[str, Any]) -> None:
        if not self.accelerator.is_main_process:
            return
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self.trackers:
            flat = {
                key: value for key, value in flatten(row).items() if isinstance(value, (int, float)) and key != "step"
            }
            self.accelerator.log(flat, step=row["step"])

    def _judge(self) -> None:
        """Judge on dev; from the first step on, note whether this is the best so far."""
        if self.arguments.sharded:
            weights = whole_weights(self.model)
            if self.accelerator.is_main_process:
                self.whole.load_state_dict(weights)
        if not self.accelerator.is_main_process:
            return
        arguments, progress = self.arguments, self.progress
        results = self._evaluate("dev", queries=arguments.eval_queries)
        self._write({"step": progress["step"], "dev": results})
        flat = flatten(results) | {"last": float(progress["step"])}
        if arguments.best_metric not in flat:
            known = ", ".join(key for key, value in flat.items() if isinstance(value, float))
            raise InputError(
                f"best_metric '{arguments.best_metric}' is not measured on the dev data of this run; measured: {known}"
            )
        value = flat[arguments.best_metric]
        if np.isnan(value):  # a correlation of embeddings that are all alike
            value = -np.inf
        if progress["step"] and (progress["best"] is None or value > progress["best"]):
            progress.update(best=value, best_step=progress["step"])
        tqdm.write(f"step {progress['step']}: dev {arguments.best_metric} {value:.4f}")

    def _save(self) -> None:
        """Write a checkpoint of what was just judged; keep the last and the best."""
        name = f"checkpoint-{self.progress['step']}"
        temporary, final = self.folder / f".{name}", self.folder / name
        if self.arguments.sharded:
            save_parts(temporary, self.model, [wrapper.optimizer for wrapper in self.optimisers])
            if self.accelerator.is_main_process:
                save_model(self.whole, str(temporary / "model.safetensors"))
        else:
            self.accelerator.save_state(str(temporary))
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            (temporary / "progress.json").write_text(json.dumps(self.progress), encoding="utf-8")
            place_checkpoint(temporary, final, best=self.folder / f"checkpoint-{self.progress['best_step']}")
        self.accelerator.wait_for_everyone()

    def _load(self) -> None:
        last = last_checkpoint(self.folder)
        if self.arguments.sharded:
            load_parts(last, self.model, [wrapper.optimizer for wrapper in self.optimisers])
        else:
            self.accelerator.load_state(str(last))
        self.progress.update(json.loads((last / "progress.json").read_text(encoding="utf-8")))
        if self.accelerator.is_main_process:
            drop_metrics_after(self.folder, self.progress["step"])  # they will be logged again
            logger.info("resuming %s at step %d", self.folder, self.progress["step"])

    def _evaluate(
        self, split: Literal["dev", "both"], queries: int | None = None, intervals: bool = False
    ) -> dict[str, Any]:
        model = self.whole
        was_training, threads = model.training, torch.get_num_threads()
        model.eval()
        torch.set_num_threads(self.all_threads)
        encoder = Encoder(model, self.tokenizer)
        results = evaluate_encoder(encoder, vars(self.judged_on), split, queries=queries, intervals=intervals)
        torch.set_num_threads(threads)
        model.train(was_training)
        return results

    def finish(self) -> dict[str, Any]:
        """Take the best checkpoint, judge it on dev and test, write `results.json` and `model/`, publish."""
        torch.set_num_threads(self.all_threads)
        results: dict[str, Any] = {}
        if self.accelerator.is_main_process:
            arguments, progress = self.arguments, self.progress
            model = self.whole
            best = self.folder / f"checkpoint-{progress['best_step']}" / "model.safetensors"
            model.load_state_dict(load_file(best))
            split: Literal["dev", "both"] = "both" if arguments.final_split == "both" else "dev"
            results = self._evaluate(split, intervals=True)
            if arguments.half_precision:
                results = self._halve(split, results)
            results["run"] = {
                "seconds": round(progress["seconds"], 1),
                "total_seconds": round(time.monotonic() - self.started, 1),
                "pairs": progress["pairs"],
                "steps": progress["step"],
                "best_step": progress["best_step"],
                "parameters": sum(parameter.numel() for parameter in model.parameters()),
                "seed": arguments.seed,
                "processes": self.accelerator.num_processes,
                "device": str(self.accelerator.device.type),
                "threads": progress["threads"],
                "mixed_precision": self.accelerator.mixed_precision,
                "rows": {TRAINED_ON.get(name, name): len(task) for name, task in self.tasks.items()},
                **measure_speed(model.encoder, self.tokenizer),
            }
            results["licenses"] = find_licenses(asdict(arguments))
            results["leakage"] = self.corpora.leakage
            write_results(self.folder / "results.json", results)
            build_folder(model, self.tokenizer, self.folder / "model", results=results, settings=asdict(arguments))
            logger.info("results in %s, model in %s", self.folder / "results.json", self.folder / "model")
            if arguments.push_to_hub and arguments.hub_model_id:
                publish(self.folder, arguments.hub_model_id, private=arguments.hub_private)
        self.accelerator.wait_for_everyone()
        return results

    def _halve(self, split: Literal["dev", "both"], full: dict[str, Any]) -> dict[str, Any]:
        """Round the model's weights to half precision; its results, with those of before as `full_precision`."""
        with torch.no_grad():
            for parameter in self.whole.parameters():
                parameter.copy_(parameter.half())
        full.pop("stsb_tuned", None)  # fitted anew, it differs by more than rounding
        return {**self._evaluate(split, intervals=True), "full_precision": full}
