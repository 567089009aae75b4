"""Loading of pretrained models and tokenizers that an option names."""

from typing import Any

from data_scripts.errors import InputError


def load_pretrained(loader: Any, source: str, option: str) -> Any:
    """Return `loader.from_pretrained(source)`; an error names the option. Code in the source is not run.

    Raises:
        InputError: the source cannot be loaded.
    """
    try:
        return loader.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{option}: {source} cannot be loaded: {str(error).splitlines()[0]}") from None
