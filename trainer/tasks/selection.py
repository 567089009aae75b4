"""Which tasks a run trains, and how often each is sampled."""

from collections.abc import Mapping, Sized

from data_scripts.errors import InputError
from trainer.arguments import Arguments
from trainer.tasks.base import TASKS
from trainer.tasks.options import MatryoshkaOptions


def trained_tasks(arguments: Arguments) -> list[str]:
    """Names of the tasks that some step may sample, in the order of the options `tasks` and `late_tasks`."""
    weights = [*arguments.tasks.items(), *arguments.late_tasks.items()]
    names = dict.fromkeys(name for name, weight in weights if weight)
    return [name for name in names if not TASKS[name].is_disabled(arguments)]


def validate_tasks(arguments: Arguments) -> None:
    """Check the options `tasks` and `late_tasks`, and that the data of every trained task are named.

    Raises:
        InputError: a task is unknown, a sampling weight is none, or a task's data are not named.
    """
    _validate_weights("tasks", arguments)
    if arguments.late_tasks:
        _validate_weights("late_tasks", arguments)
    trained = trained_tasks(arguments)
    if not trained:
        raise InputError("snli_share is 0, but the run trains on snli alone: raise it, or give another task a weight")
    if getattr(arguments, "matryoshka_dims", None):
        supporting = [name for name, task in TASKS.items() if issubclass(task.Options, MatryoshkaOptions)]
        if not set(supporting) & set(trained):
            raise InputError(
                f"matryoshka_dims applies to the tasks {', '.join(supporting)}: give one of them a sampling weight"
            )


def _validate_weights(option: str, arguments: Arguments) -> None:
    weights = getattr(arguments, option)
    for name, weight in weights.items():
        if name not in TASKS:
            raise InputError(f"{option} has '{name}'; expected one of {', '.join(TASKS)}")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
            raise InputError(f"{option} gives '{name}' the sampling weight {weight!r}; expected a number of 0 or more")
        required = TASKS[name].required_option
        if weight and not getattr(arguments, required):
            raise InputError(f"{option} trains on '{name}', so {required} is needed: name its folder with --{required}")
    if not sum(weights.values()) > 0:
        raise InputError(f"{option} gives no task a sampling weight above 0")


def sampling_weights(weights: Mapping[str, float], tasks: Mapping[str, Sized]) -> dict[str, float]:
    """The sampling weight of each built task; that of a task with several datasets is divided among them.

    A batch holds examples of one dataset, which are harder to tell apart than those of different ones. Datasets are
    weighted by the square root of their size, so that the large ones do not drown the small ones.

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
