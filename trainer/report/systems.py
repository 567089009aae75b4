"""What the report compares: trained models, with what their runs measured and what is measured of them here."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from data_scripts.errors import InputError
from trainer.data.datasets import Corpora
from trainer.encoders.loading import load_encoder
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.evaluators import TASKS, evaluate_encoder
from trainer.evaluation.results import read_results, write_results
from trainer.evaluation.similarity import angular, cosine, encode_pairs
from trainer.evaluation.sts_sets import sts_set_scores

CONVERSATIONS, BOTH, SNLI, NEIGHBOURS, WORDS, OTHER = (
    "conversations", "conversations + SNLI", "SNLI", "neighbouring sentences", "words", "other tasks",
)  # fmt: skip
_TRAINED_ON = {
    frozenset({"response_prediction"}): CONVERSATIONS,
    frozenset({"response_prediction", "snli"}): BOTH,
    frozenset({"snli"}): SNLI,
    frozenset({"neighbours"}): NEIGHBOURS,
}
_ENCODERS = {
    "convsim_dan": "DAN",
    "convsim_transformer": "Transformer",
    "convsim_cbow": "averages",
    "convsim_bilstm": "BiLSTM",
}
_METHODS = {"skip_gram": "word2vec skip-gram", "cbow": "word2vec CBOW", "fasttext": "fastText", "pv_dbow": "PV-DBOW"}


@dataclass(frozen=True, eq=False)
class System:
    """A trained model: a run's folder, one that `trainer.embeddings` wrote, or any saved model's."""

    name: str
    model: Path
    settings: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The encoder's config; empty where it has none of ours."""
        path = self.model / "config.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    @property
    def method(self) -> str | None:
        """How word vectors were trained, of what `trainer.embeddings` wrote: skip_gram, sif and so on; else None."""
        method = self.settings.get("method")
        return "sif" if method and self.settings.get("sif") else method

    @property
    def trained_on(self) -> str:
        """CONVERSATIONS, BOTH, SNLI, NEIGHBOURS, WORDS or OTHER."""
        if self.method:
            return WORDS
        odds = {**self.settings.get("tasks", {}), **self.settings.get("late_tasks", {})}
        if self.settings.get("snli_share") == 0:
            odds.pop("snli", None)
        return _TRAINED_ON.get(frozenset(task for task, share in odds.items() if share), OTHER)

    @property
    def encoder(self) -> str:
        """DAN, Transformer, BiLSTM, LSTM or averages; "" of a model that is not ours."""
        kind = _ENCODERS.get(self.config.get("model_type", ""), "")
        return "LSTM" if kind == "BiLSTM" and not self.config.get("bidirectional", True) else kind

    @property
    def sources(self) -> str:
        """Names of the sets that word vectors, or neighbouring sentences, came from."""
        given = self.settings.get("sources") or self.settings.get("documents") or []
        return ", ".join(source.rstrip("/").rpartition("/")[2] for source in given)

    @property
    def is_plain(self) -> bool:
        """Whether it is one of the papers' models and no variation of one."""
        return not self._variations

    @property
    def label(self) -> str:
        """What tables call it."""
        if self.method:
            weighted = ", SIF" if self.settings.get("sif") else ""
            return f"{_METHODS[self.settings['method']]}{weighted} ({self.sources})"
        if self.trained_on == NEIGHBOURS:
            return f"Siamese {'CBOW' if self.encoder == 'averages' else self.encoder} ({self.sources})"
        if not self.settings:
            return self.name
        return f"{self.encoder}, {self.trained_on}" + "".join(f", {variation}" for variation in self._variations)

    @property
    def _variations(self) -> list[str]:
        found = ["input network"] if self.config.get("input_network") else []
        start = self.settings.get("word_vectors", "random")
        return found + ([f"words from {Path(start).name}"] if not self.method and start != "random" else [])


@dataclass(frozen=True, eq=False)
class Study:
    """Runs of `trainer.sweep` that differ in one setting: its name, and each value, as typed, with its run."""

    key: str
    runs: list[tuple[str, System]]


def open_folders(folders: list[Path]) -> tuple[list[System], list[Study]]:
    """The systems and studies of some folders; of two studies that vary the same setting the first.

    Raises:
        InputError: a folder is none of a run, a model or a sweep, or two have one name.
    """
    systems: list[System] = []
    studies: list[Study] = []
    for folder in folders:
        if (folder / "rows.jsonl").is_file():
            studies += [study for study in _studies(folder) if study.key not in {each.key for each in studies}]
        else:
            systems.append(open_system(folder))
    names = [system.name for system in systems]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"two runs are called {', '.join(twice)}: rename one of the folders")
    return systems, studies


def open_system(folder: Path, name: str | None = None) -> System:
    """The system of a run's folder or of a saved model's.

    Raises:
        InputError: it is neither.
    """
    name = name or folder.resolve().name
    if (folder / "results.json").is_file() and (folder / "model").is_dir():
        config, metrics = folder / "config.yaml", folder / "metrics.jsonl"
        settings = yaml.safe_load(config.read_text(encoding="utf-8")) if config.is_file() else {}
        rows = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else []
        return System(
            name, folder / "model", settings, read_results(folder / "results.json"), list(map(json.loads, rows))
        )
    if any((folder / file).is_file() for file in ("config.json", "modules.json")):
        return System(name, folder)
    raise InputError(
        f"{folder}: expected a finished run (results.json and model/), a saved model, or a sweep's folder (rows.jsonl)"
    )


