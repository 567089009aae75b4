"""Uploads to the Hub: a finished run's model folder, with a card of its newest results; a page for it, as a Space."""

import json
import shlex
import shutil
import tempfile
from pathlib import Path

from huggingface_hub import SpaceCard
from transformers import AutoConfig

import data_scripts
import modeling_convsim
from data_scripts.files.errors import InputError
from data_scripts.files.folders import check_files, find_damage, replace_files
from data_scripts.files.hub import check_repository_id, upload
from data_scripts.files.json_files import read_object
from trainer.evaluation.results import read_run_results, read_settings
from trainer.evaluation.sts_tuning import has_route
from trainer.publish.folder import verify_folder
from trainer.publish.model_card import write_card
from trainer.publish.training_data import example_id
from trainer.shipped import MODEL_CARDS

CARD = "README.md"
PAGE = MODEL_CARDS / "space"
PACKAGES = [Path(str(package.__file__)).parent for package in (modeling_convsim, data_scripts)]
RUN_FILES = ("config.yaml", "results.json")  # every finished run has these


def write_run_card(run: Path, hub_model_id: str | None = None) -> Path:
    """Rewrite the card of a finished run from its results.json and config.yaml; returns the model folder.

    Args:
        run: the run's folder, with config.yaml, results.json and model/.
        hub_model_id: what the card's examples load; by default that of config.yaml, or else the run's place in runs/.

    Raises:
        InputError: a file of the run is missing, damaged or unreadable.
    """
    folder = run / "model"
    _check_files(run, *RUN_FILES, "model/config.json")
    check_files(folder)
    results, settings = read_run_results(run / "results.json"), read_settings(run / "config.yaml")
    model_id = hub_model_id or settings.get("hub_model_id") or example_id(run.resolve())
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        write_card(folder, results, settings, config, model_id)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{run}: results.json, config.yaml or model/config.json has another form than the trainer writes "
            f"({type(error).__name__}: {error}); restore them"
        ) from error
    return folder


def _check_files(folder: Path, *names: str) -> None:
    if missing := [name for name in names if not (folder / name).is_file()]:
        raise InputError(f"{folder} is not the folder of a finished run or model: {missing[0]} is missing")


def publish(run: Path, hub_model_id: str, *, private: bool = False, dry_run: bool = False) -> str:
    """Rewrite the card of a finished run, verify its model folder, and upload it in one commit.

    Args:
        run: the run's folder, with config.yaml, results.json and model/; or a whole model repository with its results,
            whose card is not rewritten.
        hub_model_id: repository to publish to, `ORG/NAME`; created if it does not exist.
        private: create a private repository.
        dry_run: do everything except the upload.

    Returns:
        The URL of the commit; with `dry_run`, the folder that would be uploaded.

    Raises:
        InputError: the run is incomplete, its folder fails the verification, or the upload failed.
    """
    check_repository_id(hub_model_id)
    is_repository = (run / "config.json").is_file()  # model_cards/base
    if is_repository:
        _check_files(run, *RUN_FILES, CARD)
    folder = run if is_repository else write_run_card(run, hub_model_id)
    if "stsb_tuned" in read_run_results(run / "results.json") and not has_route(folder):
        raise InputError(
            f"{folder} lacks the matrix of the scores stsb_tuned in {run / 'results.json'}; write it with: python -m "
            f"trainer.evaluation {folder} --tasks stsb_tuned --stsb FOLDER --update {run / 'results.json'}"
        )
    verify_folder(folder)
    if dry_run:
        return str(folder)
    command = shlex.join(["python", "-m", "trainer.publish", str(run), "--hub_model_id", hub_model_id])
    command += " --private" if private else ""
    with tempfile.TemporaryDirectory() as scratch:
        if is_repository:  # only the name in the card's examples changes
            folder = Path(shutil.copytree(folder, Path(scratch, "model")))
            card = (folder / CARD).read_text(encoding="utf-8")
            (folder / CARD).write_text(card.replace(f"model_cards/{run.resolve().name}", hub_model_id), "utf-8")
        return upload(
            folder,
            hub_model_id,
            failed=f"The trained model is in {run if is_repository else folder}; push it later with: {command}",
            private=private,
            commit_message=f"Publish {hub_model_id}",
            delete_patterns=".eval_results/*",
        )


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
        settings = read_object(index / "index.json") | {"model": hub_model_id}
    except InputError as error:
        raise InputError(
            f"--index: {index} is not the folder of an index: {error}; "
            "expected what `python -m modeling_convsim.suggestion build` writes"
        ) from error
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder, "space")
        ignored = shutil.ignore_patterns("__pycache__", "*.png")
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
