"""Runs one harness with atheris (libFuzzer) in this process: `python -m tests.fuzzing.fuzzer NAME FOLDER SECONDS SEED`.

The counts are in a file that is mapped into memory, so that they survive a crash of the process. A crash that Python
can catch is written to FOLDER/crashes, and the run continues; libFuzzer itself writes the input of any other.
"""

import hashlib
import mmap
import random
import shutil
import struct
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.fuzzing.mutations import mutate

COUNTS = struct.Struct("4Q")  # tried, accepted, refused, crashed
MEMORY_MB = 2_048  # libFuzzer ends a process that takes more
INPUT_SECONDS = 25  # libFuzzer ends a process that takes longer for an input
INSTRUMENTED = ["data_scripts", "csv", "json", "tarfile", "zipfile"]


class Counted:
    """Calls a harness's check and counts what comes of it.

    Args:
        check: the harness's check.
        folder: receives `counts` and the folder `crashes`.
        scratch: the folder for the files of an input; emptied before each one.
    """

    def __init__(self, check, folder: Path, scratch: Path) -> None:
        self.check, self.folder, self.scratch = check, folder, scratch
        (folder / "crashes").mkdir(parents=True, exist_ok=True)
        counts = folder / "counts"
        if not counts.exists():
            counts.write_bytes(bytes(COUNTS.size))
        with counts.open("r+b") as file:
            self.counts = mmap.mmap(file.fileno(), COUNTS.size)

    def __call__(self, data: bytes) -> None:
        tried, accepted, refused, crashed = COUNTS.unpack(self.counts)
        self.counts[:] = COUNTS.pack(tried + 1, accepted, refused, crashed)
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        try:
            is_accepted = self.check(data, self.scratch)
            accepted, refused = accepted + is_accepted, refused + (not is_accepted)
        except Exception as error:
            crashed += 1
            self._write_crash(data, error)
        self.counts[:] = COUNTS.pack(tried + 1, accepted, refused, crashed)

    def _write_crash(self, data: bytes, error: Exception) -> None:
        """Write the input and the traceback, named after its lines, so that each place is kept once."""
        frames = "".join(f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__))
        name = f"{type(error).__name__}-{hashlib.sha256(frames.encode()).hexdigest()[:8]}"
        path = self.folder / "crashes" / name
        if not path.exists() or path.stat().st_size > len(data):
            path.write_bytes(data)
            path.with_suffix(".txt").write_text(
                "".join(traceback.format_exception(error)), encoding="utf-8", errors="backslashreplace"
            )


def main(arguments: Sequence[str]) -> None:
    name, folder, seconds, seed = arguments[0], Path(arguments[1]), int(arguments[2]), int(arguments[3])
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzzing.registry import load_harnesses

        harness = load_harnesses()[name]
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = harness.seeds()
    for number, data in enumerate(seeds):
        (corpus / f"seed{number}").write_bytes(data)

    def mutated(data: bytes, max_bytes: int, seed: int) -> bytes:
        random_ = random.Random(seed)
        if random_.random() < 0.4:  # libFuzzer keeps many broken inputs, and what follows their first fault is not read
            data = random_.choice(seeds)
        if random_.random() < 0.4:
            return atheris.Mutate(data, max_bytes)
        return mutate(data, random_)[:max_bytes]

    options = [
        *(f"-max_total_time={seconds}", f"-max_len={harness.max_bytes}", f"-seed={seed}", "-verbosity=0"),
        *(f"-rss_limit_mb={MEMORY_MB}", f"-timeout={INPUT_SECONDS}", f"-artifact_prefix={folder / 'crashes'}/native-"),
        "-print_final_stats=0",
    ]
    checked = Counted(harness.check, folder, folder / "input")
    atheris.Setup([sys.argv[0], *options, str(corpus)], checked, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