def _studies(folder: Path) -> list[Study]:
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    found: dict[str, Study] = {}
    runs = {
        row["run"]: open_system(folder / row["run"], f"{folder.resolve().name}/{row['run']}")
        for row in rows
        if (folder / row["run"] / "model").is_dir()
    }
    for row in rows:
        if len(row["varied"]) == 1 and row["run"] in runs:
            ((key, value),) = row["varied"].items()
            if key not in found:
                found[key] = Study(key, [])
                if base := next((runs.get(other["run"]) for other in rows if not other["varied"]), None):
                    settings = {**base.settings, "model_config": base.config}  # with the defaults that it leaves out
                    found[key].runs.append((str(_setting(settings, key)), base))
            found[key].runs.append((value, runs[row["run"]]))
    return list(found.values())


def _setting(settings: dict[str, Any], key: str) -> Any:
    """The setting at `key`, with dots between the names of mappings, as a sweep has it."""
    value: Any = settings
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


class Judge:
    """Measures systems on the report's data, each thing once: what it finds is kept in a folder.

    Args:
        data: the sets that systems are judged on; what is not there is not measured.
        sources: option of the trainer -> what it was told, for those sets; a run that was judged on the same is not
            judged again.
        folder: where measurements are kept.
    """

    def __init__(self, data: Corpora, sources: dict[str, Any], folder: Path) -> None:
        self.data, self.sources, self.folder = data, sources, folder
        self._encoder: tuple[System, SentenceEncoder] | None = None
        self._digests: dict[System, str] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def encoder(self, system: System) -> SentenceEncoder:
        """The system's encoder; the last one is kept."""
        if self._encoder is None or self._encoder[0] is not system:
            self._encoder = (system, load_encoder(str(system.model)))
        return self._encoder[1]

    def scores(self, system: System, task: str) -> dict[str, Any] | None:
        """The part of results.json of a task, on dev and test where it has both; None where it cannot be measured."""
        option = TASKS[task]
        if getattr(self.data, option) is None:
            return None
        known = system.results.get(task)
        if known and system.settings.get(option) == self.sources[option] and _is_whole(task, known):
            return known

        def measure() -> dict[str, Any] | None:
            try:
                return evaluate_encoder(self.encoder(system), self.data, "both", [task], intervals=True)[task]
            except InputError:
                if task in ("response_prediction", "snli"):  # a model without that head
                    return None
                raise

        return self.keep(system, task, measure)

    def keep(self, system: System | None, name: str, measure: Callable[[], Any]) -> Any:
        """What `measure` gives, as JSON, of a system, or of the data alone; from the folder where it was before."""
        path = self.folder / (f"{system.name.replace('/', '__')}.json" if system else "data.json")
        kept = read_results(path) if path.is_file() else {}
        now = {"model": self._digest(system) if system else None, "sources": self.sources}
        if any(kept.get(key) != value for key, value in now.items()):
            kept = now
        if name not in kept:
            kept[name] = measure()
            write_results(path, kept)
        return kept[name]

    def stsb_angles(self, system: System, split: str) -> np.ndarray:
        """The untuned score -arccos(cos) (pairs,) of STS-B's dev or test pairs."""
        assert self.data.stsb is not None
        pairs = self.data.stsb["validation" if split == "dev" else split]

        def measure() -> list[float]:
            vectors = encode_pairs(self.encoder(system), pairs["sentence1"][:], pairs["sentence2"][:])
            return angular(cosine(*vectors)).tolist()

        return np.asarray(self.keep(system, f"stsb_{split}_angles", measure))

    def sts_scores(self, system: System) -> dict[tuple[str, str], np.ndarray]:
        """The cosines (pairs,) of each SemEval set: (year, set) -> scores."""
        assert self.data.sts is not None
        sets = self.data.sts

        def measure() -> dict[str, list[float]]:
            found = sts_set_scores(self.encoder(system), sets)
            return {f"{year} {name}": scores.tolist() for (year, name), scores in found.items()}

        kept = self.keep(system, "sts_scores", measure)
        return {tuple(key.split(" ", 1)): np.asarray(scores) for key, scores in kept.items()}

    def _digest(self, system: System) -> str:
        """Of the model's weights."""
        if system in self._digests:
            return self._digests[system]
        digest = hashlib.sha256()
        for path in sorted(system.model.glob("*")):
            if path.suffix in (".safetensors", ".npy") or path.name.endswith("model"):
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return self._digests.setdefault(system, digest.hexdigest())


def _is_whole(task: str, part: dict[str, Any]) -> bool:
    """Whether a part of results.json is of test too."""
    return part.get("split") == "test" if task in ("response_prediction", "snli") else task == "sts" or len(part) > 1
