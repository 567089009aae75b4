"""What has to be trained before the report can be written: a YAML file of runs, each a command of ours."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import yaml
from tqdm import tqdm

from data_scripts.errors import InputError
from trainer.command_line import parse_arguments
from trainer.sweep.process_pool import Job, run_jobs, threads_each
from trainer.sweep.study import Run, as_options, check_agreement

PRESETS = Path(__file__).parents[1] / "presets"
KINDS = ("train", "embed", "sweep")
LISTS = ("sources", "vary", "needs")
KEYS = (*KINDS, "options", *LISTS)


@dataclass(frozen=True)
class Plan:
    """The folder of each run of a plan, and the jobs that are left to do."""

    folders: list[Path]
    jobs: list[Job]


def read_plan(path: Path) -> Plan:
    """The plan of a YAML file.

    It has `folder`, where the runs go, and `runs`: NAME -> one of `train: PRESET`, `sweep: PRESET` with `vary` (a list
    of KEY=A,B) and `embed: METHOD` with `sources`; `options` of that command; and `needs`, names of runs that it uses.
    In options, {folder} is `folder`.

    Raises:
        InputError: the file is not like that, or a folder holds a run with other settings.
    """
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
        folder, runs = Path(plan["folder"]), dict(plan["runs"])
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not readable as YAML ({' '.join(str(error).split())})") from error
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: expected `folder` and `runs`, a mapping of names") from None
    folders, jobs = [], []
    for name, entry in runs.items():
        place = f"{path}: {name}"
        kinds = [kind for kind in KINDS if kind in entry] if isinstance(entry, dict) else []
        if len(kinds) != 1 or set(entry) - set(KEYS):
            raise InputError(f"{place}: expected one of {', '.join(KINDS)}, and of {', '.join(KEYS[3:])} what it needs")
        if not isinstance(entry.get("options", {}), dict):
            raise InputError(f"{place}: expected options to be a mapping")
        if wrong := [key for key in LISTS if not isinstance(entry.get(key, []), list)]:
            raise InputError(f"{place}: expected {wrong[0]} to be a list")
        if unknown := set(entry.get("needs", [])) - set(runs):
            raise InputError(f"{place}: needs {', '.join(sorted(unknown))}, which the plan does not have")
        options = {key: _filled(value, folder) for key, value in entry.get("options", {}).items()}
        command = {"train": _train, "embed": _embed, "sweep": _sweep}[kinds[0]](entry, options, folder / name, place)
        folders.append(folder / name)
        if command:
            jobs.append(Job(name, [sys.executable, *command], folder / f"{name}.log", tuple(entry.get("needs", []))))
    try:
        TopologicalSorter({name: entry.get("needs", []) for name, entry in runs.items()}).prepare()
    except CycleError as error:
        raise InputError(f"{path}: these runs need each other: {', '.join(error.args[1][1:])}") from None
    return Plan(folders, jobs)


def _filled(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_filled(item, folder) for item in value]
    return value.replace("{folder}", str(folder)) if isinstance(value, str) else value


def _train(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path, place: str) -> list[str]:
    """The command of a run that is not finished."""
    preset = _preset(entry["train"], place)
    argv = as_options({**options, "output_dir": str(folder)})
    try:
        run = Run(folder.name, {}, argv, parse_arguments([preset, *argv]))
        check_agreement(run)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error
    if run.is_finished:
        return []
    how = {"resume": str(run.can_resume).lower(), "overwrite": str(not run.can_resume).lower()}
    return [str(PRESETS.parent / "run.py"), preset, *argv, *as_options(how)]


def _embed(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path, place: str) -> list[str]:
    """The command for word vectors that are not there."""
    command = ["-m", "trainer.embeddings", entry["embed"], *entry.get("sources", []), "-o", str(folder)]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            command += [f"--{name}"] if item is True else [f"--{name}", str(item)]
    if not (folder / "results.json").is_file():
        return command
    kept = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    now = {"method": entry["embed"], "sources": list(entry.get("sources", [])), **options}
    before = {key: kept.get(key.replace("-", "_"), value) for key, value in now.items()}
    if changed := [f"{key} was {before[key]}, is {value}" for key, value in now.items() if before[key] != value]:
        raise InputError(f"{place}: {folder} was made with other settings ({'; '.join(changed)}): delete it")
    return []


def _sweep(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path, place: str) -> list[str]:
    """The command of a study, which itself goes on where it was stopped."""
    vary = [word for variation in entry.get("vary", []) for word in ("--vary", variation)]
    if not vary:
        raise InputError(f"{place}: a sweep needs vary, a list of KEY=A,B")
    preset = _preset(entry["sweep"], place)
    return ["-m", "trainer.sweep", preset, *vary, "-o", str(folder), *as_options(options)]


def _preset(name: str, place: str) -> str:
    path = PRESETS / f"{name}.yaml"
    if not path.is_file():
        raise InputError(f"{place}: there is no preset {name} in {PRESETS}")
    return str(path)


def carry_out(plan: Plan, at_a_time: int) -> dict[str, str]:
    """Run what is left of a plan; name -> what went wrong. Each run's output is in NAME.log beside its folder."""
    for job in plan.jobs:
        job.log.parent.mkdir(parents=True, exist_ok=True)

    def ended(job: Job, failed: str) -> str:
        tqdm.write(f"{job.name}: {failed or 'done'}")
        return failed

    return run_jobs(plan.jobs, at_a_time, threads_each(at_a_time), ended, "runs")
