"""Writes the SHA-256 of a dataset's files, which `data_scripts.read.checksums` verifies."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from data_scripts.read.checksums import CHECKSUMS, digest_of, read_checksums
from data_scripts.write.files import write_text

EDITED = "README.md"  # a card, which people complete


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Write SHA256SUMS, which `sha256sum --check` reads, for files of a folder, relative to it, but for cards.

    Those that are in a SHA256SUMS there already are not read.
    """
    digests = read_checksums(folder)
    others = (name for name in names if name not in digests and Path(name).name not in (EDITED, CHECKSUMS))
    digests |= {name: digest_of(folder / name) for name in others}
    (folder / CHECKSUMS).write_text(_format(digests), encoding="utf-8")


def replace_checksums(folder: Path, digests: Mapping[str, str]) -> None:
    """Write SHA256SUMS with the SHA-256 of each file, by its name relative to the folder; no file if there are none.

    Raises:
        InputError: it cannot be written.
    """
    if digests:
        write_text(folder / CHECKSUMS, _format(digests))
    else:
        (folder / CHECKSUMS).unlink(missing_ok=True)


def _format(digests: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
