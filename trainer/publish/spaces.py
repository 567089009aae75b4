"""Publishes a Space of the Hub: the demo page for a model with an index of replies."""

import json
import shutil
import tempfile
from pathlib import Path

from huggingface_hub import SpaceCard

import data_scripts
import modeling_convsim
from data_scripts.files.errors import InputError
from data_scripts.files.folders import find_damage, replace_files
from data_scripts.files.hub import check_repository_id, upload

PAGE = Path(__file__).resolve().parents[2] / "model_cards" / "space"
PACKAGES = [Path(str(package.__file__)).parent for package in (modeling_convsim, data_scripts)]


def push_page(index: Path, hub_model_id: str, space_id: str, *, private: bool = False) -> str:
    """Push the page of model_cards/space, with an index and the code that reads it, as a self-contained Space.

    Args:
        index: folder of an index that `modeling_convsim.suggestion build` wrote.
        hub_model_id: the index's model on the Hub, ORG/NAME, which the Space loads; it refuses weights other than those
            that built the index.
        space_id: the Space, ORG/NAME; created if it does not exist.
        private: create a private Space.

    Returns:
        The URL of the commit.

    Raises:
        InputError: the folder holds no index, a repository id is invalid, or the upload failed.
    """
    check_repository_id(hub_model_id)
    check_repository_id(space_id)
    if damage := find_damage(index):
        raise InputError(f"--index {index}: {damage}; rebuild the index")
    try:
        settings = json.loads((index / "index.json").read_text(encoding="utf-8")) | {"model": hub_model_id}
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"--index: {index} is not the folder of an index: {error}; "
            "expected what `python -m modeling_convsim.suggestion build` writes"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder, "space")
        ignored = shutil.ignore_patterns("__pycache__", "page.png")
        shutil.copytree(PAGE, space, ignore=ignored)
        for package in PACKAGES:
            shutil.copytree(package, space / package.name, ignore=ignored)
        shutil.copytree(index, space / "replies")
        replace_files(space / "replies", {"index.json": (json.dumps(settings, indent=2) + "\n").encode()})
        card = SpaceCard.load(space / "README.md")
        card.data.models = [hub_model_id]
        card.save(space / "README.md")
        return upload(
            space,
            space_id,
            failed=f"Push it later with: python -m trainer.publish --index {index} --hub_model_id {hub_model_id} "
            f"--space_id {space_id}",
            private=private,
            commit_message=f"Publish the page of {hub_model_id}",
            repo_type="space",
        )
