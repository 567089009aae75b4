"""Ways to damage a file."""

import random
import shutil
from pathlib import Path

DAMAGES = ("truncated", "flipped", "emptied", "swapped")


def damage(file: Path, kind: str, other: Path, draws: random.Random) -> bool:
    """Damage a file in one of the ways `DAMAGES`; `other` is what it is swapped with. False if it is as before."""
    content = bytearray(file.read_bytes())
    if kind == "truncated":
        file.write_bytes(content[: draws.randrange(len(content))])
    elif kind == "flipped":
        content[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
        file.write_bytes(content)
    elif kind == "emptied":
        file.write_bytes(b"")
    elif other.is_file():
        shutil.copyfile(other, file)
    return file.read_bytes() != content or kind == "flipped"
