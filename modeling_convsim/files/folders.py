"""Writes the output folder of a command, which appears only when it is complete.

A record in the folder says that this project has written it, and which files; without it, nothing is ever deleted.
"""

import json
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.json_files import read_object
from modeling_convsim.files.storage import (
    TEMPORARY,
    cannot_write,
    is_url,
    locked,
    make_folder,
    report_write_errors,
    resolve_links,
    temporary_path,
)

RECORD = ".written-by-convsim"
TEMPORARY_KIND = "temporary folder"
UNFINISHED = "unfinished output"  # of a run that was interrupted while it wrote to a URL
_PART = re.compile(r"(train|validation|test)-[\w-]+\.parquet|report\.json|README\.md")  # of an unfinished output


@contextmanager
def new_folder(output: Path, overwrite: bool, kind: str = "dataset") -> Iterator[tuple[Path, Path]]:
    """Yield an empty folder that becomes `output` if the block succeeds, and a folder for temporary files.

    Both are inside a temporary folder beside the output. What killed runs left of theirs is removed first. The output
    is locked until the end. If the output is a URL, the block writes there, and the record says what is complete.

    Args:
        output: the folder.
        overwrite: replace an earlier output of the same kind, in which all files are recorded as written by a command.
        kind: what the folder holds; part of its record.

    Raises:
        InputError: `output` exists and `overwrite` is not given, or it is not what a command wrote, or another process
            writes it, or it cannot be written.
    """
    output = resolve_links(output)
    check_replaceable(output, overwrite, kind)
    with _written_in_place(output) if is_url(output) else staged_folder(output) as (folder, scratch):
        yield folder, scratch
        write_record(folder, kind, list_files(folder))
        if not is_url(output):
            check_replaceable(output, overwrite, kind)  # it may have changed since the command was started


@contextmanager
def staged_folder(output: Path) -> Iterator[tuple[Path, Path]]:
    """`new_folder` without a check of what the output holds and without a record: the caller knows that it is ours."""
    output = resolve_links(output)
    make_folder(output.parent)
    with locked(output):
        for left in output.parent.iterdir():
            match = TEMPORARY.fullmatch(left.name)
            if match and match[1] == output.name and left.is_dir() and _is_ours(left):
                _remove(left, output)
        partial = temporary_path(output)
        folder, scratch = partial / "new", partial / "scratch"
        try:
            with report_write_errors(output, partial):
                partial.mkdir()
                write_record(partial, TEMPORARY_KIND)
                folder.mkdir()
                scratch.mkdir()
                yield folder, scratch
            try:
                replace_folder(folder, output, partial / "replaced")
            except OSError as error:
                raise cannot_write(output, error) from error
        finally:
            _remove(partial, output)


def replace_folder(new: Path, output: Path, replaced: Path) -> None:
    """Rename `new` to `output`, and an old folder there to `replaced`. An error leaves both as they were.

    A process that is killed between the two renames leaves no `output`, but `replaced`.

    Raises:
        OSError: the folders cannot be renamed.
    """
    if output.exists():
        output.rename(replaced)
    try:
        new.rename(output)
    except BaseException:
        if replaced.exists():
            replaced.rename(output)
        raise


def _is_ours(folder: Path) -> bool:
    """Whether a temporary folder has our record, or was left by a kill before the record was complete."""
    return has_record(folder, TEMPORARY_KIND) or not {path.name for path in folder.iterdir()} - {RECORD}


def _remove(partial: Path, output: Path) -> None:
    """Remove a temporary folder, but not the old output, if the process was killed between two renames."""
    if (partial / "replaced").exists() and not output.exists():
        (partial / "replaced").rename(output)
    for name in ("new", "scratch", "replaced"):  # the record last, so that what a kill leaves can still be removed
        shutil.rmtree(partial / name, ignore_errors=True)
    shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _written_in_place(output: Path) -> Iterator[tuple[Path, Path]]:
    """Empty an output on storage that cannot rename folders, with a record that it is unfinished, and yield it.

    The temporary folder is on this machine. What an interrupted run leaves is recognized by this record.
    """
    old = [name for name in list_files(output) if name in recorded_files(output) or _PART.fullmatch(name)]
    make_folder(output)
    write_record(output, UNFINISHED, old)
    for name in old:
        (output / name).unlink(missing_ok=True)
    with TemporaryDirectory(prefix="convsim-") as scratch, report_write_errors(output, output):
        yield output, Path(scratch)


def check_replaceable(output: Path, overwrite: bool, kind: str = "dataset") -> None:
    """Check that an output may be written.

    Raises:
        InputError: it exists, and `overwrite` is not given, or it is not what a command wrote, or more than that.
    """
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not output.is_dir():
        raise InputError(f"--output {output}: is a file, expected a folder; name another one")
    others = sorted(set(list_files(output)) - set(recorded_files(output)))
    others = [name for name in others if not TEMPORARY.fullmatch(Path(name).name)]
    if is_url(output) and has_record(output, UNFINISHED) and all(map(_PART.fullmatch, others)):
        return
    if not has_record(output, kind):
        raise InputError(
            f"--output {output}: exists and is not a {kind} that a command wrote (no {RECORD} there); name another "
            "folder, or delete this one yourself"
        )
    if not overwrite:
        raise InputError(f"--output {output}: exists already; name another folder, or replace it with --overwrite")
    if others:
        raise InputError(
            f"--output {output}: contains {others[0]}, which the command did not write; move it away, or name "
            "another folder"
        )


def write_record(folder: Path, kind: str, files: Iterable[str] = ()) -> None:
    """Record what was written: `kind`, such as "run", and the files, relative to the folder."""
    text = json.dumps({"kind": kind, "files": sorted(files)}, indent=1)
    (folder / RECORD).write_text(text + "\n", encoding="utf-8")


def has_record(folder: Path, kind: str) -> bool:
    """Whether the folder was recorded as one of this kind."""
    return _read_record(folder).get("kind") == kind


def list_files(folder: Path) -> list[str]:
    """All files below a folder (and what is neither a file nor a folder), relative to it, without its record."""
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in paths if (name := path.relative_to(folder).as_posix()) != RECORD)


def recorded_files(folder: Path) -> list[str]:
    """The files that the record of a folder names, relative to it."""
    return list(_read_record(folder).get("files", []))


def _read_record(folder: Path) -> dict[str, Any]:
    with suppress(InputError):
        record = read_object(folder / RECORD)
        files = record.get("files", [])
        if isinstance(files, list) and all(isinstance(name, str) for name in files):
            return record
    return {}
