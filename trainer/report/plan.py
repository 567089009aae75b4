"""The plan of a report: a YAML file of the runs to train before the report is written."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, NoReturn

import yaml
from tqdm import tqdm

from data_scripts.command_line import ArgumentParser, suggest
from data_scripts.errors import InputError
from trainer.command_line import parse_arguments
from trainer.evaluation.run_files import read_settings
from trainer.preset_files import YAML_ERRORS
from trainer.report.word2vec_command import build_parser as build_embeddings_parser
from trainer.sweep.planned_runs import PlannedRun, describe_changes, format_options
from trainer.sweep.process_pool import Job, run_jobs, threads_per_job
from trainer.sweep.variations import expand_variations, parse_variation

PRESETS = Path(__file__).parents[1] / "presets"
KINDS = ("train", "embed", "sweep")
LISTS = ("sources", "vary", "needs")
KEYS = (*KINDS, "options", *LISTS)


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
    folder, entries = _read_entries(path)
    if not_texts := [name for name in entries if not isinstance(name, str)]:
        raise InputError(f"{path}: the run's name {not_texts[0]!r} is not a text; write it in quotes")
    jobs = []
    for name, entry in entries.items():
        where = f"{path}: {name}"
        kind = _check_entry(entry, entries, where)
        options = {key: _insert_folder(value, folder) for key, value in entry.get("options", {}).items()}
        build_command = {"train": _training_command, "embed": _embeddings_command, "sweep": _sweep_command}[kind]
        if command := build_command(entry, options, folder / name, where):
            jobs.append(Job(name, [sys.executable, *command], folder / f"{name}.log", tuple(entry.get("needs", []))))
    _check_order(entries, path)
    return ReportPlan([folder / name for name in entries], jobs)


def _read_entries(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the runs, and name -> entry of each run."""
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, *YAML_ERRORS) as error:
        raise InputError(f"{path}: not readable as YAML ({' '.join(str(error).split())})") from error
    try:
        return Path(plan["folder"]), dict(plan["runs"])
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path}: expected `folder` and `runs`, a mapping of names") from None


def _check_entry(entry: Any, names: Iterable[str], where: str) -> str:
    """Check the form of a run's entry; returns its kind."""
    kinds = [kind for kind in KINDS if kind in entry] if isinstance(entry, dict) else []
    if len(kinds) != 1 or set(entry) - set(KEYS):
        optional = ", ".join(KEYS[len(KINDS) :])
        raise InputError(f"{where}: expected one of {', '.join(KINDS)}, and optionally {optional}")
    if not isinstance(entry.get("options", {}), dict):
        raise InputError(f"{where}: expected options to be a mapping")
    if not_lists := [key for key in LISTS if not isinstance(entry.get(key, []), list)]:
        raise InputError(f"{where}: expected {not_lists[0]} to be a list")
    if not_texts := [key for key in LISTS if not all(isinstance(item, str) for item in entry.get(key, []))]:
        raise InputError(f"{where}: expected {not_texts[0]} to be a list of texts")
    if unknown := set(entry.get("needs", [])) - set(names):
        raise InputError(f"{where}: needs {', '.join(sorted(unknown))}, which the plan does not have")
    return kinds[0]


def _check_order(entries: Mapping[str, Any], path: Path) -> None:
    try:
        TopologicalSorter({name: entry.get("needs", []) for name, entry in entries.items()}).prepare()
    except CycleError as error:
        raise InputError(f"{path}: these runs need each other: {', '.join(error.args[1][1:])}") from None


def _insert_folder(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_insert_folder(item, folder) for item in value]
    return value.replace("{folder}", str(folder)) if isinstance(value, str) else value


def _training_command(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path, where: str) -> list[str]:
    """The command that trains or resumes a run; empty if it is finished."""
    preset = _find_preset(entry["train"], where)
    argv = format_options({**options, "output_dir": str(folder)})
    try:
        run = PlannedRun(folder.name, {}, argv, parse_arguments([preset, *argv]))
        run.check_settings()
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return [] if run.is_finished else [str(PRESETS.parent / "run.py"), preset, *argv, *run.resume_options()]


def _embeddings_command(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path, where: str) -> list[str]:
    """The command that trains word vectors; empty if they are there."""
    sources = list(entry.get("sources", []))
    if (folder / "results.json").is_file():
        settings = read_settings(folder / "config.yaml")
        now = {"method": entry["embed"], "sources": sources, **options}
        before = {key: settings.get(key, value) for key, value in now.items()}
        if changed := describe_changes(before, now):
            raise InputError(f"{where}: {folder} has other settings ({changed}): delete it")
        return []
    command = ["-m", "trainer.embeddings", entry["embed"], *sources, "-o", str(folder)]
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            command += [f"--{name}"] if item is True else [f"--{name}", str(item)]
    _parse(build_embeddings_parser(), command[2:], where)
    return command


def _parse(parser: ArgumentParser, argv: Sequence[str], where: str) -> Any:
    """Parse the command line of a run, so that a mistake shows before any run.

    Raises:
        InputError: an option is wrong.
    """

    def refuse(message: str) -> NoReturn:
        raise InputError(f"{where}: {message}")

    parser.error = refuse  # type: ignore[method-assign]
    return parser.parse_args(argv)


def _sweep_command(entry: Mapping[str, Any], options: Mapping[str, Any], folder: Path, where: str) -> list[str]:
    """The command of a sweep, which itself skips finished runs."""
    variations = entry.get("vary", [])
    if not variations:
        raise InputError(f"{where}: a sweep needs vary, a list of KEY=A,B")
    preset = _find_preset(entry["sweep"], where)
    try:
        for run in expand_variations(preset, format_options(options), map(parse_variation, variations), folder):
            run.check_settings()
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    vary = [word for variation in variations for word in ("--vary", variation)]
    return ["-m", "trainer.sweep", preset, *vary, "-o", str(folder), *format_options(options)]


def _find_preset(name: Any, where: str) -> str:
    presets = {path.stem: path for path in PRESETS.glob("*.yaml")}
    if not isinstance(name, str) or name not in presets:
        hint = suggest(str(name), presets)
        raise InputError(f"{where}: there is no preset {name}{hint}; expected one of {', '.join(sorted(presets))}")
    return str(presets[name])


def run_plan(plan: ReportPlan, at_a_time: int) -> dict[str, str]:
    """Do the jobs of a plan; name -> error message. The output of a run is in NAME.log beside its folder."""
    for job in plan.jobs:
        try:
            job.log.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{job.log.parent}: the plan's folder cannot be created ({error})") from error

    def print_outcome(job: Job, error: str) -> str:
        tqdm.write(f"{job.name}: {error or 'done'}")
        return error

    return run_jobs(plan.jobs, at_a_time, threads_per_job(at_a_time), print_outcome, "runs")
