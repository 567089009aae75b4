"""Training on a full disk or without the right to write: one message that names the file, and nothing is lost."""

import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak.command_server import CommandServer
from tests.soak.registry import Fault, scenario
from tests.soak.tiny_training import LIBRARIES, TinyTraining, check_end


@scenario("disk full", "training: files that cannot grow", faults=12, smoke=0)
def training_with_file_limit(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Limit the size of files, so that the first larger file of a cache, a checkpoint or the results fails."""
    with CommandServer(LIBRARIES) as server:
        training = TinyTraining(server, folder)
        sizes = sorted(_sizes(training))
        for part in range(count):
            # All but the smallest sizes would meet the first large file.
            limit = sizes[len(sizes) * part // count] + draws.randrange(200)
            ended, log = training.run("run", file_bytes=limit)
            lost = "" if ended.code == 0 else check_end(ended, log, [2], "cannot be written (")
            lost = lost or training.check_continued("run", "uninterrupted")
            yield Fault(f"files of at most {limit} bytes, exit code {ended.code}", lost)
            training.remove("run")


@scenario("disk full", "training: a disk of a few kilobytes", faults=12, smoke=0, needs_root=True)
def training_on_full_disk(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Train on a small disk in memory; then the disk gets larger, and the run is continued."""
    with CommandServer(LIBRARIES) as server:
        training = TinyTraining(server, folder)
        needed = sum(_sizes(training))
        for part in range(count):
            kilobytes = round((part + draws.random()) / count * needed / 1024)
            with _small_disk(folder / "disk", kilobytes) as grow:
                for link in (training.folder("run"), training.cache("run")):
                    (folder / "disk" / link.name).mkdir()
                    link.symlink_to(folder / "disk" / link.name)
                ended, log = training.run("run")
                lost = "" if ended.code == 0 else check_end(ended, log, [2], "cannot be written (")
                grow()
                lost = lost or training.check_continued("run", "uninterrupted")
                for link in (training.folder("run"), training.cache("run")):
                    link.unlink()
            yield Fault(f"{kilobytes} KB, exit code {ended.code}", lost)


@scenario("read-only", "training: run folder, cache, and both", faults=3, smoke=0, needs_root=True)
def read_only_training(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Mount the run's folder or the cache without the right to write."""
    with CommandServer(LIBRARIES) as server:
        training = TinyTraining(server, folder)
        _sizes(training)
        for places in (["run"], ["cache"], ["run", "cache"])[:count]:
            paths = {"run": training.folder("run"), "cache": training.cache("run")}
            with _small_disk(folder / "disk", 1_000) as grow:
                for name in places:
                    (folder / "disk" / name).mkdir()
                    paths[name].symlink_to(folder / "disk" / name)
                subprocess.run(["mount", "-o", "remount,ro", folder / "disk"], check=True)
                ended, log = training.run("run")
                lost = check_end(ended, log, [2], "Read-only file system")
                grow()
                lost = lost or training.check_continued("run", "uninterrupted")
                for name in places:
                    paths[name].unlink()
            yield Fault(f"{' and '.join(places)} read-only", lost)
            training.remove("run")


def _sizes(training: TinyTraining) -> list[int]:
    """Train an uninterrupted run; returns the sizes of its files and its cache's, without those of the card."""
    ended, log = training.run("uninterrupted")
    if ended.code != 0:
        raise RuntimeError(f"the uninterrupted run failed: {log[-2000:]}")
    folders = training.folder("uninterrupted"), training.cache("uninterrupted")
    return [path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file()]


@contextmanager
def _small_disk(folder: Path, kilobytes: int) -> Iterator:
    """Mount a file system of some kilobytes, which needs root; yields a function that makes it writable and larger."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={max(kilobytes, 16)}k", "tmpfs", folder], check=True)
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,rw,size=100m", folder], check=True)
    finally:
        subprocess.run(["umount", folder], check=True)
        shutil.rmtree(folder)
