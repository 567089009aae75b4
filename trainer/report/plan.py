"""The plan of a report: a YAML file that lists the runs to compare. Unfinished runs are trained."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from data_scripts.presets import PRESETS, YAML_ERRORS
from modeling_convsim.files.command_line import suggest
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import make_folder
from modeling_convsim.modeling_averaging import allowed_threads
from trainer.report import word2vec
from trainer.runs import CONFIG, MAY_CHANGE, Run
from trainer.settings import parse_settings

# What a system is trained on.
CONVERSATIONS, SNLI, NEIGHBORS, WORDS = "conversations", "SNLI", "neighboring sentences", "words"
BOTH = f"{CONVERSATIONS} + {SNLI}"
ROLES = (CONVERSATIONS, BOTH, SNLI, NEIGHBORS, WORDS)
KINDS = ("train", "embed")
POLL_SECONDS = 0.1
# Keys of a run beside its kind, with the type of their values.
KEYS: dict[str, type] = {"label": str, "role": str, "options": dict, "vary": dict, "needs": list}
YAML_NAMES: dict[type, str] = {str: "string", dict: "mapping", list: "list"}


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run of the plan.

    Attributes:
        name: distinct in the plan; the name of its folder.
        label: its name in tables.
        role: one of `ROLES`.
        folder: the run's folder.
        command: arguments for Python that train or resume the run; empty if it is finished.
        needs: names of the runs that it depends on.
        method: the training method of word2vec; "" for other runs.
        varied: the setting that the plan varies and its value in this run; None if there is none.
    """

    name: str
    label: str
    role: str
    folder: Path
    command: list[str]
    needs: tuple[str, ...] = ()
    method: str = ""
    varied: tuple[str, str] | None = None

    @property
    def log(self) -> Path:
        """The file, beside the folder, that the command's output is appended to."""
        return self.folder.with_name(f"{self.folder.name}.log")


def read_plan(path: Path) -> list[PlannedRun]:
    """Read a plan.

    `folder` is the folder for the runs, `runs` maps the name of each run to a mapping: `train: PRESET`, or `embed:
    METHOD` for `trainer.report.word2vec`; `label`, its name in tables; `role`, one of `ROLES`; `options` of the
    command, in which {folder} stands for `folder`; `needs`, the names of the runs that it depends on.
    `vary: {SETTING: [VALUE, …]}`, in place of `label` and `role`, defines a run for each value.

    Raises:
        InputError: the file is not a valid plan, or a folder contains a run with different settings.
    """
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, *YAML_ERRORS) as error:
        raise InputError(f"{path}: not readable as YAML ({error})") from error
    if not isinstance(plan, dict) or not plan.get("folder") or not isinstance(plan.get("runs"), dict):
        raise InputError(f"{path}: expected the keys `folder` and `runs`, which maps names to runs")
    folder, entries = Path(str(plan["folder"])), {str(name): entry for name, entry in plan["runs"].items()}
    runs: list[PlannedRun] = []
    for name, entry in entries.items():
        try:
            _check_entry(entry, entries)
            runs += _runs_of_entry(name, entry, folder)
        except InputError as error:
            raise InputError(f"{path}: {name}: {error}") from error
    try:
        TopologicalSorter({name: entry.get("needs", []) for name, entry in entries.items()}).prepare()
    except CycleError as error:
        raise InputError(f"{path}: these runs need each other: {', '.join(error.args[1][1:])}") from None
    return runs


def _check_entry(entry: Any, entries: Mapping[str, Any]) -> None:
    """Check the form of a run's entry."""
    if not isinstance(entry, dict) or sum(kind in entry for kind in KINDS) != 1 or set(entry) - {*KINDS, *KEYS}:
        raise InputError(f"expected one of {', '.join(KINDS)}, and optionally {', '.join(KEYS)}")
    for key, form in KEYS.items():
        if not isinstance(entry.get(key, form()), form):
            raise InputError(f"expected {key} to be a {YAML_NAMES[form]}")
    if "vary" not in entry and ("label" not in entry or entry.get("role") not in ROLES):
        raise InputError(f"expected a label and a role, one of {', '.join(ROLES)}")
    varied = entry.get("vary", {"": [0]})
    if len(varied) != 1 or not all(isinstance(values, list) and values for values in varied.values()):
        raise InputError("expected vary to map one setting to a list of its values")
    known = {name for name, other in entries.items() if isinstance(other, dict) and "vary" not in other}
    if unknown := set(entry.get("needs", [])) - known:
        raise InputError(f"needs {', '.join(sorted(unknown))}, which is not in the plan")


def _runs_of_entry(name: str, entry: Mapping[str, Any], folder: Path) -> list[PlannedRun]:
    options = {key: _insert_folder(value, folder) for key, value in entry.get("options", {}).items()}
    needs, label, role = tuple(entry.get("needs", [])), entry.get("label", ""), entry.get("role", "")
    if "embed" in entry:
        command = _embeddings_command(entry["embed"], options, folder / name)
        return [PlannedRun(name, label, role, folder / name, command, needs, entry["embed"])]
    presets = {path.stem: str(path) for path in PRESETS.glob("*.yaml")}
    if (preset := presets.get(str(entry["train"]))) is None:
        hint = suggest(str(entry["train"]), presets)
        raise InputError(f"there is no preset {entry['train']}{hint}; expected one of {', '.join(sorted(presets))}")
    if "vary" not in entry:
        return [PlannedRun(name, label, role, folder / name, _training_command(preset, options, folder / name), needs)]
    runs = []
    ((setting, values),) = entry["vary"].items()
    for value in values:
        each = f"{name}/{value}"
        command = _training_command(preset, {**options, setting: value}, folder / each)
        runs.append(
            PlannedRun(each, f"{setting} = {value}", role, folder / each, command, needs, "", (setting, str(value)))
        )
    return runs


