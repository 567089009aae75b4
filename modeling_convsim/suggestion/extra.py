"""Imports the optional dependencies of the extra `convsim[suggest]`."""

from importlib import import_module
from typing import Any


def import_extra(module: str, purpose: str) -> Any:
    """Imports a module of the extra `suggest`.

    Raises:
        ValueError: It is not installed; the message names the purpose and the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ValueError(f"{purpose} needs {package}: pip install 'convsim[suggest]'") from error
