"""The scores of the report's systems item by item, from which the claims' intervals are computed."""

from collections.abc import Iterable, Sequence

import numpy as np

from trainer.report.attention import distances_by_sentence
from trainer.report.measurements import Measurements
from trainer.report.systems import Sweep, System


class ItemScores:
    """Scores of runs, by name, on the same items; measured once and cached.

    Args:
        measurements: measures a system.
        systems: the systems of the report.
        sweeps: its sweeps, whose runs are systems too.
    """

    def __init__(self, measurements: Measurements, systems: Iterable[System], sweeps: Sequence[Sweep]) -> None:
        self._measurements = measurements
        self._systems = {system.name: system for sweep in sweeps for _, system in sweep.runs}
        self._systems |= {system.name: system for system in systems}

    def response_hits(self, run: str) -> np.ndarray:
        """1 for each query of response prediction whose true response ranks first, else 0 (queries,)."""
        return self._measurements.response_hits(self._systems[run])

    def stsb_scores(self, run: str, tuned: bool) -> np.ndarray:
        """The angular score of each pair of STS-B test, untuned or tuned (pairs,)."""
        system = self._systems[run]
        return self._measurements.stsb_tuned_scores(system) if tuned else self._measurements.stsb_scores(system, "test")

    def stsb_gold(self) -> tuple[np.ndarray, np.ndarray]:
        """Gold scores and genres of STS-B test, both (pairs,)."""
        pairs = self._measurements.data["stsb"]["test"]
        return np.asarray(pairs["score"], dtype=np.float64), np.asarray([genre or "" for genre in pairs["genre"]])

    def sts_scores(self, run: str) -> dict[str, np.ndarray]:
        """The cosine of each pair: "YEAR NAME" of a SemEval dataset -> (pairs,)."""
        return {" ".join(key): scores for key, scores in self._measurements.sts_scores(self._systems[run]).items()}

    def sts_gold(self) -> dict[str, np.ndarray]:
        """The gold scores: "YEAR NAME" -> (pairs,)."""
        years = self._measurements.data["sts"]
        return {
            f"{year} {name}": np.asarray(rows["score"]) for year, sets in years.items() for name, rows in sets.items()
        }

    def attention_distances(self, run: str) -> tuple[np.ndarray, np.ndarray]:
        """`distances_by_sentence` of the sentences of STS-B dev."""
        system, pairs = self._systems[run], self._measurements.data["stsb"]["validation"]
        sentences = list(dict.fromkeys([*pairs["sentence1"], *pairs["sentence2"]]))

        def measure() -> list[list[float]]:
            sums, words = distances_by_sentence(self._measurements.encoder(system), sentences)
            return [*sums.tolist(), words.tolist()]

        *sums, words = self._measurements.cached(system, "attention_by_sentence", measure)
        return np.asarray(sums), np.asarray(words)
