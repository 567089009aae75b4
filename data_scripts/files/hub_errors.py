"""Tells why the Hub did not give a model or a dataset, and what to do."""

import difflib
import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from data_scripts.files.errors import InputError, one_line
from data_scripts.files.hub_names import CONVERTED, parse_hub_name

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
_LOGIN = "log in (`hf auth login`) or set HF_TOKEN"


@contextmanager
def hub_errors(source: str) -> Iterator[None]:
    """Raise an InputError with the cause for each error that `datasets` and huggingface_hub raise in the block."""
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HTTPError

    try:
        yield
    except InputError:
        raise
    except (HTTPError, OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise InputError(f"{source}: {_dataset_problem(source, error)}") from error


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


def hub_problem(error: BaseException, name: str, revision: str | None, kind: str) -> str | None:
    """Why the Hub did not give a repository, and what to do; None for an error of another kind.

    Args:
        error: what huggingface_hub raised, or what was raised because of it.
        name: OWNER/NAME.
        revision: that was asked for, if any.
        kind: model or dataset.
    """
    from huggingface_hub import errors

    causes = list(_chain(error))
    status = next((each.response.status_code for each in causes if isinstance(each, errors.HfHubHTTPError)), None)

    def is_caused_by(*kinds: type[BaseException]) -> bool:
        return any(isinstance(each, kinds) for each in causes)

    if type(error) is errors.LocalEntryNotFoundError and len(causes) == 1:
        return "it is not in the cache; download it first, or allow it (local_files_only=False)"
    if isinstance(error, OSError) and error.errno is not None and error.filename:
        return f"{error.filename}: {error.strerror}; the cache needs a folder to which you may write"
    text = str(error)  # `datasets` raises its own error without the cause
    if is_caused_by(errors.GatedRepoError) or "is a gated dataset" in text:
        page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{name}"
        return f"access is restricted; accept its conditions on {page}, and {_LOGIN}"
    if is_caused_by(errors.RevisionNotFoundError) or text.startswith("Revision '"):
        return f"it has no revision {revision}; expected a branch, a tag or the hash of a commit"
    if is_caused_by(errors.OfflineModeIsEnabled):
        return "it is not in the cache, and the Hub cannot be reached because HF_HUB_OFFLINE is set; unset it"
    if is_caused_by(errors.RepositoryNotFoundError) or status == 404 or "doesn't exist on the Hub" in text:
        hint = f"{_similar_dataset(name)}; check the name, or {_LOGIN}" if kind == "dataset" else f"; {_LOGIN}"
        return f"no such file or folder here, and the Hub has no {kind} {name}, or it is private{hint}"
    if status in (401, 403):
        return f"the Hub refuses access ({status}); {_LOGIN} with a token that may read it"
    if status in (429, 503):
        return f"the Hub is busy or limits the rate of requests ({status}); try again in a few minutes"
    if status is not None:
        return f"the Hub answered with the error {status}; try again later"
    connection = next((each for each in causes if isinstance(each, errors.HTTPError | ConnectionError)), None)
    if connection:
        return (
            f"no such file or folder here, and the Hub cannot be reached ({one_line(str(connection))}); check the "
            "network, and HF_ENDPOINT if it is set"
        )
    return None


def _dataset_problem(source: str, error: Exception) -> str:
    import datasets
    from datasets.data_files import EmptyDatasetError
    from datasets.exceptions import DataFilesNotFoundError

    repository, config, revision = parse_hub_name(source)
    text = str(error)
    if full := disk_error(error):
        return full
    if "scripts are no longer supported" in text:
        return f"it needs a loading script; try the Hub's own Parquet copy: {source}@{CONVERTED}"
    if datasets.config.HF_HUB_OFFLINE:
        return (
            "no such file or folder here, and the Hub cannot be reached because HF_HUB_OFFLINE is set; unset it, or "
            f"load the dataset once with it unset ({text})"
        )
    # If another configuration is in the cache, `datasets` looks there for what the Hub does not have.
    if isinstance(error, DataFilesNotFoundError | EmptyDatasetError) or "Couldn't find cache" in text:
        page = f"https://huggingface.co/datasets/{repository}/tree/{revision or 'main'}"
        return f"it has no data file{config and f' {config}'}; see {page} ({text})"
    if configs := re.search(r"(?:available configs: |Available: )\[(.+?)\]", text):
        names = configs[1].replace("'", "")
        reason = f"it has no configuration {config}" if config else "it has several configurations"
        return f"{reason}; expected {repository}:CONFIG, where CONFIG is one of {names}"
    problem = hub_problem(error, repository, revision, "dataset")
    return problem or f"it cannot be read as a dataset ({error.__cause__ or error})"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _similar_dataset(repository: str) -> str:
    """A hint at a dataset of the same owner with a similar name; empty if there is none."""
    from huggingface_hub import HfApi

    names: list[str] = []
    with suppress(Exception):  # the hint is not worth another error
        names = [each.id for each in HfApi().list_datasets(author=repository.partition("/")[0], limit=500)]
    matches = difflib.get_close_matches(repository, set(names) - {repository}, n=1, cutoff=0.8)
    return f" (did you mean {matches[0]}?)" if matches else ""
