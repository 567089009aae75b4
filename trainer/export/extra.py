"""Imports of the optional packages that exporting needs."""

import importlib
from typing import Any

from data_scripts.errors import InputError


def import_extra(name: str) -> Any:
    """Import a module of the extra `export`.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"exporting needs {name.partition('.')[0]} ({error}): pip install -c constraints.txt -e '.[export]'"
        ) from error
