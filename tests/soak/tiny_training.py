"""A tiny training run for soak scenarios: its datasets, its settings, and the comparison of its files."""

import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from tests.soak.command_server import CommandServer, Ended
from tests.trainer.tiny_datasets import write_datasets

MODULE = "tests.soak.training"
LIBRARIES = (
    "gensim.models",
    "matplotlib.figure",
    "sentence_transformers",
    "trainer.data.skip_gram",
    "trainer.run",
    "trainer.training.train",
)
SECONDS = ("seconds", "total_seconds", "sentences_per_second")  # of the part "run" of results.json
# Files with seconds, or with checksums of those: only their names are compared. So are random states, which no step
# reads, and the optimizers, which a resumed run writes in another order. The weights tell whether they were equal.
WITH_SECONDS = re.compile(r"README\.md|progress\.json|manifest\.json|SHA256SUMS|random_states_.*|optimizer.*")
STEPS, EVALUATED = 12, 4  # number of steps, and between evaluations


class TinyTraining:
    """Runs of one preset on tiny datasets, each in a folder of its own, with its own cache."""

    def __init__(self, server: CommandServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        kinds = write_datasets(folder / "datasets")
        self.settings: dict[str, Any] = {
            "model_type": "dan",
            "model_config": {
                **{"word_embedding_size": 16, "bigram_buckets": 64, "hidden_sizes": [16], "token_dropout": 0.1},
                **{"embedding_size": 16, "response_hidden_sizes": [16], "nli_hidden_size": 16},
            },
            "vocab_size": 100,
            "word_vectors": "skip_gram",
            "pairs": [kinds["pairs"]],
            "snli": kinds["snli"],
            "stsb": kinds["stsb"],
            "tasks": {"response_prediction": 0.7, "snli": 0.3},
            "optimizer": "adamw",
            "learning_rate": 0.01,
            "max_grad_norm": 1.0,
            "mixed_precision": "no",
            "max_steps": STEPS,
            "batch_size": 16,
            "eval_every": EVALUATED,
            "log_every": 3,
            "trackers": ["none"],
            "device": "cpu",
        }
        self._preset = folder / "preset.yaml"
        self._preset.write_text(yaml.safe_dump(self.settings))

    def run(self, name: str, *words: str, processes: int = 1, fault: str = "none", **options: Any) -> tuple[Ended, str]:
        """Run it in the folder `name`; returns how it ended, and its log. `options` are for `CommandServer.run`."""
        # A limit of the sizes of files would apply to the log, too.
        log = None if "file_bytes" in options else self._folder / f"{name}.log"
        if log:
            log.unlink(missing_ok=True)
        folder = self.folder(name)
        argv = [self._preset, "--output_dir", folder, "--cache_dir", folder.parent / f"{name}.cache", *words]
        ended = self._server.run(MODULE, [processes, log or "", fault, *argv], **options)
        if log is None:
            return ended, "\n".join(ended.messages)
        return ended, log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    def continue_run(self, name: str, processes: int = 1) -> tuple[Ended, str]:
        """Resume the run in the folder `name`, or start it again if it has no checkpoint yet."""
        resume = any(self.folder(name).glob("checkpoint-*"))
        return self.run(name, *(["--resume", "true"] if resume else []), processes=processes)

    def check_continued(self, name: str, reference: str, processes: int = 1) -> str:
        """Continue a run; return how it differs from an uninterrupted one, empty if it does not."""
        ended, log = self.continue_run(name, processes)
        if ended.code != 0:
            return f"continued: exit code {ended.code}: {' | '.join(log.splitlines()[-3:])}"
        return self.compare(name, reference)

    def remove(self, name: str) -> None:
        """Delete a run and its cache."""
        for folder in (self.folder(name), self.cache(name)):
            shutil.rmtree(folder, ignore_errors=True)

    def folder(self, name: str) -> Path:
        """The run folder `name`."""
        return self._folder / name

    def cache(self, name: str) -> Path:
        """The cache of the run in the folder `name`."""
        return self._folder / f"{name}.cache"

    def compare(self, name: str, other: str) -> str:
        """Return how the files of two runs differ, seconds aside; empty if they do not."""
        found, expected = (_contents(self.folder(run)) for run in (name, other))
        caches = [{path.name for path in self.cache(run).glob("[!.]*")} for run in (name, other)]
        names = sorted(file for file in found.keys() | expected if found.get(file) != expected.get(file))
        if caches[0] != caches[1]:
            names.append("names in the cache")
        return f"other files than those of an uninterrupted run: {', '.join(names)}" if names else ""


def _contents(run: Path) -> dict[str, Any]:
    files: dict[str, Any] = {}
    for path in run.rglob("*"):
        name = path.relative_to(run).as_posix()
        if path.is_dir():
            continue
        if path.name == "results.json":
            files[name] = json.loads(path.read_text())
            files[name]["run"] = {key: value for key, value in files[name]["run"].items() if key not in SECONDS}
        elif name == "config.yaml":
            files[name] = _settings(path)
        else:
            files[name] = b"" if WITH_SECONDS.fullmatch(path.name) else path.read_bytes()
    return files


def _settings(config: Path) -> dict[str, Any]:
    settings = yaml.safe_load(config.read_text())
    return {key: value for key, value in settings.items() if key not in ("output_dir", "cache_dir")}


def check_end(ended: Ended, log: str, codes: Collection[int], *named: str) -> str:
    """Return what is wrong with how a run left; empty if its exit code is one of `codes` and a message has `named`."""
    errors = re.findall(r"error: .+", log)  # one may follow the progress bar of a killed process
    last = " | ".join(log.splitlines()[-3:])
    if ended.code is None:
        return "it did not end"
    if ended.code not in codes:
        return f"exit code {ended.code}, expected {' or '.join(map(str, codes))}: {last}"
    if "Traceback" in log or not errors:
        return f"a traceback, or no message: {last}"
    missing = [name for name in named if not any(name in error for error in errors)]
    return f"the message does not have {', '.join(missing)}: {errors[0]}" if missing else ""