def _insert_folder(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_insert_folder(item, folder) for item in value]
    return value.replace("{folder}", str(folder)) if isinstance(value, str) else value


def _training_command(preset: str, options: Mapping[str, Any], folder: Path) -> list[str]:
    """The command that trains a run, or resumes it from its checkpoint; empty if it is finished.

    Raises:
        InputError: the trainer would refuse the options, or the folder contains a run with different settings.
    """
    from trainer.training.model import max_tokens  # imports torch, which takes seconds

    argv = _format_options({**options, "output_dir": str(folder)})
    settings, run = parse_settings([preset, *argv]), Run(folder)
    can_resume = (folder / CONFIG).is_file() and bool(run.checkpoints)
    if can_resume or run.is_finished:
        # If a setting did not exist when the run was trained, it had its default. The folder may have been moved.
        before = {**asdict(type(settings)()), **run.settings}
        now = {key: value for key, value in asdict(settings).items() if key not in (*MAY_CHANGE, "output_dir")}
        if now["max_tokens"] is None:  # a run records what its encoder reads
            now["max_tokens"] = before["max_tokens"] if settings.initialize_from else max_tokens(settings)
        _check_settings(folder, before, now)
    how = {"resume": str(can_resume).lower(), "overwrite": str(not can_resume).lower()}
    return [] if run.is_finished else [str(PRESETS.parent / "run.py"), preset, *argv, *_format_options(how)]


def _embeddings_command(method: str, options: Mapping[str, Any], folder: Path) -> list[str]:
    """The command that trains word vectors; empty if they exist.

    Raises:
        InputError: the command would refuse the options, or the folder contains a run with different settings.
    """
    argv = [str(method), *_format_options({**options, "output_dir": str(folder)})]
    now = word2vec.settings_of(word2vec.build_parser().parse_args(argv))
    if not Run(folder).is_finished:
        return ["-m", word2vec.__name__, *argv]
    _check_settings(folder, Run(folder).settings, now)
    return []


def _check_settings(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    changed = [f"{key} was {before.get(key)}, is {value}" for key, value in now.items() if before.get(key) != value]
    if changed:
        raise InputError(f"{folder} contains a run with different settings ({'; '.join(changed)}); delete the folder")


def _format_options(settings: Mapping[str, Any]) -> list[str]:
    """Settings as options of the command line."""
    options: list[str] = []
    for name, value in settings.items():
        items = value if isinstance(value, list) else [json.dumps(value) if isinstance(value, dict) else value]
        options += [f"--{name}", *map(str, items)]
    return options


def run_plan(runs: Iterable[PlannedRun], at_a_time: int) -> dict[str, str]:
    """Train the unfinished runs in order, after the runs that they need, and print each run that ends.

    The output of a run is in NAME.log, next to its folder. An exception terminates all runs.

    Args:
        runs: the runs; a need that is finished or not among them counts as met.
        at_a_time: number of runs in parallel; they share the threads equally.

    Returns:
        Name -> error message of each run that failed or could not start.
    """
    by_name = {run.name: run for run in runs if run.command}
    order = TopologicalSorter({name: by_name.keys() & job.needs for name, job in by_name.items()})
    order.prepare()
    ready, running, failures = list[str](), dict[PlannedRun, subprocess.Popen](), dict[str, str]()
    bar = tqdm(total=len(by_name), unit=" runs", smoothing=0, disable=not by_name)
    try:
        while order.is_active():
            ready = sorted([*ready, *order.get_ready()], key=list(by_name).index)
            while ready and len(running) < at_a_time:
                job = by_name[ready.pop(0)]
                if failed := [need for need in job.needs if need in failures]:
                    failures[job.name] = f"skipped, because {', '.join(failed)} failed"
                    order.done(job.name)
                    bar.update()
                else:
                    make_folder(job.log.parent)
                    running[job] = _start(job, max(1, allowed_threads() // at_a_time))
            for job in [job for job, process in running.items() if process.poll() is not None]:
                if code := running.pop(job).returncode:
                    failures[job.name] = f"failed (exit code {code}): {last_line(job.log)}"
                tqdm.write(f"{job.name}: {failures.get(job.name, 'done')}")
                order.done(job.name)
                bar.update()
            time.sleep(POLL_SECONDS)
    finally:
        bar.close()
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return failures


def _start(job: PlannedRun, threads: int) -> subprocess.Popen:
    command, environment = [sys.executable, *job.command], {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with job.log.open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
        )


def last_line(log: Path) -> str:
    """The last line that a command printed; "" if it printed nothing."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()  # also at "\r", which progress bars print
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
