"""Creates the output folder of a command, which appears only when it is complete."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from data_scripts.errors import InputError


@contextmanager
def new_folder(output: Path, overwrite: bool) -> Iterator[tuple[Path, Path]]:
    """Yield an empty folder that becomes `output` if the block succeeds, and a folder for temporary files.

    Both are in `OUTPUT.partial`; the files that an interrupted run left there are removed first.

    Raises:
        InputError: `output` exists and `overwrite` is false, it is not a dataset that a command wrote, or it cannot be
            written.
    """
    output = output.resolve()
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        if not (output / "report.json").is_file():
            raise InputError(
                f"--output {output}: exists and is not a dataset that a command wrote; name another folder"
            )
        if not overwrite:
            raise InputError(f"--output {output}: exists already; name another folder, or replace it with --overwrite")
    partial = output.with_name(f"{output.name}.partial")
    folder, scratch = partial / "pairs", partial / "scratch"
    try:
        if partial.exists():
            shutil.rmtree(partial)
        folder.mkdir(parents=True)
        scratch.mkdir()
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error})") from error
    try:
        yield folder, scratch
        if output.exists():
            output.replace(partial / "replaced")
        folder.replace(output)
    finally:
        shutil.rmtree(partial)
