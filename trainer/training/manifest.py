"""The manifest of a checkpoint: the SHA-256 of its files, which tells a whole checkpoint from a damaged one."""

import hashlib
import json
import os
from pathlib import Path

MANIFEST = "manifest.json"


def write_manifest(folder: Path) -> None:
    """Write the manifest of a folder whose other files are complete; all of them are on the disk afterwards."""
    digests = {file.relative_to(folder).as_posix(): _digest(file, flush=True) for file in _files(folder)}
    with (folder / MANIFEST).open("w", encoding="utf-8") as manifest:
        json.dump({"sha256": digests}, manifest, indent=2)
        manifest.flush()
        os.fsync(manifest.fileno())


def find_damage(folder: Path) -> str | None:
    """Return what is wrong with a folder that `write_manifest` described; None if every file is as it was."""
    try:
        digests = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["sha256"]
        for name, digest in digests.items():
            if not (folder / name).is_file():
                return f"{name} is missing"
            if _digest(folder / name) != digest:
                return f"{name} has changed since it was written"
    except FileNotFoundError:
        return f"{MANIFEST} is missing"
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} is unreadable"
    return None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)


def _digest(path: Path, flush: bool = False) -> str:
    with path.open("rb") as file:
        if flush:
            os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()
