"""Tells why a dataset on the Hub cannot be read, and what to do."""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from data_scripts.errors import InputError
from data_scripts.read.hub_client import HubIsBusyError
from data_scripts.read.hub_names import CONVERTED, parse_hub_name

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
_LOGIN = "log in (`hf auth login`) or set HF_TOKEN"


@contextmanager
def hub_errors(source: str) -> Iterator[None]:
    """Raise an InputError with the cause for each error that `datasets` and huggingface_hub raise in the block."""
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HTTPError

    try:
        yield
    except (HTTPError, OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise InputError(f"{source}: {_explain(source, error)}") from error


def disk_error(error: BaseException) -> str | None:
    """What to do if an error is about a disk to which the cache of `datasets` cannot be written; None if it is not."""
    import datasets

    for each in _chain(error):
        if isinstance(each, OSError) and each.errno in _CANNOT_WRITE:
            return (
                f"{datasets.config.HF_DATASETS_CACHE}: cannot be written ({each.strerror}); free some disk space, or "
                "set HF_DATASETS_CACHE to another folder"
            )
    return None


def _explain(source: str, error: Exception) -> str:
    import datasets
    from datasets.data_files import EmptyDatasetError
    from datasets.exceptions import DataFilesNotFoundError, DatasetNotFoundError

    repository, config, revision = parse_hub_name(source)
    page, text, causes = f"https://huggingface.co/datasets/{repository}", str(error), list(_chain(error))
    if busy := next((each for each in causes if isinstance(each, HubIsBusyError)), None):
        return str(busy)
    if full := disk_error(error):
        return full
    if "scripts are no longer supported" in text:
        return f"it needs a loading script; try the Hub's own Parquet copy: {source}@{CONVERTED}"
    if datasets.config.HF_HUB_OFFLINE:
        return (
            "no such file or folder here, and the Hub cannot be reached because HF_HUB_OFFLINE is set; unset it, or "
            f"load the dataset once with it unset ({text})"
        )
    if "is a gated dataset" in text:
        if "must be authenticated" in text:
            return f"access is restricted; accept its conditions on {page}, and {_LOGIN}"
        return f"this account has no access; ask for it on {page}"
    if isinstance(error, DatasetNotFoundError) and text.startswith("Revision"):
        return f"it has no revision {revision}; expected a branch, a tag or a commit of {page}/commits/main"
    if isinstance(error, DatasetNotFoundError):
        return (
            f"no such file or folder here, and the Hub has no dataset {repository}, or it is private"
            f"{_similar_name(repository)}; check the name, or {_LOGIN}"
        )
    # If another configuration is in the cache, `datasets` looks there for what the Hub does not have.
    if isinstance(error, DataFilesNotFoundError | EmptyDatasetError) or "Couldn't find cache" in text:
        return f"it has no data file{config and f' {config}'}; see {page}/tree/{revision or 'main'} ({text})"
    if configs := re.search(r"(?:available configs: |Available: )\[(.+?)\]", text):
        names = configs[1].replace("'", "")
        reason = f"it has no configuration {config}" if config else "it has several configurations"
        return f"{reason}; expected {repository}:CONFIG, where CONFIG is one of {names}"
    if cause := next((each for each in causes if "Connect" in type(each).__name__), None):  # httpx has its own class
        return (
            f"no such file or folder here, and the Hub cannot be reached ({cause}); check the network, and HF_ENDPOINT "
            "if it is set"
        )
    return f"it cannot be read as a dataset ({error.__cause__ or error})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _similar_name(repository: str) -> str:
    """A hint at a dataset of the same owner with a similar name; empty if there is none."""
    from huggingface_hub import HfApi

    owner, _, _ = repository.rpartition("/")
    names: list[str] = []
    if owner:
        with suppress(Exception):  # the hint is not worth another error
            names = [each.id for each in HfApi().list_datasets(author=owner, limit=500) if each.id != repository]
    matches = difflib.get_close_matches(repository, names, n=1, cutoff=0.8)
    return f" (did you mean {matches[0]}?)" if matches else ""
