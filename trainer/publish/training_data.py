"""The training data of a model, for its card: tasks, sources, licenses, numbers of rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from data_scripts.write.hub import read_licenses
from data_scripts.write.markdown import escape_text
from trainer.publish.sources import LOCAL, find_hub_sources, hub_id, hub_sources, public_name, sources_of
from trainer.tasks import TASKS

WORD_VECTOR_TEXTS = "texts"  # a kind of dataset that no task reads


def trained_tasks(settings: Mapping[str, Any]) -> list[str]:
    """The tasks with a sampling weight in the settings, each once."""
    weights = settings.get("tasks", {}).items()
    return list(dict.fromkeys(task for task, weight in weights if weight))


def has_teacher(settings: Mapping[str, Any]) -> bool:
    """Return whether a trained task reproduces what the option `teacher` computes."""
    return any(TASKS[task].required_option == "teacher" for task in trained_tasks(settings) if task in TASKS)


def trained_heads(settings: Mapping[str, Any]) -> set[str]:
    """The evaluators that measure what the trained tasks train, such as `snli`."""
    known = [TASKS[task] for task in trained_tasks(settings) if task in TASKS]
    return {task.evaluator for task in known if task.evaluator}


def task_lines(settings: Mapping[str, Any]) -> list[str]:
    """The card line of each trained task, or its name if the task is unknown here."""
    lines = []
    for task in trained_tasks(settings):
        line = TASKS[task].card_line if task in TASKS else ""
        lines.append(line or escape_text(_words(task)))
    return lines


def training_sources(settings: Mapping[str, Any]) -> list[str]:
    """The sources of the datasets that the trained tasks read."""
    trained = trained_tasks(settings)
    return [
        source
        for kind in dataset_kinds()
        if set(_tasks_of(kind)) & set(trained)
        for source in sources_of(settings, kind)
    ]


def find_licenses(settings: Mapping[str, Any]) -> dict[str, str]:
    """Source of training data, as the settings name it -> its license; sources that state none are absent.

    A folder states its license in its card (`--license` of the `data_scripts` commands), a dataset of the Hub in the
    card that was downloaded with it. No request is sent to the Hub.
    """
    sources = dict.fromkeys(
        source for kind in [*dataset_kinds(), WORD_VECTOR_TEXTS] for source in sources_of(settings, kind)
    )
    on_hub = find_hub_sources(settings)
    licenses = {source: _license(source, source in on_hub) for source in sources}
    return {source: stated for source, stated in licenses.items() if stated}


def data_row(name: str, results: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the card's table of training data.

    Args:
        name: a training dataset in `results["leakage"]`: `KIND` or `KIND/NAME`.
        results: the content of results.json.
        settings: the run's settings.

    Returns:
        "source", "rows", "removed" and "where" as text; "license": one for all sources, or {source: license}.
    """
    kind, _, one = name.partition("/")
    removed = results["leakage"][name]
    sources = [source for source in sources_of(settings, kind) if one in ("", source.rstrip("/").rpartition("/")[2])]
    licenses = find_licenses(settings) | results.get("licenses", {})
    on_hub = hub_sources(results)
    names = {source: public_name(source, on_hub) for source in sources}
    stated: dict[str, str] = {}
    for source, shown in names.items():  # local datasets share a name
        license_id = licenses.get(source, "not stated")
        stated[shown] = (
            f"{stated[shown]} and {license_id}" if license_id != stated.get(shown, license_id) else license_id
        )
    leaks = {other: count for other, count in removed.items() if other != "removed" and count}
    return {
        "source": ", ".join(dict.fromkeys(names.values())) or LOCAL,
        "license": next(iter(stated.values())) if len(set(stated.values())) == 1 else stated,
        "rows": _rows(kind, one, results.get("run", {}).get("rows", {})),
        "removed": f"{removed['removed']:,}",
        "where": ", ".join(f"{other}: {count:,}" for other, count in leaks.items()),
    }


def _rows(kind: str, one: str, rows: Mapping[str, int]) -> str:
    """The number of rows that each task trained on, of a dataset named `kind` or `kind/one`."""
    if kind == WORD_VECTOR_TEXTS:
        return "word vectors only"
    if kind not in dataset_kinds():  # of a task that this command does not know
        return "not recorded"
    keys = {task: f"{task}/{one}" if one else kind for task in _tasks_of(kind)}
    counts = {task: rows[key] for task, key in keys.items() if key in rows}
    return ", ".join(f"{_words(task)} {count:,}" for task, count in counts.items()) or "none"


def dataset_kinds() -> list[str]:
    """The kinds of datasets that tasks read, which are also the options that name their sources."""
    return list(dict.fromkeys(kind for task in TASKS.values() for kind in task.datasets))


def _tasks_of(kind: str) -> list[str]:
    return [name for name, task in TASKS.items() if kind in task.datasets]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _license(source: str, on_hub: bool) -> str:
    card = try_to_load_from_cache(hub_id(source), "README.md", repo_type="dataset") if on_hub else None
    return " and ".join(read_licenses(Path(card) if isinstance(card, str) else Path(source, "README.md")))
