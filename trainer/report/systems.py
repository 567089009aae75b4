"""The systems that the report compares: trained models, with the settings and results of their runs, and sweeps."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from data_scripts.files.errors import InputError
from modeling_convsim import ENCODERS
from trainer.evaluation.results import read_results, read_run_results, read_settings
from trainer.tasks import TASKS

# The training data of a model.
CONVERSATIONS = TASKS["response_prediction"].label
SNLI = TASKS["snli"].label
BOTH = f"{CONVERSATIONS} + {SNLI}"
NEIGHBORS = TASKS["neighbors"].label
WORDS = "words"  # by gensim
UNKNOWN = "unknown"  # a saved model

# Its encoder.
DAN, TRANSFORMER, AVERAGES, BILSTM = (
    ENCODERS[name].config_class.label for name in ("dan", "transformer", "cbow", "bilstm")
)
LSTM = BILSTM.removeprefix("Bi")

# The gensim method that trained it.
METHODS = {"skip_gram": "word2vec skip-gram", "cbow": "word2vec CBOW", "fasttext": "fastText", "pv_dbow": "PV-DBOW"}


@dataclass(frozen=True, eq=False)
class System:
    """A trained model: of a run's folder, of a folder that `trainer.embeddings` wrote, or any saved model.

    Attributes:
        name: the name of its folder.
        model: the folder of the saved model.
        settings: config.yaml of its run; empty for a saved model.
        results: results.json of its run; empty for a saved model.
        metrics: the rows of metrics.jsonl of its run.
    """

    name: str
    model: Path
    settings: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The encoder's config; empty without one.

        Raises:
            InputError: it is damaged.
        """
        path = self.model / "config.json"
        return read_results(path) if path.is_file() else {}

    @property
    def method(self) -> str | None:
        """How `trainer.embeddings` trained word vectors: skip_gram, sif and so on; None for any other model."""
        method = self.settings.get("method")
        return "sif" if method and self.settings.get("sif") else method

    @property
    def trained_tasks(self) -> list[str]:
        """The tasks whose sampling weight is above zero."""
        weights = dict(self.settings.get("tasks", {}))
        if self.settings.get("snli_share") == 0:
            weights.pop("snli", None)
        return [task for task, weight in weights.items() if weight]

    @property
    def trained_on(self) -> str:
        """CONVERSATIONS, BOTH, SNLI, NEIGHBORS, WORDS or what `training_label` makes of other tasks."""
        return WORDS if self.method else training_label(self.trained_tasks)

    @property
    def encoder(self) -> str:
        """The label of its encoder; "" without a config."""
        return encoder_label(self.config)

    @property
    def sources(self) -> str:
        """Names of the datasets of word vectors or neighboring sentences."""
        sources = self.settings.get("sources") or self.settings.get("documents") or []
        return ", ".join(source.rstrip("/").rpartition("/")[2] for source in sources)

    @property
    def is_plain(self) -> bool:
        """Whether it is one of the papers' models and not a variation of one."""
        return not self._variations

    @property
    def label(self) -> str:
        """Its name in tables."""
        if self.method:
            sif = ", SIF" if self.settings.get("sif") else ""
            return f"{METHODS[self.settings['method']]}{sif} ({self.sources})"
        if self.trained_on == NEIGHBORS:
            return f"Siamese {'CBOW' if self.encoder == AVERAGES else self.encoder} ({self.sources})"
        if not self.settings:
            return self.name
        return ", ".join([self.encoder, self.trained_on, *self._variations])

    @property
    def _variations(self) -> list[str]:
        variations = ["input network"] if self.config.get("input_network") else []
        word_vectors = self.settings.get("word_vectors", "random")
        if not self.method and word_vectors != "random":
            variations.append(f"words from {Path(word_vectors).name}")
        return variations


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs of `trainer.sweep` that differ in one setting.

    Attributes:
        setting: its name, dots between the keys of mappings.
        runs: each value, as typed, with its run.
    """

    setting: str
    runs: list[tuple[str, System]]


def open_folders(folders: list[Path]) -> tuple[list[System], list[Sweep]]:
    """The systems and sweeps in some folders; of two sweeps over the same setting, the first.

    Raises:
        InputError: a folder holds no run, model or sweep, or two have one name.
    """
    systems: list[System] = []
    sweeps: dict[str, Sweep] = {}
    for folder in folders:
        if (folder / "rows.jsonl").is_file():
            for sweep in _open_sweeps(folder):
                sweeps.setdefault(sweep.setting, sweep)
        else:
            systems.append(open_system(folder))
    names = [system.name for system in systems]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"two runs are called {', '.join(repeated)}: rename one of the folders")
    return systems, list(sweeps.values())


def open_system(folder: Path, name: str | None = None) -> System:
    """The system in a run's folder or in a saved model's folder.

    Raises:
        InputError: the folder holds neither.
    """
    name = name or folder.resolve().name
    if (folder / "results.json").is_file() and (folder / "model").is_dir():
        config, metrics = folder / "config.yaml", folder / "metrics.jsonl"
        settings = read_settings(config) if config.is_file() else {}
        rows = _read_json_lines(metrics) if metrics.is_file() else []
        return System(name, folder / "model", settings, read_run_results(folder / "results.json"), rows)
    if any((folder / file).is_file() for file in ("config.json", "modules.json")):
        return System(name, folder)
    raise InputError(
        f"{folder}: expected a finished run (results.json and model/), a saved model, or a sweep's folder (rows.jsonl)"
    )


def _open_sweeps(folder: Path) -> list[Sweep]:
    """A sweep for each setting that was varied alone, with the base run at its own value of the setting."""
    rows = _read_json_lines(folder / "rows.jsonl")
    if not all(isinstance(row.get("run"), str) and isinstance(row.get("varied"), dict) for row in rows):
        raise InputError(f"{folder / 'rows.jsonl'}: not the rows of a sweep; write them again with trainer.sweep")
    runs = {
        row["run"]: open_system(folder / row["run"], f"{folder.resolve().name}/{row['run']}")
        for row in rows
        if (folder / row["run"] / "model").is_dir()
    }
    base = next((runs.get(row["run"]) for row in rows if not row["varied"]), None)
    sweeps: dict[str, Sweep] = {}
    for row in rows:
        if len(row["varied"]) == 1 and row["run"] in runs:
            ((setting, value),) = row["varied"].items()
            if setting not in sweeps:
                sweeps[setting] = Sweep(setting, [(_value(base, setting), base)] if base else [])
            sweeps[setting].runs.append((value, runs[row["run"]]))
    return list(sweeps.values())


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects in the lines of a file.

    Raises:
        InputError: the file cannot be read, or a line is not a JSON object.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path}, line {number}: expected a JSON object ({error}); delete the line") from error
    return rows


def _value(system: System, setting: str) -> str:
    """The value of a setting, dots between the keys of mappings, in a system's run."""
    value: Any = {**system.settings, "model_config": system.config}  # the config has the defaults too
    for key in setting.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return str(value)


def training_label(tasks: Iterable[str]) -> str:
    """The tasks' labels joined by " + ": those that train a head first; a task that is not registered is last, by name.

    `UNKNOWN` without tasks.
    """
    names = set(tasks)
    registered = sorted((name for name in TASKS if name in names), key=lambda name: TASKS[name].evaluator is None)
    labels = [TASKS[name].label for name in registered]
    return " + ".join([*labels, *sorted(names - TASKS.keys())]) or UNKNOWN


def encoder_label(config: Mapping[str, Any]) -> str:
    """The label of the encoder with this config; its model type if the encoder is not registered, "" without a config.

    A BiLSTM that reads in one direction only is an LSTM.
    """
    name = config.get("model_type", "").removeprefix("convsim_")
    label = ENCODERS[name].config_class.label if name in ENCODERS else name
    return LSTM if label == BILSTM and not config.get("bidirectional", True) else label
