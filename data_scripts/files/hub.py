"""The Hub: names of datasets and what tells them from paths, errors with a remedy, uploads, and text for cards.

A source is OWNER/NAME, OWNER/NAME:CONFIG for one of its configurations, or OWNER/NAME:PATTERN for some of its files,
such as data/2006/*.parquet; each with @REVISION after it if needed. `huggingface_hub` is imported where it is used.
"""

import difflib
import re
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from data_scripts.files.errors import InputError, one_line, refuse_url
from data_scripts.files.folders import RECORD
from data_scripts.files.storage import CANNOT_WRITE, LOCK
from data_scripts.public_datasets import public_name

CONVERTED = "refs/convert/parquet"  # the branch with the Hub's own Parquet copy, which has a folder per configuration
_REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[\w.-]+")


class HubName(NamedTuple):
    """The parts of a source; `config` and `revision` may be empty."""

    repository: str
    config: str
    revision: str


def parse_hub_name(source: str) -> HubName:
    """The parts of REPOSITORY:CONFIG@REVISION; a repository has no @ and no colon in its name."""
    name, _, revision = source.partition("@")
    repository, _, config = name.partition(":")
    return HubName(repository, config, revision)


def is_path(source: str) -> bool:
    """Whether a source is a path and not a Hub id: it looks like a path, or its first folder exists.

    Raises:
        InputError: it is a URL.
    """
    refuse_url(source)
    is_local = source.startswith(("/", ".", "~")) or Path(source.partition("/")[0]).exists()
    return is_local or public_name(source) is not None


def is_hub_name(source: str, suffixes: Collection[str]) -> bool:
    """Whether an input that is usually a file is a Hub id: OWNER/NAME, without one of the suffixes of such files."""
    repository = parse_hub_name(source).repository
    return bool(_REPOSITORY.fullmatch(repository)) and Path(repository).suffix not in suffixes and not is_path(source)


SLOW_SECONDS = 30.0  # from which on a request must have received this many bytes per second
SLOWEST = 1_000
TOO_SLOW = f"sends fewer than {SLOWEST:,} bytes per second"


def is_slow(started: float, received: int) -> bool:
    """Whether a request that was sent at a time of `time.monotonic` has received fewer bytes than it should have."""
    seconds = time.monotonic() - started
    return seconds > SLOW_SECONDS and received < SLOWEST * seconds


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
        if isinstance(each, OSError) and each.errno in CANNOT_WRITE:
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


_LINE_BREAKS = re.compile(r"[\s\x00-\x1f\x7f\x85\u2028\u2029]+")
_MARKUP = re.compile(r"[\\`*\[\]|~#$!]|(?<![^\W_])_|_(?![^\W_])|^[-+](?=\s|$)")
_LIST_NUMBER = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}


def escape_text(value: Any) -> str:
    """A value as one line of Markdown that is shown as it is: without HTML, links, emphasis or new cells of a table."""
    line = _MARKUP.sub(lambda match: f"\\{match[0]}", _LINE_BREAKS.sub(" ", str(value)).strip())
    line = re.sub(r"[&<>]|(?<=\w)@(?=[\w-]+\.)", lambda match: _ENTITIES[match[0]], _LIST_NUMBER.sub(r"\1\\\2", line))
    return line.replace("://", "&#58;//").replace("www.", "www&#46;")  # no links of bare addresses


def code_span(value: Any) -> str:
    """A value as code in a line of text; its backticks do not end the code."""
    line = _LINE_BREAKS.sub(" ", str(value)).strip()
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"


def check_repository_id(repository_id: str) -> None:
    """Reject an invalid repository id before any work is done.

    Raises:
        InputError: if it is not of the form OWNER/NAME.
    """
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository_id)
    except HFValidationError as error:
        raise InputError(f"invalid repository id '{repository_id}': {error}") from error
    if repository_id.count("/") != 1:
        raise InputError(f"invalid repository id '{repository_id}': expected OWNER/NAME")


