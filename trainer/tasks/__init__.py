"""The training tasks, one a file, and their registry.

A new task is one new file in this folder with a `Task` decorated by `register_task`; a file outside of the package does
the same and is named by the option `extensions`. Importing this package imports no torch: `--help` needs the options of
every task.
"""

import importlib
import pkgutil

from trainer.tasks.base import TASKS, Task, TaskInputs, register_task
from trainer.tasks.selection import sampling_weights, trained_tasks, validate_tasks

__all__ = ["TASKS", "Task", "TaskInputs", "register_task", "sampling_weights", "trained_tasks", "validate_tasks"]

# What several tasks share; every other module of this folder is a task.
_SHARED = {"base", "contrastive", "encoding", "losses", "options", "selection"}

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in _SHARED:
        importlib.import_module(f"{__name__}.{_module.name}")
