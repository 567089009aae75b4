"""Exports a saved model: writes it, compares it with the model in torch, and records what was measured.

A format is a dictionary: `engine`, the package that runs it; `packages` that it needs; `weights_file`; `write`, which
writes an encoder to a folder in a precision of its matrices and one of its embedding tables; `load`, which gives the
folder as an encoder with `sizes`, output -> dimensions; `held_by`, the part of a model that it stores; `usage`, example
code.
"""

import json
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from datasets import Dataset

from data_scripts.files.errors import InputError
from data_scripts.files.folders import new_folder
from data_scripts.files.storage import resolve_links
from data_scripts.public.stsb import load_stsb
from data_scripts.sample import read_nli
from modeling_convsim.encoding import Encoder, JointEncoder
from trainer.encoders.protocol import SentenceEncoder, Side
from trainer.evaluation.results import update_results
from trainer.evaluation.stsb import evaluate_stsb
from trainer.export.formats import OUTPUTS, PRECISIONS, import_extra, size_in_float32
from trainer.publish.folder import CHECK_TEXTS, share_weights
from trainer.publish.upload import write_run_card
from trainer.runs import Run

TOLERANCE = 1e-4  # float32: the largest difference of a value, for L2-normalized vectors
LOWEST_COSINE = {"float16": 0.9999, "int8": 0.99}  # between a vector and that of the model
LONG_TEXT = " ".join(CHECK_TEXTS[:2] * 40)
# Batches of one text and of several, of similar and of different lengths, with unknown words and without any words.
CHECK_BATCHES = (CHECK_TEXTS, *((text,) for text in CHECK_TEXTS), ("", ""), (*CHECK_TEXTS[:2], LONG_TEXT) * 3)
PASSES = 3  # over the texts when measuring speed; the fastest counts
# The keys of export.json that results.json has for each format under `export`.
RECORDED = ("size_mb", "sentences_per_second", "speed_of", "stsb", "difference")


