"""Reports what `trainer.export` measured: a table, the README of the exported folder, the run's results and card."""

from pathlib import Path
from typing import Any

from modeling_convsim.encoding import Encoder
from trainer.evaluation.results import update_results
from trainer.evaluation.run_files import read_run_results, read_settings
from trainer.publish.upload import RUN_FILES, write_run_card

# The keys of export.json that results.json has for each format under `export`.
RECORDED = ("size_mb", "sentences_per_second", "speed_of", "stsb", "difference")


def _form(report: dict[str, Any]) -> str:
    embeddings = f", embeddings {report['embeddings']}" if "embeddings" in report else ""
    return f"{report['engine']}, {report['precision']}{embeddings}"


def format_table(report: dict[str, Any]) -> str:
    """A Markdown table of export.json: the model in torch beside the exported one."""
    rows = [
        (f"largest difference of a value; lowest cosine ({report['difference']['texts']} texts)", "",
         f"{report['difference']['largest']:.1e}; {report['difference']['lowest_cosine']:.6f}"),
        ("MB", *(f"{report['size_mb'][name]:.1f}" for name in ("torch", "exported"))),
        (f"sentences/s, {report['speed_of']['texts']:,} sentences, {report['speed_of']['threads']} threads",
         *(f"{report['sentences_per_second'][name]:,.0f}" for name in ("torch", "exported"))),
        *((f"STS-B {split}, Pearson's r", *(f"{values[name]:.4f}" for name in ("torch", "exported")))
          for split, values in report.get("stsb", {}).items()),
    ]  # fmt: skip
    head = f"| | torch, float32 | {_form(report)} |\n|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def describe(report: dict[str, Any], encoder: Encoder, usage: str) -> str:
    """README.md of the exported folder; `usage` is example code."""
    outputs = ", ".join(f"`{name}` (texts, {size})" for name, size in report["outputs"].items())
    return (
        f"---\ntags: [convsim, {encoder.model.config.model_type}, {report['format']}]\n---\n\n"
        f"# A {encoder.model.config.model_type} sentence encoder, exported\n\n"
        f"convsim's `python -m trainer.export` exported this encoder and measured:\n\n"
        f"{format_table(report)}\nOutputs: {outputs}. Usage in this folder:\n\n```python\n{usage}```\n"
    )


def find_run(model: str) -> Path | None:
    """The run, if `model` is the folder of a finished run; None for a saved model or a name on the Hub.

    Raises:
        InputError: the run's results.json or config.yaml is damaged, so that nothing could be added to them.
    """
    run = Path(model)
    if not all((run / name).is_file() for name in RUN_FILES):
        return None
    read_run_results(run / "results.json")
    read_settings(run / "config.yaml")
    return run


def record(report: dict[str, Any], run: Path, output: Path) -> None:
    """Add what was measured to a run's results.json, under `export` and the format, and rewrite its card.

    An export inside the run's `model/` is published with it; `folder` is its path there.

    Raises:
        InputError: the run's files cannot be read or written.
    """
    measured = {name: report[name] for name in RECORDED if name in report}
    model, output = (run / "model").resolve(), output.resolve()
    if output.is_relative_to(model):
        measured["folder"] = output.relative_to(model).as_posix()
    update_results(run / "results.json", {"export": {_form(report): measured}})
    write_run_card(run)
