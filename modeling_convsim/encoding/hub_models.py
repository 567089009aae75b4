"""Downloads models from the Hub, and explains why one cannot be downloaded."""

from pathlib import Path

from modeling_convsim.encoding.checksums import CHECKSUMS
from modeling_convsim.encoding.hub_client import HubIsBusyError, limit_waiting

FILES = ("*.json", "*.safetensors", "*.py", CHECKSUMS)  # of a model that `Encoder` or sentence-transformers reads


def parse_model_id(name: str) -> tuple[str, str | None]:
    """Splits OWNER/NAME@REVISION into the id and the revision, which is None without an @."""
    model_id, _, revision = name.partition("@")
    return model_id, revision or None


def download_model(
    model_id: str,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
) -> Path:
    """Downloads the files of a model that are not in the cache.

    Args:
        model_id: OWNER/NAME.
        revision: A branch, a tag or a commit; by default the branch main.
        token: A token of the Hub, or False for none; by default the one that `hf auth login` saved.
        cache_dir: The cache's folder; by default that of `huggingface_hub`.
        local_files_only: Use the cache alone.

    Returns:
        The folder of the files.

    Raises:
        ValueError: The model cannot be downloaded; the message says why, and what to do.
    """
    # Imported here, so that --help does not wait for it.
    from huggingface_hub import snapshot_download

    limit_waiting()
    try:
        folder = snapshot_download(
            model_id,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            allow_patterns=list(FILES),
        )
    except Exception as error:
        raise ValueError(_explain(error, revision)) from error
    return Path(folder)


def _explain(error: Exception, revision: str | None) -> str:
    """Says why a model could not be downloaded."""
    from huggingface_hub import errors

    causes: list[BaseException] = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    status = next((one.response.status_code for one in causes if isinstance(one, errors.HfHubHTTPError)), None)
    if isinstance(error, errors.HFValidationError):
        return "no such folder, and no id of the Hub, which is OWNER/NAME or OWNER/NAME@REVISION"
    if any(isinstance(one, errors.GatedRepoError) for one in causes):
        return "access to it is restricted: request it on its page of the Hub, then log in with `hf auth login`"
    if any(isinstance(one, errors.RevisionNotFoundError) for one in causes):
        return f"it has no revision {revision}: expected a branch, a tag or the hash of a commit"
    if any(isinstance(one, errors.RepositoryNotFoundError) for one in causes) or status == 404:
        return (
            "no such folder, and the Hub has no such model that you may read: correct the name, or, for a private "
            "model, log in with `hf auth login` or pass a token"
        )
    if status in (401, 403):
        return f"the Hub refuses access ({status}): log in with `hf auth login`, or pass a token that may read it"
    if busy := next((one for one in causes if isinstance(one, HubIsBusyError)), None):
        return str(busy)
    if status is not None:
        return f"the Hub answered with the error {status}: try again later"
    if any(isinstance(one, errors.OfflineModeIsEnabled) for one in causes):
        return "it is not in the cache, and HF_HUB_OFFLINE forbids to download it: unset it, or give a model's folder"
    if isinstance(error, errors.LocalEntryNotFoundError) and len(causes) == 1:
        return "it is not in the cache: download it first, or allow it (local_files_only=False)"
    if isinstance(causes[-1], OSError) and causes[-1].errno is not None and causes[-1].filename:
        return f"{causes[-1].filename}: {causes[-1].strerror}; the cache needs a folder to which you may write"
    return (
        f"no such folder, and the Hub cannot be reached ({' '.join(str(causes[-1]).split()) or type(error).__name__}): "
        "check the connection, or give a model's folder"
    )
