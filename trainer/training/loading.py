"""Loading of pretrained models and tokenizers that an option names."""

from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from modeling_convsim.encoding.hub_models import parse_model_id
from trainer.evaluation.checksums import check_folder


def load_pretrained(loader: Any, source: str, option: str) -> Any:
    """Return what a loader opens: a folder, or OWNER/NAME or OWNER/NAME@REVISION. Code in the source is not run.

    Raises:
        InputError: the source cannot be loaded, or a file of it is damaged; the message names the option.
    """
    name, revision = source, None
    if Path(source).is_dir():
        check_folder(Path(source))
    else:
        name, revision = parse_model_id(source)
    try:
        return loader.from_pretrained(name, **({"revision": revision} if revision else {}), trust_remote_code=False)
    # The type of the exception depends on the library that reads a damaged file; tokenizers raises bare Exceptions.
    except Exception as error:
        message = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{option}: {source} cannot be loaded: {message}") from None
