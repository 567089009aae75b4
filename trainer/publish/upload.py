"""Uploads to the Hub: a finished run's model folder, with a card of its newest results; a page for it, as a Space.

Models trained on conversations may reveal private texts, so new repositories are private by default.
"""

import json
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from huggingface_hub import ModelCard, SpaceCard, constants
from transformers import AutoConfig

import modeling_convsim
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import RECORD
from modeling_convsim.files.hub import check_repository_id, upload
from modeling_convsim.files.storage import LOCK, write_text
from modeling_convsim.shipped import MODEL_CARDS
from modeling_convsim.suggestion.ratings import RATINGS, REVIEW, find_index, fit_ratings, read_ratings
from modeling_convsim.suggestion.storage import FORMAT, read_index_file
from trainer.publish.folder import verify_folder
from trainer.publish.model_card import render_card
from trainer.publish.provenance import example_id
from trainer.runs import CARD, CONFIG, RESULTS, Run

PAGE = MODEL_CARDS / "space"
PACKAGE = Path(str(modeling_convsim.__file__)).parent


def write_run_card(run: Path, hub_model_id: str | None = None) -> Path:
    """Rewrite the card of a finished run from its results.json and config.yaml; returns the model folder.

    Args:
        run: the run's folder, with config.yaml, results.json and model/.
        hub_model_id: what the card's examples load; by default that of config.yaml, or else the run's path in runs/.

    Raises:
        InputError: a file of the run is missing, damaged or unreadable.
    """
    finished, folder = Run(run), run / "model"
    finished.check_finished()
    results, settings = finished.results, finished.settings
    model_id = hub_model_id or settings.get("hub_model_id") or example_id(run.resolve())
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        write_text(folder / CARD, str(render_card(folder, results, settings, config, model_id)))
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise InputError(
            f"{run}: results.json, config.yaml or model/config.json is not in the format that the trainer writes "
            f"({type(error).__name__}: {error}); restore them"
        ) from error
    return folder


@dataclass(frozen=True)
class Destination:
    """Where and how something is published; arguments of `modeling_convsim.files.hub.upload`.

    Attributes:
        repository_id: OWNER/NAME; created if it does not exist.
        public: create a public repository, not a private one; the visibility of an existing one stays.
        revision: the branch, created if it does not exist; by default main.
        create_pr: open a pull request instead of committing to the branch.
    """

    repository_id: str
    public: bool = False
    revision: str | None = None
    create_pr: bool = False

    def words(self) -> list[str]:
        """The same settings as command-line options, without the repository."""
        words = ["--public"] * self.public + ["--create_pr"] * self.create_pr
        return words + (["--revision", self.revision] if self.revision else [])

    def describe(self, folder: Path, kind: str = "") -> str:
        """Describe what an upload of a folder would publish: address, visibility, license, files and their sizes."""
        files = {
            path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()
        }
        files = {name: files[name] for name in sorted(files) if not name.endswith((RECORD, LOCK))}
        visibility = "public" if self.public else "private"
        branch = self.revision or "main"
        return "\n".join([
            f"address     {constants.ENDPOINT}/{kind}{self.repository_id}",
            f"branch      {f'a pull request to {branch}' if self.create_pr else branch}",
            f"visibility  {visibility}, if the repository is new",
            f"license     {ModelCard.load(folder / CARD).data.get('license') or 'none'}",
            f"files       {len(files)}, {sum(files.values()):,} bytes",
            *(f"{size:>14,}  {name}" for name, size in files.items()),
        ])  # fmt: skip


