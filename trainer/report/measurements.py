"""Measures systems for the report, and caches the measurements in a folder."""

import hashlib
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.json_files import read_object
from modeling_convsim.files.storage import make_folder
from trainer.data.datasets import DATASET_KINDS, EvaluationData, leaves
from trainer.encoders.loading import load_encoder
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.evaluators import EVALUATORS, evaluate_baseline, evaluate_encoder
from trainer.evaluation.results import write_results
from trainer.evaluation.sts_sets import sts_set_scores
from trainer.evaluation.stsb import untuned_scores
from trainer.report.systems import System
from trainer.tasks import TASKS
from trainer.training.inputs import fingerprint_rows

# Evaluators of a head, which a model may lack.
HEAD_EVALUATORS = {task.evaluator for task in TASKS.values() if task.evaluator}


class Measurements:
    """The systems of a report and their measured scores.

    Args:
        data: the evaluation datasets; measurements on a missing dataset are skipped.
        sources: name of each dataset -> the trainer's option for it. Scores that a run has measured on the same source
            are not measured again.
        folder: caches the measurements for the next report.
        systems: all systems, including those in which the plan varies a setting.

    Attributes:
        systems: the systems without a varied setting.
        studies: varied setting -> (value, system) of each run.
    """

    def __init__(
        self,
        data: EvaluationData,
        sources: dict[str, Any],
        folder: Path,
        systems: Sequence[System] = (),
    ) -> None:
        self.data, self.sources, self.folder = data, sources, folder
        self.systems = [system for system in systems if not system.varied]
        self.studies: dict[str, list[tuple[str, System]]] = {}
        for system in systems:
            if system.varied:
                setting, value = system.varied
                self.studies.setdefault(setting, []).append((value, system))
        self._encoder: tuple[System, SentenceEncoder] | None = None
        self._digests: dict[System, str] = {}
        self._data_digests = {name: _digest_splits(splits, name) for name, splits in data.items()}
        make_folder(folder)

    def encoder(self, system: System) -> SentenceEncoder:
        """The system's encoder; the last one stays in memory."""
        if self._encoder is None or self._encoder[0] is not system:
            self._encoder = (system, load_encoder(str(system.model)))
        return self._encoder[1]

    def scores(self, system: System, evaluator: str) -> dict[str, Any] | None:
        """An evaluator's part of results.json, on dev and test if it has both; None if it cannot be measured."""
        dataset = EVALUATORS[evaluator].dataset
        if dataset not in self.data:
            return None
        from_run = system.results.get(evaluator)
        if from_run and system.settings.get(dataset) == self.sources[dataset] and _has_test(evaluator, from_run):
            return from_run

        def measure() -> dict[str, Any] | None:
            try:
                return evaluate_encoder(self.encoder(system), self.data, "both", [evaluator], intervals=True)[evaluator]
            except InputError:
                if evaluator in HEAD_EVALUATORS:  # a model without that head
                    return None
                raise

        return self.cached(system, evaluator, measure)

    def baseline_scores(self, baseline: str, evaluator: str) -> dict[str, Any]:
        """The same for a baseline that ranks by word overlap."""
        return self.cached(
            None,
            f"{baseline} {evaluator}",
            lambda: evaluate_baseline(baseline, self.data, "both", [evaluator], intervals=True)[evaluator],
        )

    def stsb_scores(self, system: System) -> np.ndarray:
        """The angular score (pairs,) of STS-B's test pairs."""
        pairs = self.data["stsb"]["test"]
        return np.asarray(
            self.cached(system, "stsb_test_angles", lambda: untuned_scores(self.encoder(system), pairs).tolist())
        )

    def sts_scores(self, system: System) -> dict[str, np.ndarray]:
        """The cosine (pairs,) of each pair: "YEAR NAME" of a SemEval dataset -> scores."""

        def measure() -> dict[str, list[float]]:
            scores = sts_set_scores(self.encoder(system), dict(leaves(self.data["sts"])))
            return {key: cosines.tolist() for key, cosines in scores.items()}

        return {key: np.asarray(cosines) for key, cosines in self.cached(system, "sts_scores", measure).items()}

    def sts_gold(self) -> dict[str, np.ndarray]:
        """The gold scores: "YEAR NAME" -> (pairs,)."""
        return {key: np.asarray(rows["score"]) for key, rows in leaves(self.data["sts"])}

    def cached(self, system: System | None, name: str, measure: Callable[[], Any]) -> Any:
        """The value of `measure`, as JSON, for a system, or for the data alone; read from the folder if it is there.

        A change of the model's weights or of the evaluation data discards the measurements of a system.
        """
        path = self.folder / (f"{system.name.replace('/', '__')}.json" if system else "data.json")
        origin = {"model": self._digest(system) if system else None, "data": self._data_digests}
        values = read_object(path) if path.is_file() else {}
        if any(values.get(key) != value for key, value in origin.items()):
            values = origin
        if name not in values:
            values[name] = measure()
            write_results(path, values)
        return values[name]

    def _digest(self, system: System) -> str:
        """A digest of the model's weights."""
        if system not in self._digests:
            digest = hashlib.sha256()
            for path in sorted(system.model.glob("*")):
                if path.suffix in (".safetensors", ".npy") or path.name.endswith("model"):
                    digest.update(hashlib.sha256(path.read_bytes()).digest())
            self._digests[system] = digest.hexdigest()
        return self._digests[system]


def _digest_splits(splits: Any, kind: str) -> str:
    """A digest of the splits of a kind of dataset, without training rows that no measurement reads."""
    digest, is_trained_on = hashlib.sha256(), DATASET_KINDS[kind].text_columns is not None
    for name, rows in sorted(leaves(splits), key=itemgetter(0)):
        if not (name == "train" and is_trained_on):
            digest.update(f"{name} {fingerprint_rows(rows)}".encode())
    return digest.hexdigest()


def _has_test(evaluator: str, scores: dict[str, Any]) -> bool:
    """Whether a part of results.json has scores on test; the SemEval datasets have no other split."""
    if "split" in scores:
        return scores["split"] == "test"
    return evaluator == "sts" or len(scores) > 1
