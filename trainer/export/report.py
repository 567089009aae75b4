"""What `trainer.export` measured, for people: a table, the exported folder's README, the run's results and card."""

from pathlib import Path
from typing import Any

from modeling_convsim.encoding import Encoder
from trainer.evaluation.results import read_results, write_results
from trainer.publish.folder import RUN_FILES, write_run_card

ENGINES = {"onnx": "onnxruntime", "static": "model2vec"}
# Of export.json, what results.json has of each form under `export`.
RECORDED = ("size_mb", "sentences_per_second", "speed_of", "stsb", "difference")


def _form(report: dict[str, Any]) -> str:
    tables = f", tables {report['embeddings']}" if "embeddings" in report else ""
    return f"{ENGINES[report['format']]}, {report['precision']}{tables}"


def format_table(report: dict[str, Any]) -> str:
    """A Markdown table of export.json: the model in torch beside what was exported."""
    rows = [
        (f"largest difference of a number; lowest cosine ({report['difference']['texts']} texts)", "",
         f"{report['difference']['largest']:.1e}; {report['difference']['lowest_cosine']:.6f}"),
        ("MB", *(f"{report['size_mb'][name]:.1f}" for name in ("torch", "exported"))),
        (f"sentences/s, {report['speed_of']['texts']:,} sentences, {report['speed_of']['threads']} threads",
         *(f"{report['sentences_per_second'][name]:,.0f}" for name in ("torch", "exported"))),
        *((f"STS-B {split}, Pearson's r", *(f"{values[name]:.4f}" for name in ("torch", "exported")))
          for split, values in report.get("stsb", {}).items()),
    ]  # fmt: skip
    head = f"| | torch, float32 | {_form(report)} |\n|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


USE = {
    "onnx": """import numpy as np
import onnxruntime
from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
session = onnxruntime.InferenceSession("model.onnx")
batch = tokenizer.encode_batch(["How old are you?", "What is your age?"])
embeddings, *_ = session.run(None, {
    "input_ids": np.array([text.ids for text in batch], dtype=np.int64),
    "attention_mask": np.array([text.attention_mask for text in batch], dtype=np.int64),
})
print(embeddings @ embeddings.T)
""",
    "static": """from model2vec import StaticModel

model = StaticModel.from_pretrained(".")
embeddings = model.encode(["How old are you?", "What is your age?"])
print(embeddings @ embeddings.T)
""",
}


def describe(report: dict[str, Any], encoder: Encoder) -> str:
    """README.md of the exported folder."""
    outputs = ", ".join(f"`{name}` (texts, {size})" for name, size in report["outputs"].items())
    return (
        f"---\ntags: [convsim, {encoder.model.config.model_type}, {report['format']}]\n---\n\n"
        f"# A {encoder.model.config.model_type} sentence encoder, exported\n\n"
        f"By convsim's `python -m trainer.export`, which measured this on the machine that it ran on:\n\n"
        f"{format_table(report)}\nIt gives {outputs}. In this folder:\n\n```python\n{USE[report['format']]}```\n"
    )


def run_of(model: str) -> Path | None:
    """The finished run that `model` is the folder of; None where it is a saved model or a name on the Hub.

    Raises:
        InputError: the run's results.json is not readable, so that nothing could be put into it.
    """
    run = Path(model)
    if not all((run / name).is_file() for name in RUN_FILES):
        return None
    read_results(run / "results.json")
    return run


def record(report: dict[str, Any], run: Path, output: Path) -> None:
    """Put what was measured into a run's results.json, under `export` and the form, and write its card anew.

    An export inside of the run's `model/` is published with it: `folder` says where it lies there.

    Raises:
        InputError: the run's files cannot be read or written.
    """
    results = read_results(run / "results.json")
    measured = {name: report[name] for name in RECORDED if name in report}
    model, output = (run / "model").resolve(), output.resolve()
    if output.is_relative_to(model):
        measured["folder"] = output.relative_to(model).as_posix()
    exports = results.get("export", {}) | {_form(report): measured}
    write_results(run / "results.json", results | {"export": exports})
    write_run_card(run)