def export(
    model: str,
    output: Path,
    format: str = "onnx",
    precision: str = "float32",
    embeddings: str | None = None,
    stsb: str | None = None,
) -> dict[str, Any]:
    """Export a model; the options of the command line describe the arguments.

    Returns:
        The content of export.json.

    Raises:
        InputError: the model, the data or the output folder is not usable, or the exported vectors are not the model's.
    """
    form = import_module(f"trainer.export.{format}_export").FORMAT
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        raise InputError(f"--output {output}: exists already; name another folder, or delete this one")
    if embeddings and format == "static":
        raise InputError("--embeddings: a static file is only an embedding table; use --precision")
    embeddings = embeddings or ("float16" if precision == "float16" else "float32")
    run = find_run(model)
    for package in form["packages"]:
        import_extra(package)
    splits = _load_dev(stsb) if stsb else {}
    encoder = load_model(model)
    with new_folder(output, overwrite=False, kind="export") as (folder, _):
        form["write"](encoder, folder, precision, embeddings)
        share_weights(folder)
        report = {
            "model": model,
            "format": format,
            "engine": form["engine"],
            "precision": precision,
            **({} if format == "static" else {"embeddings": embeddings}),
            **_measure(form, folder, encoder, max(precision, embeddings, key=PRECISIONS.index), splits),
        }
        (folder / "export.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(describe(report, encoder, form["usage"]), encoding="utf-8")
    if run:
        record(report, run, output)
    return report


def load_model(name: str) -> Encoder:
    """The float32 model of a saved folder, of a run's folder, or of the Hub, on the CPU.

    Raises:
        InputError: there is no such model.
    """
    inside = Path(name, "model")
    try:
        encoder = Encoder.from_pretrained(inside if (inside / "config.json").is_file() else name, device="cpu")
    except ValueError as error:
        raise InputError(str(error)) from error
    if isinstance(encoder, JointEncoder):
        raise InputError(f"{name} holds two models, and only a single one is exported: name another model")
    return encoder


def _load_dev(source: str) -> dict[str, Dataset]:
    if "validation" not in (splits := load_stsb(source)):
        raise InputError(f"--stsb {source}: has no dev split")
    return {"dev": splits["validation"]}


def _measure(
    form: Mapping[str, Any], folder: Path, encoder: Encoder, precision: str, splits: Mapping[str, Dataset]
) -> dict[str, Any]:
    """Verify the exported vectors, and measure size, speed and, with `splits`, scores beside the model in torch."""
    threads = torch.get_num_threads()
    exported = form["load"](folder, threads)
    # model2vec also truncates a long text by its characters, so that it may keep fewer tokens than the model.
    batches = CHECK_BATCHES[: -1 if form["engine"] == "model2vec" else None]
    difference = measure_difference(exported, encoder, batches)
    verify_vectors(difference, precision)
    texts = sorted({text for rows in splits.values() for text in rows["sentence1"][:]}) or sample_texts()
    size = (folder / form["weights_file"]).stat().st_size
    return {
        "outputs": exported.sizes,
        "difference": difference,
        "size_mb": {"exported": size / 1e6, "torch": size_in_float32(form["held_by"](encoder)) / 1e6},
        "sentences_per_second": measure_speed(exported, encoder, texts),
        "speed_of": {"texts": len(texts), "threads": threads},
        **({"stsb": compare_on_stsb(exported, encoder, splits)} if splits else {}),
    }


def measure_difference(exported: Any, encoder: Encoder, batches: Sequence[Sequence[str]]) -> dict[str, float]:
    """Compare the vectors of some batches of texts, each encoded by itself, on every exported side.

    Returns:
        `texts`, their number; `largest`, the largest difference of a value, divided by the norm of the
        model's vector if that is above one; `lowest_cosine` between a vector and that of the model, 1 if
        both are zero.
    """
    largest, lowest = 0.0, 1.0
    for side in (side for side in get_args(Side) if OUTPUTS[side] in exported.sizes):
        for batch in batches:
            vectors, expected = (source.encode(batch, side).astype(np.float64) for source in (exported, encoder))
            norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
            both_zero = (np.abs(vectors).max(1) == 0) & (np.abs(expected).max(1) == 0)
            cosines = np.where(both_zero, 1.0, (vectors * expected).sum(1) / np.where(norms > 0, norms, 1.0))
            scale = np.maximum(1, np.linalg.norm(expected, axis=1, keepdims=True))
            # `np.maximum` propagates NaN, which `verify_vectors` refuses.
            largest = float(np.maximum(largest, np.abs((vectors - expected) / scale).max()))
            lowest = float(np.minimum(lowest, cosines.min()))
    return {"texts": sum(map(len, batches)), "largest": largest, "lowest_cosine": lowest}


def verify_vectors(difference: Mapping[str, float], precision: str) -> None:
    """Refuse vectors that are not those of the model.

    Raises:
        InputError: float32 differs by more than 1e-4, or a cosine of a lower precision is below `LOWEST_COSINE`.
    """
    # The comparisons are negated so that NaN is refused too.
    if precision == "float32" and not difference["largest"] <= TOLERANCE:
        raise InputError(
            f"not exported: the vectors differ from the model's by up to {difference['largest']:.3g}; expected at most "
            f"{TOLERANCE:g}"
        )
    if precision != "float32" and not difference["lowest_cosine"] >= LOWEST_COSINE[precision]:
        raise InputError(
            f"not exported: in {precision}, a vector has a cosine of {difference['lowest_cosine']:.4f} to the model's; "
            f"expected at least {LOWEST_COSINE[precision]}. Try --precision float32 --embeddings int8, or float16"
        )


def measure_speed(exported: SentenceEncoder, encoder: SentenceEncoder, texts: Sequence[str]) -> dict[str, float]:
    """Sentences per second of both, including tokenization, measured in alternation; the fastest pass counts."""
    sources = {"exported": exported, "torch": encoder}
    seconds = dict.fromkeys(sources, float("inf"))
    for _ in range(PASSES):
        for name, source in sources.items():
            started = time.perf_counter()
            source.encode(texts)
            seconds[name] = min(seconds[name], time.perf_counter() - started)
    return {name: len(texts) / fastest for name, fastest in seconds.items()}


def compare_on_stsb(
    exported: SentenceEncoder, encoder: SentenceEncoder, splits: Mapping[str, Dataset]
) -> dict[str, dict[str, Any]]:
    """Pearson's r of both on each split of STS-B: split -> "exported", "torch", "pairs"."""
    scores = {"exported": evaluate_stsb(exported, splits), "torch": evaluate_stsb(encoder, splits)}
    return {
        split: {**{name: each[split]["all"]["pearson"] for name, each in scores.items()}, "pairs": len(rows)}
        for split, rows in splits.items()
    }


def sample_texts() -> list[str]:
    """The distinct sentences of the NLI examples that ship with the project."""
    rows = read_nli()
    return list(dict.fromkeys([*rows["premise"].to_pylist(), *rows["hypothesis"].to_pylist()]))


def _name_of(report: Mapping[str, Any]) -> str:
    embeddings = f", embeddings {report['embeddings']}" if "embeddings" in report else ""
    return f"{report['engine']}, {report['precision']}{embeddings}"


def format_table(report: Mapping[str, Any]) -> str:
    """A Markdown table of export.json: the model in torch beside the exported one."""
    difference, speed_of = report["difference"], report["speed_of"]
    rows = [
        (f"largest difference of a value; lowest cosine ({difference['texts']} texts)", "",
         f"{difference['largest']:.1e}; {difference['lowest_cosine']:.6f}"),
        ("MB", *(f"{report['size_mb'][name]:.1f}" for name in ("torch", "exported"))),
        (f"sentences/s, {speed_of['texts']:,} sentences, {speed_of['threads']} threads",
         *(f"{report['sentences_per_second'][name]:,.0f}" for name in ("torch", "exported"))),
        *((f"STS-B {split}, Pearson's r", *(f"{values[name]:.4f}" for name in ("torch", "exported")))
          for split, values in report.get("stsb", {}).items()),
    ]  # fmt: skip
    head = f"| | torch, float32 | {_name_of(report)} |\n|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def describe(report: Mapping[str, Any], encoder: Encoder, usage: str) -> str:
    """README.md of the exported folder; `usage` is example code."""
    outputs = ", ".join(f"`{name}` (texts, {size})" for name, size in report["outputs"].items())
    model_type = encoder.model.config.model_type
    return (
        f"---\ntags: [convsim, {model_type}, {report['format']}]\n---\n\n"
        f"# A {model_type} sentence encoder, exported\n\n"
        f"convsim's `python -m trainer.export` exported this encoder and measured:\n\n"
        f"{format_table(report)}\nOutputs: {outputs}. Usage in this folder:\n\n```python\n{usage}```\n"
    )


def find_run(model: str) -> Path | None:
    """The run, if `model` is the folder of a finished run; None for a saved model or a name on the Hub.

    A saved model may have the results and the settings of its run beside its weights; a run has its model in `model/`.

    Raises:
        InputError: the run's results.json or config.yaml is damaged, so that nothing could be added to them.
    """
    run = Run(Path(model))
    if not run.is_finished:
        return None
    _ = run.results, run.settings
    return run.folder


def record(report: Mapping[str, Any], run: Path, output: Path) -> None:
    """Add what was measured to a run's results.json, under `export` and the format, and rewrite its card.

    An export inside the run's `model/` is published with it; `folder` is its path there.

    Raises:
        InputError: the run's files cannot be read or written.
    """
    measured = {name: report[name] for name in RECORDED if name in report}
    model, output = resolve_links(run / "model"), resolve_links(output)
    if output.is_relative_to(model):
        measured["folder"] = output.relative_to(model).as_posix()
    update_results(run / "results.json", {"export": {_name_of(report): measured}})
    write_run_card(run)
