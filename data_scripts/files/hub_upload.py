"""Uploads a folder to the Hub with clear error messages; checks repository ids and licenses before that."""

import re
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import HfApi, constants, get_token, metadata_load
from huggingface_hub.errors import HFValidationError, HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import validate_repo_id

from data_scripts.files.errors import InputError, one_line
from data_scripts.files.folders import RECORD
from data_scripts.files.new_files import LOCK


def check_repository_id(repository_id: str) -> None:
    """Reject an invalid repository id before any work is done.

    Raises:
        InputError: if it is not of the form OWNER/NAME.
    """
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
    try:
        stated = (metadata_load(card) or {}).get("license") if card.is_file() else None
    except (OSError, ValueError, yaml.YAMLError):  # a README.md of other origin need not be a card
        return []
    return [str(each) for each in (stated if isinstance(stated, list) else [stated]) if each and each != "unknown"]


def upload(
    folder: Path, repository_id: str, *, failed: str, private: bool, repo_type: str = "model", **options: Any
) -> str:
    """Create the repository if it does not exist, and upload a folder to it in one commit; returns the commit's URL.

    Args:
        folder: the folder to upload.
        repository_id: OWNER/NAME.
        failed: the end of the error message, which tells how to upload the folder later.
        private: whether a new repository is private.
        repo_type: "model", "dataset" or "space".
        options: those of `HfApi.upload_folder`.

    Raises:
        InputError: no token, no connection, or the Hub rejects it; the message says if it may have made the commit.
    """
    problem = f"nothing was pushed to {repository_id}: "
    if get_token() is None:
        raise InputError(f"{problem}no Hub token was found; set HF_TOKEN or run `hf auth login`. {failed}")
    options["ignore_patterns"] = [*options.get("ignore_patterns", ()), f"*{RECORD}", f"*{LOCK}"]
    api = HfApi()
    sdk = "gradio" if repo_type == "space" else None
    try:
        api.create_repo(repository_id, repo_type=repo_type, private=private or None, exist_ok=True, space_sdk=sdk)
        commit = api.upload_folder(folder_path=folder, repo_id=repository_id, repo_type=repo_type, **options)
    # ValueError and KeyError: an answer that is not the Hub's, for example one of a proxy.
    except (HTTPError, OSError, ValueError, RuntimeError, KeyError) as error:
        if _may_be_committed(error):
            problem = f"the push to {repository_id} was not confirmed, and may be complete: "
        raise InputError(f"{problem}{_reason(error, repository_id)}. {failed}") from error
    return commit.commit_url


def _may_be_committed(error: Exception) -> bool:
    """Whether the Hub received the commit, but it is not known what came of it."""
    response = getattr(error, "response", None)
    try:
        request = error.request if response is None else response.request  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # httpx raises a RuntimeError if it has none
        return False
    return "/commit/" in str(request.url) and (response is None or response.status_code >= 500)


def _reason(error: Exception, repository_id: str) -> str:
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
