"""Measures systems for the report, and caches the measurements in a folder."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from data_scripts.errors import InputError
from trainer.data.datasets import EvaluationData
from trainer.encoders.loading import load_encoder
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.evaluators import EVALUATORS, evaluate_baseline, evaluate_encoder
from trainer.evaluation.metrics.precision_at_n.precision_at_n import true_ranks
from trainer.evaluation.response_prediction import build_queries, score_candidates
from trainer.evaluation.results import read_results, write_results
from trainer.evaluation.similarity import angular, cosine, encode_pairs
from trainer.evaluation.sts_matrix import read_matrix
from trainer.evaluation.sts_sets import sts_set_scores
from trainer.evaluation.sts_tuning import score_with_matrix, tune_on_stsb
from trainer.report.systems import System
from trainer.tasks import TASKS

# Evaluators of a head, which a model may lack.
HEAD_EVALUATORS = {task.evaluator for task in TASKS.values() if task.evaluator}


class Measurements:
    """Measures systems on the report's data.

    Args:
        data: the evaluation datasets; measurements on a missing dataset are skipped.
        sources: name of each dataset -> the trainer's option for it. Scores that a run has measured on the same source
            are not measured again.
        folder: caches the measurements for the next report.
    """

    def __init__(self, data: EvaluationData, sources: dict[str, Any], folder: Path) -> None:
        self.data, self.sources, self.folder = data, sources, folder
        self._encoder: tuple[System, SentenceEncoder] | None = None
        self._digests: dict[System, str] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be created ({error})") from error

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

    def response_hits(self, system: System) -> np.ndarray:
        """1 for each query of response prediction whose true response ranks first, else 0 (queries,)."""

        def measure() -> list[int]:
            splits = EVALUATORS["response_prediction"].splits_in(self.data, "both")
            pairs = list(splits.values())[-1]
            scores = score_candidates(self.encoder(system), build_queries(pairs["input"][:], pairs["response"][:]))
            return (true_ranks(scores, np.zeros(len(scores), dtype=np.int64)) == 1).astype(int).tolist()

        return np.asarray(self.cached(system, "response_hits", measure))

    def stsb_tuned_scores(self, system: System) -> np.ndarray:
        """The tuned score (pairs,) of STS-B's test pairs, with the matrix of the run if its folder has it."""

        def measure() -> list[float]:
            stsb, encoder = self.data["stsb"], self.encoder(system)
            same_data = system.settings.get("stsb") == self.sources["stsb"]
            matrix = read_matrix(system.model) if same_data else None
            if matrix is None:
                matrix, _ = tune_on_stsb(encoder, stsb["train"], stsb["validation"], {})
            return score_with_matrix(encoder, matrix, stsb["test"]).tolist()

        return np.asarray(self.cached(system, "stsb_tuned_test_angles", measure))

    def stsb_scores(self, system: System, split: str) -> np.ndarray:
        """The untuned score -arccos(cos) (pairs,) of STS-B's dev or test pairs."""
        pairs = self.data["stsb"]["validation" if split == "dev" else split]

        def measure() -> list[float]:
            vectors = encode_pairs(self.encoder(system), pairs["sentence1"][:], pairs["sentence2"][:])
            return angular(cosine(*vectors)).tolist()

        return np.asarray(self.cached(system, f"stsb_{split}_angles", measure))

    def sts_scores(self, system: System) -> dict[tuple[str, str], np.ndarray]:
        """The cosines (pairs,) of each SemEval dataset: (year, dataset) -> scores."""

        def measure() -> dict[str, list[float]]:
            scores = sts_set_scores(self.encoder(system), self.data["sts"])
            return {f"{year} {name}": cosines.tolist() for (year, name), cosines in scores.items()}

        scores = self.cached(system, "sts_scores", measure)
        return {tuple(key.split(" ", 1)): np.asarray(cosines) for key, cosines in scores.items()}

    def cached(self, system: System | None, name: str, measure: Callable[[], Any]) -> Any:
        """The value of `measure`, as JSON, for a system, or for the data alone; read from the folder if it is there.

        A change of the model's weights or of the sources discards the measurements of a system.
        """
        path = self.folder / (f"{system.name.replace('/', '__')}.json" if system else "data.json")
        origin = {"model": self._digest(system) if system else None, "sources": self.sources}
        values = read_results(path) if path.is_file() else {}
        if any(values.get(key) != value for key, value in origin.items()):
            values = origin
        if name not in values:
            values[name] = measure()
            write_results(path, values)
        return values[name]

    def _digest(self, system: System) -> str:
        """A digest of the model's weights."""
        if system in self._digests:
            return self._digests[system]
        digest = hashlib.sha256()
        for path in sorted(system.model.glob("*")):
            if path.suffix in (".safetensors", ".npy") or path.name.endswith("model"):
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return self._digests.setdefault(system, digest.hexdigest())


def _has_test(evaluator: str, scores: dict[str, Any]) -> bool:
    """Whether a part of results.json has scores on test; the SemEval datasets have no other split."""
    if "split" in scores:
        return scores["split"] == "test"
    return evaluator == "sts" or len(scores) > 1
