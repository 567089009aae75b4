"""Puts a complete new folder in the place of an old one, so that at every moment one of them is there."""

import ctypes
import errno
import os
import sys
from pathlib import Path

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


def replace_folder(new: Path, output: Path, replaced: Path) -> None:
    """Rename `new` to `output`; an old folder there becomes `new` or `replaced`. An error leaves both as they were.

    On Linux, the two are exchanged in one step. Elsewhere, a process that is killed between two renames leaves no
    `output`, but `replaced`.

    Raises:
        OSError: the folders cannot be renamed.
    """
    if not output.exists():
        new.rename(output)
    elif not _exchange(new, output):
        output.rename(replaced)
        try:
            new.rename(output)
        except BaseException:
            replaced.rename(output)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False if the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
