"""The base model and the output folder of the command, checked before anything is read."""

from pathlib import Path

from data_scripts.errors import InputError
from data_scripts.write.files import make_folder
from data_scripts.write.locks import LOCK
from data_scripts.write.records import RECORD, has_record, write_record

BASE = Path(__file__).resolve().parents[2] / "model_cards" / "base"
FEWEST_PAIRS = 50
KIND = "run"


def choose_base(given: str | None) -> str:
    """The base model: the given one, or that of the clone.

    Raises:
        InputError: none is given, and the clone has none.
    """
    if given is not None:
        return given
    if not (BASE / "config.json").is_file():
        raise InputError(f"--base: {BASE} has no model; name a folder or Hub id, such as runs/quickstart/model")
    return str(BASE)


def prepare_folder(folder: Path, overwrite: bool) -> None:
    """Create the output folder, or check that it may be replaced; what it holds stays for now.

    Raises:
        InputError: it is a file, not the folder of a run, or that of a finished run and `overwrite` is not given.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--output {folder}: is a file, expected a folder; name another one")
    is_used = folder.is_dir() and any(path.name != LOCK for path in folder.iterdir())
    if is_used and not has_record(folder, KIND):
        raise InputError(
            f"--output {folder}: exists and is not the folder of a run (no {RECORD} there); name another folder, or "
            "delete this one yourself"
        )
    if is_used and (folder / "results.json").exists() and not overwrite:
        raise InputError(
            f"--output {folder}: holds a finished run; name another folder, or replace it with --overwrite"
        )
    make_folder(folder)
    write_record(folder, KIND)