def publish(run: Path, destination: Destination, *, dry_run: bool = False) -> str:
    """Rewrite the card of a finished run, verify its model folder, and upload it in one commit.

    Args:
        run: the run's folder, with config.yaml, results.json and model/; or a whole model repository with its results,
            whose card is not rewritten.
        destination: the model's repository.
        dry_run: do everything except the upload.

    Returns:
        The URL of the commit or pull request; with `dry_run`, what would be published.

    Raises:
        InputError: the run is incomplete, its folder fails the verification, or the upload failed.
    """
    check_repository_id(destination.repository_id)
    is_repository = (run / "config.json").is_file()  # model_cards/base
    if is_repository:
        for name in (CONFIG, RESULTS, CARD):
            if not (run / name).is_file():
                raise InputError(f"{run} is not the folder of a finished run or model: {name} is missing")
    folder = run if is_repository else write_run_card(run, destination.repository_id)
    verify_folder(folder)
    words = ["convsim", "publish", str(run), "--hub_model_id", destination.repository_id, *destination.words()]
    failed = f"The trained model is in {folder}; push it later with: {shlex.join(words)}"
    with tempfile.TemporaryDirectory() as scratch:
        if is_repository:  # only the name in the card's examples changes
            folder = Path(shutil.copytree(folder, Path(scratch, "model")))
            card = (folder / CARD).read_text(encoding="utf-8")
            (folder / CARD).write_text(
                card.replace(f"model_cards/{run.resolve().name}", destination.repository_id), "utf-8"
            )
        if dry_run:
            return destination.describe(folder)
        message = f"Publish {destination.repository_id}"
        return upload(folder, **vars(destination), failed=failed, commit_message=message)


def publish_page(index: Path, hub_model_id: str, destination: Destination, *, dry_run: bool = False) -> str:
    """Publish the page of model_cards/space, with an index and the code that reads it, as a self-contained Space.

    Args:
        index: folder of an index, or of the run of `convsim adapt` that holds it; its ratings and its review are
            not published, because they contain messages that are not in the index.
        hub_model_id: the index's model on the Hub, ORG/NAME, which the Space loads; it refuses weights other than those
            that built the index.
        destination: the Space.
        dry_run: do everything except the upload.

    Returns:
        The URL of the commit or pull request; with `dry_run`, what would be published.

    Raises:
        InputError: the folder holds no index, a repository id is invalid, or the upload failed.
    """
    check_repository_id(hub_model_id)
    check_repository_id(destination.repository_id)
    words = ["convsim", "publish", "--index", str(index), "--hub_model_id", hub_model_id]
    words += ["--space_id", destination.repository_id, *destination.words()]
    with _space(index, hub_model_id) as space:
        if dry_run:
            return destination.describe(space, "spaces/")
        message = f"Publish the page of {hub_model_id}"
        failed = f"Push it later with: {shlex.join(words)}"
        return upload(space, **vars(destination), failed=failed, commit_message=message, repo_type="space")


@contextmanager
def _space(index: Path, hub_model_id: str) -> Iterator[Path]:
    """The files of a page's Space, in a temporary folder."""
    index = find_index(index)
    try:
        file = replace(read_index_file(index), model=hub_model_id)
        if (index / RATINGS).is_file() and (curve := fit_ratings(read_ratings(index / RATINGS))):
            file = replace(file, settings=replace(file.settings, curve=curve))
    except ValueError as error:
        raise InputError(f"--index: {error}; expected what `convsim adapt` or `convsim index` writes") from error
    with tempfile.TemporaryDirectory() as folder:
        space = Path(folder, "space")
        ignored = shutil.ignore_patterns("__pycache__", "*.png", MODEL_CARDS.name)
        shutil.copytree(PAGE, space, ignore=ignored)
        shutil.copytree(PACKAGE, space / PACKAGE.name, ignore=ignored)
        shutil.copytree(index, space / "replies", ignore=shutil.ignore_patterns(RATINGS, REVIEW, f"*{LOCK}"))
        write_text(space / "replies" / "index.json", json.dumps({"format": FORMAT, **asdict(file)}, indent=2) + "\n")
        card = SpaceCard.load(space / CARD)
        card.data.models = [hub_model_id]
        card.save(space / CARD)
        yield space
