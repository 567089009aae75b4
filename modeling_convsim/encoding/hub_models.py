"""Downloads models from the Hub, and explains why one cannot be downloaded."""

from pathlib import Path

from data_scripts.files.folders import CHECKSUMS
from data_scripts.files.hub import hub_problem

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
    from huggingface_hub import errors, snapshot_download

    try:
        folder = snapshot_download(
            model_id,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
            allow_patterns=list(FILES),
        )
    except errors.HFValidationError as error:
        raise ValueError("no such folder, and no id of the Hub, which is OWNER/NAME or OWNER/NAME@REVISION") from error
    except (errors.HTTPError, OSError, RuntimeError) as error:
        raise ValueError(hub_problem(error, model_id, revision, "model") or str(error)) from error
    return Path(folder)
