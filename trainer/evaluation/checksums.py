"""Refuses damaged files of a run's or a model's folder, and keeps the checksums of files that are replaced.

`modeling_convsim`, which imports torch, is imported in the functions, so that --help does not wait for it.
"""

from collections.abc import Mapping
from pathlib import Path

from data_scripts.errors import InputError
from data_scripts.read.checksums import CHECKSUMS
from data_scripts.write.files import cannot_write


def check_file(path: Path, folder: Path | None = None) -> None:
    """Check a file against the checksums in a folder, by default its own.

    Raises:
        InputError: it is damaged.
    """
    from modeling_convsim.encoding.checksums import find_damage

    folder = folder or path.parent
    _refuse(folder, find_damage(folder, [path.relative_to(folder).as_posix()]))


def check_folder(folder: Path) -> None:
    """Check all files of a folder that have a checksum.

    Raises:
        InputError: one is missing or damaged.
    """
    from modeling_convsim.encoding.checksums import find_damage

    _refuse(folder, find_damage(folder))


def record_files(folder: Path, names: list[str]) -> None:
    """Write the checksums of files of a folder, in place of earlier ones.

    Raises:
        InputError: they cannot be written.
    """
    from modeling_convsim.encoding.checksums import write_checksums

    try:
        write_checksums(folder, names)
    except OSError as error:
        raise _not_written(folder / CHECKSUMS, error) from error


def replace_recorded_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace files of a folder with `replace_files`.

    Raises:
        InputError: a file cannot be written, or the checksums are damaged.
    """
    from modeling_convsim.encoding.checksums import replace_files

    try:
        replace_files(folder, contents)
    except OSError as error:
        raise _not_written(folder / next(iter(contents)), error) from error
    except ValueError as error:
        _refuse(folder, str(error))


def _refuse(folder: Path, damage: str | None) -> None:
    if damage:
        raise InputError(f"{folder}: {damage}; restore it, or, if you changed it yourself, delete {folder / CHECKSUMS}")


def _not_written(path: Path, error: OSError) -> InputError:
    return InputError(str(error) if error.errno is None else cannot_write(path, error.strerror or str(error)))
