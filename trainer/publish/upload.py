"""Uploads a finished run's model folder to the Hub, with a card of its newest results."""

import shlex
import shutil
import tempfile
from pathlib import Path

from transformers import AutoConfig

from data_scripts.errors import InputError
from data_scripts.write.hub import check_repository_id, upload
from trainer.evaluation.checksums import check_folder
from trainer.evaluation.run_files import read_run_results, read_settings
from trainer.evaluation.sts_matrix import has_route
from trainer.publish.model_card import write_card
from trainer.publish.sources import example_id
from trainer.publish.verify import verify_folder

CARD = "README.md"
RUN_FILES = ("config.yaml", "results.json")  # every finished run has these


def is_repository(folder: Path) -> bool:
    """Whether a folder is not that of a run, but a whole model repository with its results: model_cards/base."""
    return (folder / "config.json").is_file()


def model_folder(run: Path) -> Path:
    """Return the folder of a run's model: `model` in it, or `run` itself if it is a whole model repository."""
    return run if is_repository(run) else run / "model"


def write_run_card(run: Path, hub_model_id: str | None = None) -> Path:
    """Rewrite the card of a finished run from its results.json and config.yaml; returns the model folder.

    Args:
        run: the run's folder, with config.yaml, results.json and model/.
        hub_model_id: what the card's examples load; by default that of config.yaml, or else ORG/ and the run's name.

    Raises:
        InputError: a file of the run is missing, damaged or unreadable.
    """
    folder = run / "model"
    for path in (*(run / name for name in RUN_FILES), folder / "config.json"):
        if not path.is_file():
            raise InputError(f"{run} is not the folder of a finished run: {path.relative_to(run)} is missing")
    check_folder(folder)
    results, settings = read_run_results(run / "results.json"), read_settings(run / "config.yaml")
    model_id = hub_model_id or settings.get("hub_model_id") or example_id(run.resolve())
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = " ".join(str(error).split())
        raise InputError(f"{folder / 'config.json'}: not the config of a model ({message})") from error
    try:
        write_card(folder, results, settings, config, model_id)
    except OSError as error:
        raise InputError(f"{folder}: the card cannot be written ({error})") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{run}: results.json or config.yaml has another form than the trainer writes "
            f"({type(error).__name__}: {' '.join(str(error).split())}); restore them"
        ) from error
    return folder


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
    if is_repository(run):
        return _publish_repository(run, hub_model_id, private, dry_run)
    folder = write_run_card(run, hub_model_id)
    _check_matrix(run)
    verify_folder(folder)
    if dry_run:
        return str(folder)
    return _upload(run, folder, hub_model_id, private)


def _publish_repository(folder: Path, hub_model_id: str, private: bool, dry_run: bool) -> str:
    """Publish a whole model repository with its card, in which only the name in the examples changes."""
    for name in (*RUN_FILES, CARD):
        if not (folder / name).is_file():
            raise InputError(f"{folder} is not a whole model repository: {name} is missing")
    check_folder(folder)
    _check_matrix(folder)
    verify_folder(folder)
    if dry_run:
        return str(folder)
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(folder, Path(scratch, "model")))
        card = (copy / CARD).read_text(encoding="utf-8")
        (copy / CARD).write_text(card.replace(f'"{example_id(folder.resolve())}"', f'"{hub_model_id}"'), "utf-8")
        return _upload(folder, copy, hub_model_id, private)


def _upload(run: Path, folder: Path, hub_model_id: str, private: bool) -> str:
    command = shlex.join(["python", "-m", "trainer.publish", str(run), "--hub_model_id", hub_model_id])
    command += " --private" if private else ""
    return upload(
        folder,
        hub_model_id,
        failed=f"The trained model is in {model_folder(run)}; push it later with: {command}",
        private=private,
        commit_message=f"Publish {hub_model_id}",
        delete_patterns=".eval_results/*",
    )


def _check_matrix(run: Path) -> None:
    """Check that a run with tuned scores has the matrix that gives them.

    Raises:
        InputError: it has none.
    """
    results, folder = run / "results.json", model_folder(run)
    if "stsb_tuned" in read_run_results(results) and not has_route(folder):
        raise InputError(
            f"{folder} lacks the matrix of the scores stsb_tuned in {results}; write it with: python -m "
            f"trainer.evaluation {folder} --tasks stsb_tuned --stsb FOLDER --update {results}"
        )
