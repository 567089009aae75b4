"""The training tasks, one file each, and their registry.

To add a task, add a file to this folder with a `Task` decorated with `register_task`. The option `extensions` loads
such files from outside the package.
"""

import importlib
import pkgutil

from trainer.tasks.base import (
    TASKS,
    Task,
    TaskInputs,
    register_task,
    sampling_weights,
    validate_tasks,
)

__all__ = ["TASKS", "Task", "TaskInputs", "register_task", "sampling_weights", "validate_tasks"]

# Modules that several tasks use; every other module of this folder is a task.
_SHARED = {"base", "encoding", "losses"}

for _module in pkgutil.iter_modules(__path__):
    if _module.name not in _SHARED:
        importlib.import_module(f"{__name__}.{_module.name}")