def check_license(option: str, value: str) -> None:
    """Reject a value that does not have the form of a license id; only the Hub has the list of ids.

    Args:
        option: the option with the license, for the message.
        value: the license.

    Raises:
        InputError: if it does not have this form.
    """
    if not re.fullmatch(r"[a-z0-9]+([.-][a-z0-9]+)*", value):
        raise InputError(
            f"{option} is '{value}'; expected a license as the Hub spells it, in lowercase, such as apache-2.0, "
            "cc-by-sa-4.0 or other"
        )


def read_licenses(card: Path) -> list[str]:
    """The licenses in the README.md of a dataset; none if it is not a card, or its license is `unknown`."""
    import yaml
    from huggingface_hub import metadata_load

    try:
        stated = (metadata_load(card) or {}).get("license") if card.is_file() else None
    except (OSError, ValueError, yaml.YAMLError):  # a README.md of other origin need not be a card
        return []
    return [str(each) for each in (stated if isinstance(stated, list) else [stated]) if each and each != "unknown"]


def upload(
    folder: Path,
    repository_id: str,
    *,
    failed: str,
    public: bool = False,
    revision: str | None = None,
    repo_type: str = "model",
    **options: Any,
) -> str:
    """Create the repository if it does not exist, and upload a folder to it in one commit; returns the commit's URL.

    Args:
        folder: the folder to upload.
        repository_id: OWNER/NAME.
        failed: the end of the error message, which tells how to upload the folder later.
        public: create a public repository; an existing one stays as it is.
        revision: the branch, created if it does not exist; by default main.
        repo_type: "model", "dataset" or "space".
        options: those of `HfApi.upload_folder`.

    Raises:
        InputError: no token, no connection, or the Hub rejects it; the message says if it may have made the commit.
    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HTTPError

    problem = f"nothing was pushed to {repository_id}: "
    if get_token() is None:
        raise InputError(f"{problem}no Hub token was found; set HF_TOKEN or run `hf auth login`. {failed}")
    options["ignore_patterns"] = [*options.get("ignore_patterns", ()), f"*{RECORD}", f"*{LOCK}"]
    api = HfApi()
    sdk = "gradio" if repo_type == "space" else None
    try:
        api.create_repo(repository_id, repo_type=repo_type, private=not public, exist_ok=True, space_sdk=sdk)
        if revision:
            api.create_branch(repository_id, branch=revision, repo_type=repo_type, exist_ok=True)
        options |= {"repo_type": repo_type, "revision": revision}
        commit = api.upload_folder(folder_path=folder, repo_id=repository_id, **options)
    # ValueError and KeyError: an answer that is not the Hub's, for example one of a proxy.
    except (HTTPError, OSError, ValueError, RuntimeError, KeyError) as error:
        if _may_be_committed(error):
            problem = f"the push to {repository_id} was not confirmed, and may be complete: "
        raise InputError(f"{problem}{_reason(error, repository_id)}. {failed}") from error
    return commit.pr_url or commit.commit_url


def _may_be_committed(error: Exception) -> bool:
    """Whether the Hub received the commit, but it is not known what came of it."""
    response = getattr(error, "response", None)
    try:
        request = error.request if response is None else response.request  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # httpx raises a RuntimeError if it has none
        return False
    return "/commit/" in str(request.url) and (response is None or response.status_code >= 500)


def _reason(error: Exception, repository_id: str) -> str:
    from huggingface_hub import constants
    from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled

    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return "the Hub does not accept the token (401); set HF_TOKEN to a valid one or run `hf auth login`"
    if status == 403:
        return f"the token has no write access (403); use one with write access to {repository_id.partition('/')[0]}"
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    if status in (429, 503):
        return f"the Hub is busy or limits the rate of requests ({status}); try again in a few minutes"
    if status is None and isinstance(error, (HTTPError, ConnectionError)):
        return f"{constants.ENDPOINT} cannot be reached ({one_line(str(error))})"
    return one_line(str(error))
