"""Creates the output folder of a command, which appears only when it is complete."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from upath import UPath

from data_scripts.errors import InputError
from data_scripts.read.checksums import CHECKSUMS
from data_scripts.read.storage import is_url, move, upload
from data_scripts.write.checksums import write_checksums
from data_scripts.write.files import (
    cannot_write,
    describe,
    is_temporary_of,
    make_folder,
    report_write_errors,
    temporary_path,
)
from data_scripts.write.locks import lock_beside, locked
from data_scripts.write.records import (
    RECORD,
    has_record,
    list_files,
    recorded_files,
    unrecorded_files,
    write_record,
)
from data_scripts.write.replacement import replace_folder

TEMPORARY_KIND = "temporary folder"
UNFINISHED = "unfinished output"  # of a run that was interrupted while it wrote to a URL


@contextmanager
def new_folder(
    output: Path, overwrite: bool, kind: str = "dataset", shared: bool = False
) -> Iterator[tuple[Path, Path]]:
    """Yield an empty folder that becomes `output` if the block succeeds, and a folder for temporary files.

    Both are inside a temporary folder beside the output. What killed runs left of theirs is removed first. The output
    is locked until the end.

    Args:
        output: the folder.
        overwrite: replace an earlier output of the same kind, in which all files are recorded as written by a command.
        kind: what the folder holds; part of its record. A dataset also gets checksums of its files.
        shared: whether other machines must see the two folders; if the output is a URL, they are beside it then.

    Raises:
        InputError: `output` exists and `overwrite` is not given, or it is not what a command wrote, or another process
            writes it, or it cannot be written.
    """
    output = output.resolve()
    check_replaceable(output, overwrite, kind)
    with staged_folder(output, shared) as (folder, scratch):
        check_replaceable(output, overwrite, kind)
        yield folder, scratch
        if kind == "dataset":
            write_checksums(folder, list_files(folder))
        write_record(folder, kind, list_files(folder))
        # The output may have changed since the command was started.
        check_replaceable(output, overwrite, kind)


@contextmanager
def staged_folder(output: Path, shared: bool = False) -> Iterator[tuple[Path, Path]]:
    """`new_folder` without a check of what the output holds and without a record: the caller knows that it is ours.

    For a URL, both folders are in the system's folder for temporary files, and the files are uploaded at the end; with
    `shared`, they are beside the output.
    """
    if is_url(output):
        with _staged_for_storage(output, shared) as staged:
            yield staged
        return
    output = output.resolve()
    make_folder(output.parent)
    with locked(output, lock_beside(output)):
        _clean_up(output)
        partial = temporary_path(output)
        folder, scratch = partial / "new", partial / "scratch"
        try:
            with report_write_errors(output, partial):
                partial.mkdir()
                write_record(partial, TEMPORARY_KIND)
                folder.mkdir()
                scratch.mkdir()
                yield folder, scratch
                _replace(folder, output, partial / "replaced")
        finally:
            _remove(partial, output)


@contextmanager
def _staged_for_storage(output: Path, shared: bool) -> Iterator[tuple[Path, Path]]:
    _clean_up_storage(output)
    with ExitStack() as stack:
        if shared:
            temporary = temporary_path(output)
            stack.callback(_remove_from_storage, temporary)
            make_folder(temporary)
            write_record(temporary, TEMPORARY_KIND)
        else:
            temporary = Path(stack.enter_context(TemporaryDirectory(prefix="convsim-")))
        folder, scratch = temporary / "new", temporary / "scratch"
        make_folder(folder)
        make_folder(scratch)
        with report_write_errors(output, temporary):
            yield folder, scratch
        _publish(folder, output)


def _clean_up_storage(output: Path) -> None:
    """Remove the temporary folders that killed processes left beside a URL, to which only one process may write."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for folder in list(output.parent.iterdir()):
            if is_temporary_of(output, folder) and has_record(folder, TEMPORARY_KIND):
                print(f"removing {folder}, which an interrupted run left")
                _remove_from_storage(folder)


def _remove_from_storage(folder: Path) -> None:
    """Remove a temporary folder, its record last, so that what a kill leaves can still be removed."""
    for part in (folder / "new", folder / "scratch", folder):
        with suppress(FileNotFoundError):
            cast(UPath, part).fs.rm(cast(UPath, part).path, recursive=True)


def _publish(folder: Path, output: Path) -> None:
    """Copy the files of a folder to a URL, the list of them last, without which they are no complete output.

    A record of what is being written comes first, so that the next run may replace what an interruption leaves.
    """
    names, old = list_files(folder), recorded_files(output)
    make_folder(output)
    write_record(output, UNFINISHED, {*names, *old})
    for name in {*old} - {*names} | {*unfinished_files(output)}:
        (output / name).unlink(missing_ok=True)
    for name in [*sorted(names, key=lambda name: (name == CHECKSUMS, name)), RECORD]:
        make_folder((output / name).parent)
        (move if is_url(folder) else upload)(folder / name, output / name)


def _replace(new: Path, output: Path, replaced: Path) -> None:
    try:
        replace_folder(new, output, replaced)
    except OSError as error:
        raise InputError(cannot_write(output, describe(error))) from error


def check_replaceable(output: Path, overwrite: bool, kind: str = "dataset") -> None:
    """Check that an output may be written.

    Raises:
        InputError: it exists, and `overwrite` is not given, or it is not what a command wrote, or more than that.
    """
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    unfinished = is_url(output) and has_record(output, UNFINISHED)
    if unfinished and not {*unrecorded_files(output)} - {*unfinished_files(output)}:
        return
    if not output.is_dir():
        raise InputError(f"--output {output}: is a file, expected a folder; name another one")
    if not has_record(output, kind):
        raise InputError(
            f"--output {output}: exists and is not a {kind} that a command wrote (no {RECORD} there); name another "
            "folder, or delete this one yourself"
        )
    if not overwrite:
        raise InputError(f"--output {output}: exists already; name another folder, or replace it with --overwrite")
    if others := unrecorded_files(output):
        raise InputError(
            f"--output {output}: holds {others[0]}, which the command did not write there; move it away, or name "
            "another folder"
        )


def unfinished_files(output: Path) -> list[str]:
    """The temporary names, relative to it, of files that were being uploaded to an output when its run was killed."""
    recorded = [output / name for name in [*recorded_files(output), RECORD]]
    files = ((name, output / name) for name in unrecorded_files(output))
    return [name for name, file in files if any(is_temporary_of(other, file) for other in recorded)]


def _clean_up(output: Path) -> None:
    """Remove the temporary folders that killed processes left beside an output, which is locked."""
    for folder in output.parent.iterdir():
        if is_temporary_of(output, folder) and folder.is_dir():
            is_empty = not {path.name for path in folder.iterdir()} - {RECORD}  # killed before its record was complete
            if is_empty or has_record(folder, TEMPORARY_KIND):
                _remove(folder, output)


def _remove(partial: Path, output: Path) -> None:
    """Remove a temporary folder, but not the old output, if the process was killed between two renames."""
    if (partial / "replaced").exists() and not output.exists():
        os.replace(partial / "replaced", output)
    for name in ("new", "scratch", "replaced"):  # the record last, so that what a kill leaves can still be removed
        shutil.rmtree(partial / name, ignore_errors=True)
    with suppress(OSError):
        shutil.rmtree(partial)
