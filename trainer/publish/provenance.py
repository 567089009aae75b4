"""Where a model comes from, for its card: tasks, sources, licenses, numbers of rows.

Sources on the Hub are named by their ids; names of local folders stay private.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from modeling_convsim.files.hub import escape_text, is_hub_name, parse_hub_name, read_licenses
from modeling_convsim.shipped import MODEL_CARDS
from trainer.data.datasets import source_name
from trainer.runs import CONFIG, Run
from trainer.settings import sources_of, trained_tasks
from trainer.tasks import TASKS

WORD_VECTOR_TEXTS = "texts"  # a kind of dataset that no task reads
LOCAL = "local dataset"
LOCAL_MODEL = "local model"
SHIPPED = "the base that ships with convsim"
HUB_SOURCES = "hub_sources"  # key in results.json

# Settings without information about the model.
NOT_PUBLISHED = {"output_dir", "overwrite", "resume", "cache_dir", "log_every", "trackers", "push_to_hub",
                 "hub_model_id"}  # fmt: skip


# -- sources ----------------------------------------------------------------------------------------------------------


def find_hub_sources(settings: Mapping[str, Any]) -> list[str]:
    """The sources in a run's settings that it loads from the Hub, for results.json.

    It must be called during the run: later, or in another folder, a local folder `OWNER/NAME` may be missing, and its
    name would look like a Hub id.
    """
    named = {**settings, **settings.get("task_options", {})}
    values = [value if isinstance(value, list) else [value] for key, value in named.items() if key not in NOT_PUBLISHED]
    names = dict.fromkeys(name for value in values for name in value if isinstance(name, str))
    return [name for name in names if is_hub_name(name, ())]


def hub_sources(results: Mapping[str, Any]) -> frozenset[str]:
    """The sources that the run of a results.json loaded from the Hub; none if it did not record them."""
    return frozenset(results.get(HUB_SOURCES, ()))


def public_name(source: str, on_hub: Collection[str], local: str = LOCAL) -> str:
    """The Hub id of one of the sources `on_hub`; other sources are local, and their names stay private."""
    return source if source in on_hub else local


def base_name(settings: Mapping[str, Any], on_hub: Collection[str]) -> str | None:
    """The model that a run was initialized from, for readers: a Hub id, the shipped base, or a local model."""
    source = settings.get("initialize_from")
    if not source:
        return None
    shipped = MODEL_CARDS / "base"
    return SHIPPED if Path(source).resolve() == shipped.resolve() else public_name(source, on_hub, LOCAL_MODEL)


def base_models(settings: Mapping[str, Any], on_hub: Collection[str]) -> list[str]:
    """The Hub ids of the initial model and the teachers of a run; for the shipped base, also those of its run."""
    named = [settings.get("initialize_from"), settings.get("word_vectors")]
    named += [settings.get("teacher")] if has_teacher(settings) else []
    found = [source for source in named if source and source in on_hub]
    if base_name(settings, on_hub) == SHIPPED:
        folder = MODEL_CARDS / "base"
        if (folder / CONFIG).is_file():
            found += base_models(Run(folder).settings, hub_sources(Run(folder).results))
    return list(dict.fromkeys(found))


def example_id(run: Path) -> str:
    """The model that a card's examples load if the Hub id of a run's model is unknown: its path in runs/."""
    return f"runs/{re.sub(r'[^A-Za-z0-9_.-]+', '-', run.name).strip('-.') or 'NAME'}/model"


# -- the card's rows --------------------------------------------------------------------------------------------------


def has_teacher(settings: Mapping[str, Any]) -> bool:
    """Return whether a trained task distills the model of the option `teacher`."""
    return any(TASKS[task].required_option == "teacher" for task in trained_tasks(settings) if task in TASKS)


def trained_heads(settings: Mapping[str, Any]) -> set[str]:
    """The evaluators of the heads that a run trains, such as `snli`."""
    known = [TASKS[task] for task in trained_tasks(settings) if task in TASKS]
    return {task.evaluator for task in known if task.evaluator}


def task_lines(settings: Mapping[str, Any]) -> list[str]:
    """The card line of each trained task, or its name if the task is unknown here."""
    lines = []
    for task in trained_tasks(settings):
        line = TASKS[task].card_line if task in TASKS else ""
        lines.append(line or escape_text(task.replace("_", " ")))
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
    """Source of training data, as named in the settings -> its license; sources without one are absent.

    A folder states its license in its card (`--license` of the `data_scripts` commands), a dataset of the Hub in the
    card that was downloaded with it. No request is sent to the Hub.
    """
    sources = dict.fromkeys(
        source for kind in [*dataset_kinds(), WORD_VECTOR_TEXTS] for source in sources_of(settings, kind)
    )
    on_hub = find_hub_sources(settings)
    licenses = {}
    for source in sources:
        name = parse_hub_name(source).repository
        card = try_to_load_from_cache(name, "README.md", repo_type="dataset") if source in on_hub else None
        stated = read_licenses(Path(card) if isinstance(card, str) else Path(source, "README.md"))
        if stated:
            licenses[source] = " and ".join(stated)
    return licenses


def data_rows(results: Mapping[str, Any], settings: Mapping[str, Any]) -> list[dict[str, str]]:
    """The rows of the card's table of training data; datasets of one kind, source and license share a row.

    Args:
        results: the content of results.json; `leakage` names the training datasets, `KIND` or `KIND/NAME`.
        settings: the run's settings.

    Returns:
        For each row "source", "license", "rows" by task and "removed", as text.
    """
    counts = results.get("run", {}).get("rows", {})
    rows: dict[tuple[str, str, str], tuple[Counter[str], int, int]] = {}
    for name, leaks in results.get("leakage", {}).items():
        kind, _, one = name.partition("/")
        key = (kind, *_sources_and_licenses(kind, one, results, settings))
        trained, removed, datasets = rows.get(key, (Counter(), 0, 0))
        keys = {task: f"{task}/{one}" if one else kind for task in _tasks_of(kind)}
        trained.update({task: counts[key] for task, key in keys.items() if key in counts})
        rows[key] = (trained, removed + leaks["removed"], datasets + 1)
    return [
        {
            "source": f"{datasets} {LOCAL}s" if source == LOCAL and datasets > 1 else source,
            "license": stated,
            "rows": _row_counts(kind, trained),
            "removed": f"{removed:,}",
        }
        for (kind, source, stated), (trained, removed, datasets) in rows.items()
    ]


def _sources_and_licenses(
    kind: str, one: str, results: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[str, str]:
    """The public names of a dataset's sources, and their license or licenses."""
    sources = [source for source in sources_of(settings, kind) if one in ("", source_name(source))]
    licenses = find_licenses(settings) | results.get("licenses", {})
    on_hub = hub_sources(results)
    stated: dict[str, list[str]] = {}
    for source in sources:  # local datasets share a name
        stated.setdefault(public_name(source, on_hub), []).append(licenses.get(source, "not stated"))
    texts = {name: " and ".join(dict.fromkeys(ids)) for name, ids in stated.items()}
    different = len(set(texts.values())) > 1
    license_text = ", ".join(f"{name}: {text}" for name, text in texts.items()) if different else ""
    return ", ".join(texts) or LOCAL, license_text or next(iter(texts.values()), "not stated")


def _row_counts(kind: str, trained: Mapping[str, int]) -> str:
    """The number of rows of a kind of dataset that each task trained on."""
    if kind == WORD_VECTOR_TEXTS:
        return "word vectors only"
    if kind not in dataset_kinds():  # of a task that this command does not know
        return "not recorded"
    return ", ".join(f"{task.replace('_', ' ')} {count:,}" for task, count in trained.items()) or "none"


def dataset_kinds() -> list[str]:
    """The kinds of datasets that tasks read, which are also the options that name their sources."""
    return list(dict.fromkeys(kind for task in TASKS.values() for kind in task.datasets))


def _tasks_of(kind: str) -> list[str]:
    return [name for name, task in TASKS.items() if kind in task.datasets]
