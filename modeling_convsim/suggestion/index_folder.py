"""Replaces the folder of an index as a whole, under a lock."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from data_scripts.files.errors import InputError
from data_scripts.files.folders import CHECKSUMS, staged_folder
from data_scripts.files.json_files import read_object
from data_scripts.files.storage import lock_beside, locked, make_folder, resolve_links

INDEX_FILES = frozenset({"index.json", "replies.parquet", "vectors.npy", "replies.faiss", CHECKSUMS})
INDEX_KEYS = frozenset({"model", "weights_sha256", "side", "replies", "duplicate_cosine", "calibration"})


def check_index_folder(folder: Path) -> None:
    """Raises ValueError if writing an index to a folder would replace something else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not _is_index(folder):
        raise ValueError(
            f"{folder} exists and is not an index (no readable index.json): choose another folder, or delete this one"
        )
    if others := sorted({path.name for path in folder.iterdir()} - INDEX_FILES):
        raise ValueError(f"{folder} holds {others[0]} beside an index: move it away, or choose another folder")


def _is_index(folder: Path) -> bool:
    with suppress(InputError):
        return read_object(folder / "index.json").keys() >= INDEX_KEYS
    return False


@contextmanager
def lock_index(folder: Path) -> Iterator[None]:
    """Holds the lock of an index's folder.

    Raises:
        ValueError: Another process holds the lock, or it cannot be created.
    """
    folder = resolve_links(folder)
    make_folder(folder.parent)
    with locked(folder, lock_beside(folder)):
        yield


@contextmanager
def new_index_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that replaces the index's folder if the block succeeds; its lock is held.

    Raises:
        ValueError: The folder holds something else, another process writes to it, or it cannot be written; the old
            index then stays.
    """
    check_index_folder(folder)
    with staged_folder(folder) as (new, _):
        yield new
        check_index_folder(folder)  # it may have changed meanwhile
