"""A task in one file outside of the package, with its dataset and its evaluator: rhymes get similar embeddings."""

from typing import Any

import numpy as np
from torch import Tensor, nn

from data_scripts.loading import load_columns
from trainer.data.datasets import DATASET_KINDS, DatasetKind
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.evaluators import EVALUATORS
from trainer.evaluation.registry import CardEntry, EvaluationInputs, Evaluator
from trainer.settings import Settings
from trainer.tasks import Task, TaskInputs, register_task
from trainer.tasks.encoding import embed_batch, pack

COLUMNS = ("first", "second")


def load_rhymes(source: str) -> Any:
    return load_columns(source, COLUMNS)


DATASET_KINDS["rhymes"] = DatasetKind("rhymes", load_rhymes, COLUMNS, True, evaluation_columns=COLUMNS)


@register_task
class Rhymes(Task):
    name = "rhymes"
    card_line = "Rhymes: give two lines that rhyme similar embeddings, squared distance."
    required_option = "rhymes"
    datasets = ("rhymes",)

    @classmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        columns = inputs.tokenize(inputs.data.training["rhymes"], list(COLUMNS))
        return {cls.name: cls(settings, *columns.values())}

    def __len__(self) -> int:
        return len(self.columns[0])

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        first, second = self.columns
        return pack(first, rows) | pack(second, rows, "hypothesis_")

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        hypothesis = {key.removeprefix("hypothesis_"): value for key, value in batch.items() if "hypothesis" in key}
        first = {key: value for key, value in batch.items() if "hypothesis" not in key}
        distance = (embed_batch(model, first) - embed_batch(model, hypothesis)).square().sum(dim=1).mean()
        return self.settings.task_options["rhyme_scale"] * distance, {"distance": distance.detach()}


def evaluate_rhymes(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    """{split: {"cosine": mean cosine of rhymes}}."""
    results = {}
    for split, rows in inputs.splits.items():
        u, v = (encoder.encode(rows[column][:]) for column in COLUMNS)
        results[split] = {"cosine": float((u * v).sum(axis=1).mean())}
    return results


EVALUATORS["rhymes"] = Evaluator(
    name="rhymes",
    dataset="rhymes",
    data_help="folder or Hub id of rhymes",
    evaluate=evaluate_rhymes,
    card=CardEntry("sentence-similarity", "rhyme", "rhymes", "rhymes", {"cosine": "mean cosine"}),
)
