"""Records in a folder that this project has written it, without which nothing there is ever deleted."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RECORD = ".written-by-convsim"


def write_record(folder: Path, kind: str, files: Iterable[str] = ()) -> None:
    """Record what was written: `kind`, such as "run", and the files, relative to the folder."""
    text = json.dumps({"kind": kind, "files": sorted(files)}, indent=1)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def has_record(folder: Path, kind: str) -> bool:
    """Whether the folder was recorded as one of this kind."""
    return _read(folder).get("kind") == kind


def list_files(folder: Path) -> list[str]:
    """All files below a folder (and what is neither a file nor a folder), relative to it, without its record."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in paths if (name := path.relative_to(folder).as_posix()) != RECORD)


def recorded_files(folder: Path) -> list[str]:
    """The files that the record of a folder names, relative to it."""
    return list(_read(folder).get("files", []))


def unrecorded_files(folder: Path) -> list[str]:
    """The files of a folder, relative to it, that its record does not name."""
    recorded = set(recorded_files(folder))
    return [name for name in list_files(folder) if name not in recorded]


def _read(folder: Path) -> dict[str, Any]:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
