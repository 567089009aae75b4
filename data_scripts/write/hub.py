"""Uploads a folder to the Hub with clear error messages; checks repository ids and licenses before that."""

import re
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import HfApi, constants, get_token, metadata_load
from huggingface_hub.errors import HFValidationError, HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import validate_repo_id

from data_scripts.errors import InputError


def check_repository_id(repository_id: str) -> None:
    """Reject an invalid repository id before any work is done.

    Raises:
        InputError: if it is not of the form OWNER/NAME.
    """
    try:
        validate_repo_id(repository_id)
    except HFValidationError as error:
        raise InputError(f"'{repository_id}' cannot be a repository's name on the Hub: {error}") from error
    if repository_id.count("/") != 1:
        raise InputError(f"'{repository_id}' cannot be a repository's name on the Hub: expected OWNER/NAME")


def check_license(option: str, value: str) -> None:
    """Reject what cannot be a license id: only the Hub has the list of them, but they all have one form.

    Args:
        option: where the license was given, for the message.
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
    """The licenses that the README.md of a dataset states; none if it is not a card, or says `unknown`."""
    try:
        stated = (metadata_load(card) or {}).get("license") if card.is_file() else None
    except (OSError, ValueError, yaml.YAMLError):  # a README.md from elsewhere need not be a card
        return []
    return [str(each) for each in (stated if isinstance(stated, list) else [stated]) if each and each != "unknown"]


def upload(
    folder: Path, repository_id: str, *, failed: str, private: bool, repo_type: str = "model", **options: Any
) -> str:
    """Create the repository if it does not exist, and upload a folder to it in one commit; returns the commit's URL.

    Args:
        folder: what is uploaded.
        repository_id: OWNER/NAME.
        failed: the end of the error message: how the user can upload it again.
        private: whether a new repository is private.
        repo_type: "model", "dataset" or "space".
        options: those of `HfApi.upload_folder`.

    Raises:
        InputError: no token, no connection, or the Hub rejects it.
    """
    problem = f"nothing was pushed to {repository_id}: "
    if get_token() is None:
        raise InputError(f"{problem}no Hub token was found; set HF_TOKEN or run `hf auth login`. {failed}")
    api = HfApi()
    sdk = "gradio" if repo_type == "space" else None
    try:
        api.create_repo(repository_id, repo_type=repo_type, private=private or None, exist_ok=True, space_sdk=sdk)
        commit = api.upload_folder(folder_path=folder, repo_id=repository_id, repo_type=repo_type, **options)
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{problem}{_reason(error, repository_id)}. {failed}") from error
    return commit.commit_url


def _reason(error: Exception, repository_id: str) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return "the Hub does not know the token (401); set HF_TOKEN to a valid one or run `hf auth login`"
    if status == 403:
        return f"the token may not write there (403); take one with write access to {repository_id.partition('/')[0]}"
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set"
    if status is None and isinstance(error, (HTTPError, ConnectionError)):
        return f"{constants.ENDPOINT} cannot be reached ({error})"
    return " ".join(str(error).split())
