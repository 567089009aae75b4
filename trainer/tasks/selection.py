"""Which tasks a run trains, and how often each is sampled."""

from collections.abc import Iterable, Mapping, Sized
from dataclasses import fields

from data_scripts.files.command_line import suggest
from data_scripts.files.errors import InputError
from trainer.arguments import Arguments, changed_options, refuse_ineffective
from trainer.tasks.base import TASKS


def trained_tasks(arguments: Arguments) -> list[str]:
    """Return the names of the tasks that some step may sample, in the order of the option `tasks`."""
    return [name for name, weight in arguments.tasks.items() if weight and not TASKS[name].is_disabled(arguments)]


def validate_tasks(arguments: Arguments) -> None:
    """Check the option `tasks`, that every trained task has data, and that every option of a task has an effect.

    Raises:
        InputError: a task is unknown, a sampling weight is not a number of 0 or more, the data of a trained task are
            not given, or an option belongs to a task that is not in `tasks`.
    """
    for name, weight in arguments.tasks.items():
        _validate_weight(name, weight, arguments)
    if not sum(arguments.tasks.values()) > 0:
        raise InputError("tasks gives no task a sampling weight above 0")
    if not trained_tasks(arguments):
        raise InputError("snli_share is 0, but the run trains on snli alone: raise it, or give another task a weight")
    _refuse_options_of_absent_tasks(arguments)
    if not getattr(arguments, "score_teachers", None):
        remedy = "name models in score_teachers"
        refuse_ineffective(arguments, ["score_teacher_share"], "score_teachers: none", remedy)


def _validate_weight(name: str, weight: object, arguments: Arguments) -> None:
    if name not in TASKS:
        raise InputError(f"tasks has '{name}'{suggest(name, TASKS)}; expected one of {', '.join(TASKS)}")
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not weight >= 0:
        raise InputError(f"tasks gives '{name}' the sampling weight {weight!r}; expected a number of 0 or more")
    required = TASKS[name].required_option
    if weight and not getattr(arguments, required):
        raise InputError(f"tasks trains on '{name}', so {required} is needed: name its folder with --{required}")


def _refuse_options_of_absent_tasks(arguments: Arguments) -> None:
    """Refuse options that only tasks outside of `tasks` read.

    A task of weight 0 is in `tasks`: a sweep varies weights and keeps the rest of the preset.
    """
    of_every_run = {field.name for field in fields(Arguments)}
    of_tasks = [field.name for field in fields(arguments) if field.name not in of_every_run]
    for name in changed_options(arguments, of_tasks):
        readers = [task.name for task in TASKS.values() if name in {field.name for field in fields(task.Options)}]
        if not set(readers) & set(arguments.tasks) and not _is_dataset_in_use(name, arguments.tasks):
            one = readers[0] if len(readers) == 1 else f"one of {', '.join(readers)}"
            cause, remedy = f"tasks: {', '.join(arguments.tasks)}", f"give {one} a sampling weight in tasks"
            refuse_ineffective(arguments, [name], cause, remedy)


def _is_dataset_in_use(option: str, tasks: Iterable[str]) -> bool:
    """Return whether an option names a dataset that is used without a task of its own.

    A task may read every dataset, and the evaluation sentences of a dataset are removed from the training data.
    """
    if option not in {kind for task in TASKS.values() for kind in task.datasets}:
        return False
    if any(TASKS[name].reads_all_datasets for name in tasks):
        return True
    from trainer.data.datasets import DATASET_KINDS  # imports datasets, which takes a second

    return bool(DATASET_KINDS[option].evaluation_columns)


def sampling_weights(weights: Mapping[str, float], tasks: Mapping[str, Sized]) -> dict[str, float]:
    """Return the sampling weight of each built task; a task with several datasets divides its weight among them.

    A batch holds examples of one dataset, which are harder to tell apart than those of different ones. Datasets are
    weighted by the square root of their size, so that large datasets do not displace small ones.

    Args:
        weights: name of a task -> its sampling weight.
        tasks: key of a built task, `name` or `name/DATASET` -> the task, whose length is its number of examples.
    """
    divided: dict[str, float] = {}
    for task, weight in weights.items():
        roots = {name: len(rows) ** 0.5 for name, rows in tasks.items() if name.partition("/")[0] == task}
        total = sum(roots.values())
        # A task without examples keeps its weight, so that `BatchPlan` refuses it.
        divided |= {name: weight * root / total if total else weight for name, root in roots.items()}
    return divided
