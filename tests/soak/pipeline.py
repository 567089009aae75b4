"""The commands that soak scenarios interrupt: what each reads, and the files that it writes."""

import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.command_server import CommandServer, Ended

EXTRACTION = "tests.soak.small_workers"  # data_scripts, with worker processes for small dumps too
ENCODING = "modeling_convsim.encoding.__main__"
SUGGESTION = "modeling_convsim.suggestion.__main__"
PUBLISHED_FOLDER = "tests.soak.published_folder"
LIBRARIES = (
    "matplotlib.backends.backend_agg",
    "data_scripts.join.engines",
    "data_scripts.join.replies",
    "data_scripts.sources.reddit",
    "data_scripts.write.pairs",
)
MODEL_LIBRARIES = (
    "modeling_convsim.encoding.vector_files",
    "modeling_convsim.suggestion.reply_index",
    "pyarrow.parquet",
)
COMMENTS = (9_000, 2_000, 5_000, 3_000)  # per dump; with two workers the second dump is finished before the first


@dataclass(frozen=True)
class Command:
    """A command and its output.

    Attributes:
        name: for the names of faults.
        module: its module with `main`.
        arguments: the words of its command line, given the folder of its output.
    """

    name: str
    module: str
    arguments: Callable[[Path], list[object]] = field(repr=False)

    def run(self, server: CommandServer, folder: Path, **fault: object) -> Ended:
        """Run it with its output in a folder; `fault` is as for `CommandServer.run`."""
        return server.run(self.module, self.arguments(folder), **fault)  # type: ignore[arg-type]


def extraction(dumps: Path, workers: int) -> Command:
    """The extraction of pairs from dumps, which keeps the comments."""

    def arguments(folder: Path) -> list[object]:
        options = ["--comments", folder / "comments", "--output", folder / "pairs", "--workers", workers]
        return ["reddit", *sorted(dumps.iterdir()), *options, "--overwrite"]

    return Command(f"extraction, {workers} workers", EXTRACTION, arguments)


def index_building(model: Path, replies: Path) -> Command:
    """The building of a reply index."""
    return Command("build", SUGGESTION, lambda folder: ["build", model, replies, "-o", folder / "index"])


def encoding(model: Path, texts: Path, suffix: str) -> Command:
    """The encoding of a file of texts."""
    return Command(f"encoding, {suffix}", ENCODING, lambda folder: [model, texts, "-o", folder / f"vectors{suffix}"])


def writing_published_folder(model: Path) -> Command:
    """The writing of the folder of a finished run that is published."""
    return Command("published folder", PUBLISHED_FOLDER, lambda folder: [model, folder / "model"])


def write_dumps(folder: Path) -> Path:
    """Write Reddit dumps with threads, and lines that are broken; returns the folder."""
    folder.mkdir()
    draws = random.Random(0)
    words = ["".join(draws.choices("abcdefghijklmnopqrstuvwxyz", k=draws.randrange(2, 9))) for _ in range(2_000)]
    for month, count in enumerate(COMMENTS, start=1):
        first = sum(COMMENTS[: month - 1])
        lines = [_comment(number, words, draws) for number in range(first, first + count)]
        (folder / f"RC_2001-{month:02}.gz").write_bytes(gzip.compress("\n".join(lines).encode(), 1))
    return folder


def _comment(number: int, words: list[str], draws: random.Random) -> str:
    """A line of a dump. A quarter of the comments begin a thread; the others answer a recent comment."""
    answered = number - draws.randrange(1, 200)
    fields = {
        "id": f"c{number}",
        "parent_id": f"t1_c{answered}" if number % 4 else f"t3_s{number}",
        "link_id": f"t3_s{number // 100}",
        "author": "reader",
        "body": " ".join(draws.choices(words, k=draws.randrange(3, 40))),
        "subreddit": "pictures",
        "created_utc": 1136074029 + number,
    }
    # Broken lines must be reported in the same order, whichever run reads the dump.
    return "broken" if number % 499 == 0 else json.dumps(fields)


def write_texts(file: Path, count: int) -> Path:
    """Write distinct texts, one per line; returns the file."""
    colors = ["red", "green", "blue", "black", "white", "yellow", "brown"]
    things = ["dog", "cat", "car", "house", "bird", "city"]
    file.write_text("".join(f"the {colors[n % 7]} {things[n % 6]} number {n}\n" for n in range(count)))
    return file


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, and its empty folders, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if path.is_file() or not any(path.iterdir())
    }


def differences(found: dict[str, bytes], expected: dict[str, bytes]) -> str:
    """The names of the files that differ; empty if none do."""
    names = sorted(name for name in found.keys() | expected if found.get(name) != expected.get(name))
    return f"other files: {', '.join(names)}" if names else ""


def moments(seconds: float, count: int, draws: random.Random) -> Iterator[float]:
    """Yield a random moment in each of `count` equal parts of the time."""
    for part in range(count):
        yield (part + draws.random()) * seconds / count
