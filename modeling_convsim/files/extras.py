"""Optional packages, each of which belongs to an extra of convsim."""

import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

from modeling_convsim.files.errors import InputError

DISTRIBUTIONS = {"faiss": "faiss-cpu", "phonenumbers": "phonenumberslite", "upath": "universal-pathlib"}
CLONE = Path(__file__).resolve().parents[2]  # if it has a pyproject.toml
NOTES = {"gensim": " (with Python 3.13 or older)"}


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: the module, such as `pyarrow.parquet`.
        extra: the extra of convsim that installs its package.
        purpose: what needs it, for the message.

    Raises:
        InputError: it is not installed; the message names the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(missing_package(error, module, extra, purpose)) from error


def missing_package(error: ImportError, module: str, extra: str, purpose: str) -> str:
    """The message on a package that is not installed, or that cannot be imported."""
    is_missing = isinstance(error, ModuleNotFoundError)
    name = ((is_missing and error.name) or module).partition(".")[0]
    package = DISTRIBUTIONS.get(name, name)
    reason = "" if is_missing else f" ({error})"
    return f"{purpose} needs {package}{reason}: {install_command(extra)}{NOTES.get(name, '')}"


def install_command(extra: str) -> str:
    """The command that installs an extra where convsim is: from its clone, or for the installed package."""
    if (CLONE / "pyproject.toml").is_file():
        return f"pip install -e {shlex.quote(f'{CLONE}[{extra}]')}"
    return f"pip install 'convsim[{extra}]'"
