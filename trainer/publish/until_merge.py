"""MERGE: delete this file. It stands in for what other branches declare: `trainer.tasks.TASKS` and `export_formats`."""

from typing import Any, NamedTuple

import modeling_convsim


class _Task(NamedTuple):
    datasets: tuple[str, ...]
    evaluator: str | None = None
    card_line: str = ""


_TASKS = {
    "response_prediction": _Task(("pairs",), "response_prediction", "picks the true reply among those of the batch"),
    "snli": _Task(("snli",), "snli", "classifies sentence pairs"),
    "entailment": _Task(("nli",)),
    "captions": _Task(("captions",)),
    "paraphrases": _Task(("paraphrases",)),
    "ranking": _Task(("nli", "paraphrases")),
    "distillation": _Task(()),
    "neighbors": _Task(("documents",)),
}

try:
    from trainer.tasks import TASKS  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    TASKS: Any = _TASKS  # type: ignore[no-redef]

for _encoder, _formats in (
    (modeling_convsim.ConvSimEncoder, ("onnx",)),
    (modeling_convsim.ConvSimCbowModel, ("onnx", "static")),
    (modeling_convsim.ConvSimBilstmModel, ()),
):
    if "export_formats" not in vars(_encoder):
        setattr(_encoder, "export_formats", _formats)  # noqa: B010
