"""The plan of a report: a YAML file of the runs to train before the report is written."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from data_scripts.files.command_line import suggest
from data_scripts.files.errors import InputError
from data_scripts.files.storage import make_folder
from trainer.command_line import parse_arguments
from trainer.embeddings.__main__ import build_parser as build_embeddings_parser
from trainer.evaluation.results import read_settings
from trainer.preset_files import YAML_ERRORS
from trainer.sweep.plan import PlannedRun, describe_changes, expand_variations, format_options
from trainer.sweep.runs import Job, run_jobs, threads_per_job

PRESETS = Path(__file__).parents[1] / "presets"
# Keys of a run beside its kind, with the type of their values.
KEYS: dict[str, type] = {"options": dict, "sources": list, "vary": list, "needs": list}


@dataclass(frozen=True)
class ReportPlan:
    """The folder of each run, and a job for each run that is not finished."""

    folders: list[Path]
    jobs: list[Job]


def read_plan(path: Path) -> ReportPlan:
    """Read a plan.

    The file has `folder`, where the runs go, and `runs`: NAME -> one of `train: PRESET`, `sweep: PRESET` with `vary`
    (a list of KEY=A,B) and `embed: METHOD` with `sources`; `options` of that command; and `needs`, the names of the
    runs that it uses. In options, {folder} stands for `folder`.

    Raises:
        InputError: the file has another form, or a folder holds a run with other settings.
    """
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, *YAML_ERRORS) as error:
        raise InputError(f"{path}: not readable as YAML ({error})") from error
    if not isinstance(plan, dict) or not plan.get("folder") or not isinstance(plan.get("runs"), dict):
        raise InputError(f"{path}: expected `folder` and `runs`, a mapping of names")
    folder, entries = Path(str(plan["folder"])), {str(name): entry for name, entry in plan["runs"].items()}
    jobs = []
    for name, entry in entries.items():
        try:
            kind = _check_entry(entry, entries)
            options = {key: _insert_folder(value, folder) for key, value in entry.get("options", {}).items()}
            if command := COMMANDS[kind](entry, options, folder / name):
                needs = tuple(entry.get("needs", []))
                jobs.append(Job(name, [sys.executable, *command], folder / f"{name}.log", needs))
        except InputError as error:
            raise InputError(f"{path}: {name}: {error}") from error
    try:
        TopologicalSorter({name: entry.get("needs", []) for name, entry in entries.items()}).prepare()
    except CycleError as error:
        raise InputError(f"{path}: these runs need each other: {', '.join(error.args[1][1:])}") from None
    return ReportPlan([folder / name for name in entries], jobs)


def _check_entry(entry: Any, names: Mapping[str, Any]) -> str:
    """Check the form of a run's entry; returns its kind."""
    kinds = [kind for kind in COMMANDS if kind in entry] if isinstance(entry, dict) else []
    if len(kinds) != 1 or set(entry) - {*COMMANDS, *KEYS}:
        raise InputError(f"expected one of {', '.join(COMMANDS)}, and optionally {', '.join(KEYS)}")
    for key, form in KEYS.items():
        if not isinstance(entry.get(key, form()), form) or not all(isinstance(one, str) for one in entry.get(key, ())):
            raise InputError(f"expected {key} to be a {'mapping' if form is dict else 'list of texts'}")
    if unknown := set(entry.get("needs", [])) - set(names):
        raise InputError(f"needs {', '.join(sorted(unknown))}, which the plan does not have")
    return kinds[0]


def _insert_folder(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_insert_folder(item, folder) for item in value]
    return value.replace("{folder}", str(folder)) if isinstance(value, str) else value


def _training_command(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path) -> list[str]:
    """The command that trains or resumes a run; empty if it is finished."""
    preset = _find_preset(entry["train"])
    argv = format_options({**options, "output_dir": str(folder)})
    run = PlannedRun(folder.name, {}, argv, parse_arguments([preset, *argv]))
    run.check_settings()
    return [] if run.is_finished else run.command(PRESETS.parent / "run.py", preset)


def _embeddings_command(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path) -> list[str]:
    """The command that trains word vectors; empty if they are there."""
    sources = entry.get("sources", [])
    if (folder / "results.json").is_file():
        settings = read_settings(folder / "config.yaml")
        now = {"method": entry["embed"], "sources": sources, **options}
        before = {key: settings.get(key, value) for key, value in now.items()}
        if changed := describe_changes(before, now):
            raise InputError(f"{folder} has other settings ({changed}): delete it")
        return []
    argv = [str(entry["embed"]), *sources, "-o", str(folder)]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            argv += [f"--{name}"] if item is True else [f"--{name}", str(item)]
    build_embeddings_parser().parse_args(argv)  # a mistake shows before any run
    return ["-m", "trainer.embeddings", *argv]


def _sweep_command(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path) -> list[str]:
    """The command of a sweep, which itself skips finished runs."""
    variations = entry.get("vary", [])
    if not variations:
        raise InputError("a sweep needs vary, a list of KEY=A,B")
    preset, argv = _find_preset(entry["sweep"]), format_options(options)
    for run in expand_variations(preset, argv, variations, folder):
        run.check_settings()
    vary = [word for variation in variations for word in ("--vary", variation)]
    return ["-m", "trainer.sweep", preset, *vary, "-o", str(folder), *argv]


# Kind of a run -> its command, from the plan's entry, its options and its folder.
COMMANDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], Path], list[str]]] = {
    "train": _training_command,
    "embed": _embeddings_command,
    "sweep": _sweep_command,
}


def _find_preset(name: Any) -> str:
    presets = {path.stem: path for path in PRESETS.glob("*.yaml")}
    if str(name) not in presets:
        hint = suggest(str(name), presets)
        raise InputError(f"there is no preset {name}{hint}; expected one of {', '.join(sorted(presets))}")
    return str(presets[str(name)])


def run_plan(plan: ReportPlan, at_a_time: int) -> dict[str, str]:
    """Do the jobs of a plan; name -> error message. The output of a run is in NAME.log beside its folder."""
    for job in plan.jobs:
        make_folder(job.log.parent)

    def print_outcome(job: Job, error: str) -> str:
        tqdm.write(f"{job.name}: {error or 'done'}")
        return error

    return run_jobs(plan.jobs, at_a_time, threads_per_job(at_a_time), print_outcome, "runs")
