"""Loading of what an option names from a folder or the Hub."""

from typing import Any

from data_scripts.errors import InputError


def load_pretrained(loader: Any, source: str, option: str) -> Any:
    """`loader.from_pretrained(source)`, an error as one that names the option.

    Raises:
        InputError: the source cannot be loaded.
    """
    try:
        return loader.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise InputError(f"{option}: {source} cannot be loaded: {str(error).splitlines()[0]}") from None
