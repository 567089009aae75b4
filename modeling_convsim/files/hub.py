"""The Hub: names of datasets and what tells them from paths, errors with a remedy, uploads, and text for cards.

A source is OWNER/NAME, OWNER/NAME:CONFIG for one of its configurations, or OWNER/NAME:PATTERN for some of its files,
such as data/2006/*.parquet; each with @REVISION after it if needed. `huggingface_hub` is imported where it is used.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from modeling_convsim.files.errors import InputError, refuse_url
from modeling_convsim.files.folders import RECORD
from modeling_convsim.files.storage import CANNOT_WRITE, LOCK

HUB_HELP = (
    "a Hub id: OWNER/NAME, OWNER/NAME:CONFIG if it has several configurations, OWNER/NAME:PATTERN for some of its "
    "files (such as data/2006/*.parquet), each optionally followed by @REVISION"
)
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
    """Whether a source is a path and not a Hub id: it looks like one (data/NAME does), or its first folder exists.

    Raises:
        InputError: it is a URL.
    """
    refuse_url(source)
    return source.startswith(("/", ".", "~", "data/")) or Path(source.partition("/")[0]).exists()


def is_hub_name(source: str, suffixes: Collection[str]) -> bool:
    """Whether an input that is usually a file is a Hub id: OWNER/NAME, without one of the suffixes of such files."""
    repository = parse_hub_name(source).repository
    return bool(_REPOSITORY.fullmatch(repository)) and Path(repository).suffix not in suffixes and not is_path(source)


@contextmanager
def hub_errors(source: str) -> Iterator[None]:
    """Raise an InputError with the cause for each error that `datasets` and huggingface_hub raise in the block."""
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HTTPError

    try:
        yield
    except InputError:
        raise
    except (HTTPError, OSError, ValueError, OverflowError, RuntimeError, DatasetsError) as error:
        raise InputError(f"{source}: {dataset_problem(error, parse_hub_name(source))}") from error


def dataset_problem(error: Exception, name: HubName) -> str:
    """Why `datasets` does not give a dataset: what it says, or what to do if it says that in terms of Python."""
    from datasets.exceptions import DatasetGenerationError

    cause = error.__cause__ if isinstance(error, DatasetGenerationError) and error.__cause__ else error
    text = str(cause)
    if isinstance(cause, OSError) and cause.errno in CANNOT_WRITE:
        return f"the cache of `datasets` cannot be written ({text}); set HF_DATASETS_CACHE to another folder"
    if "scripts are no longer supported" in text:
        return f"it needs a loading script; try the Hub's own Parquet copy: {name.repository}@{CONVERTED}"
    if configs := re.search(r"(?:available configs: |Available: )\[(.+?)\]", text):
        names = configs[1].replace("'", "")
        reason = f"it has no configuration {name.config}" if name.config else "it has several configurations"
        return f"{reason}; expected {name.repository}:CONFIG, where CONFIG is one of {names}"
    missing = isinstance(error, FileNotFoundError | ConnectionError)
    return ("no such file or folder here, and: " if missing else "it cannot be read: ") + text


_LINE_BREAKS = re.compile(r"[\s\x00-\x1f\x7f\x85\u2028\u2029]+")
_MARKUP = re.compile(r"[\\`*\[\]|~#$!]|(?<![^\W_])_|_(?![^\W_])|^[-+](?=\s|$)")
_LIST_NUMBER = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}


def escape_text(value: Any) -> str:
    """A value as one line of Markdown that is shown as it is: without HTML, links, emphasis or new cells of a table."""
    line = _MARKUP.sub(lambda match: f"\\{match[0]}", _LINE_BREAKS.sub(" ", str(value)).strip())
    line = re.sub(r"[&<>]|(?<=\w)@(?=[\w-]+\.)", lambda match: _ENTITIES[match[0]], _LIST_NUMBER.sub(r"\1\\\2", line))
    return line.replace("://", "&#58;//").replace("www.", "www&#46;")  # no links of bare addresses


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
            f"{option} is '{value}'; expected a license id of the Hub, in lowercase, such as apache-2.0, "
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
        InputError: no token, no connection, or the Hub rejects it; the message is huggingface_hub's.
    """
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import HTTPError

    if get_token() is None:
        raise InputError(f"no Hub token was found; set HF_TOKEN or run `hf auth login`. {failed}")
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
        raise InputError(f"the push to {repository_id} failed: {error}. {failed}") from error
    return commit.pr_url or commit.commit_url
