"""Loading of pretrained models and tokenizers that an option names."""

from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from trainer.evaluation.checksums import check_folder


def load_pretrained(loader: Any, source: str, option: str) -> Any:
    """Return `loader.from_pretrained(source)`; an error names the option. Code in the source is not run.

    Raises:
        InputError: the source cannot be loaded, or a file of it is damaged.
    """
    if Path(source).is_dir():
        check_folder(Path(source))
    try:
        return loader.from_pretrained(source, trust_remote_code=False)
    # The type of the exception depends on the library that reads a damaged file; tokenizers raises bare Exceptions.
    except Exception as error:
        message = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{option}: {source} cannot be loaded: {message}") from None
