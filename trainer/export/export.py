"""Exports a saved model: writes it, compares it with the model in torch, and reports what was measured."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset

from data_scripts.files.errors import InputError
from data_scripts.files.folders import new_folder
from data_scripts.public.stsb import load_stsb
from modeling_convsim.encoding import Encoder
from trainer.evaluation.evaluators import Split
from trainer.evaluation.stsb import EVALUATOR as STSB
from trainer.export import comparison
from trainer.export.formats import ExportFormat, Precision, import_extra, load_format
from trainer.export.onnx_graph import size_in_float32
from trainer.export.report import describe, find_run, record
from trainer.publish.model_files import share_weights


@dataclass(frozen=True)
class ExportOptions:
    """The options of the command line, whose help describes them."""

    model: str
    output: Path
    format: str = "onnx"
    precision: str = "float32"
    embeddings: str | None = None
    stsb: str | None = None
    split: Split | None = None


def export(options: ExportOptions) -> dict[str, Any]:
    """Export a model; returns the content of export.json.

    Raises:
        InputError: the model, the data or the output folder is not usable, or the exported vectors are not the model's.
    """
    form = load_format(options.format)
    if options.output.exists() and not (options.output.is_dir() and not any(options.output.iterdir())):
        raise InputError(f"--output {options.output}: exists already; name another folder, or delete this one")
    if options.embeddings and not form.stores_embeddings_apart:
        raise InputError("--embeddings: a static file is only an embedding table; use --precision")
    embeddings = options.embeddings or ("float16" if options.precision == "float16" else "float32")
    precision = Precision(options.precision, embeddings)
    run = find_run(options.model)
    for package in form.packages:
        import_extra(package)
    splits = _load_stsb(options)
    encoder = load_model(options.model)
    with new_folder(options.output, overwrite=False, kind="export") as (folder, _):
        form.write(encoder, folder, precision)
        share_weights(folder)
        report = {
            "model": options.model,
            "format": form.name,
            "engine": form.engine,
            "precision": precision.matrices,
            **({"embeddings": precision.embeddings} if form.stores_embeddings_apart else {}),
            **_measure(form, folder, encoder, precision, splits),
        }
        (folder / "export.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(describe(report, encoder, form.usage), encoding="utf-8")
    if run:
        record(report, run, options.output)
    return report


def load_model(name: str) -> Encoder:
    """The float32 model of a saved folder, of a run's folder, or of the Hub, on the CPU.

    Raises:
        InputError: there is no such model.
    """
    inside = Path(name, "model")
    try:
        return Encoder.from_pretrained(inside if (inside / "config.json").is_file() else name, device="cpu")
    except ValueError as error:
        raise InputError(str(error)) from error


def _load_stsb(options: ExportOptions) -> dict[str, Dataset]:
    if not options.stsb:
        if options.split:
            raise InputError(f"--split {options.split}: is a split of STS-B; name STS-B with --stsb, or drop --split")
        return {}
    split = options.split or "dev"
    splits = STSB.splits_in({"stsb": load_stsb(options.stsb)}, split)
    if not splits:
        raise InputError(f"--stsb {options.stsb}: has no {split} split; name another with --split")
    return splits


def _measure(
    form: ExportFormat, folder: Path, encoder: Encoder, precision: Precision, splits: Mapping[str, Dataset]
) -> dict[str, Any]:
    """Verify the exported vectors, and measure size, speed and, with `splits`, scores beside the model in torch."""
    threads = torch.get_num_threads()
    exported = form.load(folder, threads)
    difference = comparison.measure_difference(exported, encoder, form.check_batches)
    comparison.verify_vectors(difference, precision.lowest)
    texts = sorted({text for rows in splits.values() for text in rows["sentence1"][:]}) or comparison.sample_texts()
    size = (folder / form.weights_file).stat().st_size
    return {
        "outputs": exported.sizes,
        "difference": difference._asdict(),
        "size_mb": {"exported": size / 1e6, "torch": size_in_float32(form.held_by(encoder)) / 1e6},
        "sentences_per_second": comparison.measure_speed(exported, encoder, texts),
        "speed_of": {"texts": len(texts), "threads": threads},
        **({"stsb": comparison.compare_on_stsb(exported, encoder, splits)} if splits else {}),
    }
