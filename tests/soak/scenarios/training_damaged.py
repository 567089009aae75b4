"""Damaged files of checkpoints, caches and runs: each is named, and no wrong number comes of it."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.soak.command_server import CommandServer
from tests.soak.registry import Fault, scenario
from tests.soak.tiny_training import EVALUATED, LIBRARIES, TinyTraining, check_end

KIND = "truncated, flipped, emptied, swapped files"
DAMAGES = ("truncated", "flipped", "emptied", "swapped")
LAST = f"checkpoint-{2 * EVALUATED}"
# What a resumed run restores from its checkpoint; and a file whose damage may leave others without a checksum.
RESTORED = ("metrics.jsonl", "SHA256SUMS")


@scenario(KIND, "checkpoints", faults=36, smoke=0)
def damaged_checkpoints(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of the last checkpoint: the run is resumed from the one before."""
    with CommandServer(LIBRARIES) as server:
        training = _train(server, folder)
        checkpoint, other = training.folder("run") / LAST, training.folder("other") / LAST
        for name, damage in _choose(checkpoint, other, draws, count):
            _damage(checkpoint / name, damage, other / name, draws)
            ended, log = training.continue_run("run")
            lost = "" if ended.code == 0 else f"exit code {ended.code}: {log[-500:]}"
            if f"{LAST} cannot be used: " not in log or f"at step {EVALUATED}\n" not in log:
                lost = lost or f"the damage was not found: {log[-500:]}"
            yield Fault(f"{name} {damage}", lost or training.compare("run", "uninterrupted"))
            _restore(training)


@scenario(KIND, "token and word vector caches", faults=20, smoke=0)
def damaged_caches(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of a cache: it is computed again."""
    with CommandServer(LIBRARIES) as server:
        training = _train(server, folder)
        cache, other = training.cache("uninterrupted"), _other_cache(training)
        for name, damage in _choose(cache, other, draws, count):
            training.remove("run")
            shutil.copytree(cache, training.cache("run"))
            _damage(training.cache("run") / name, damage, other / name, draws)
            ended, log = training.run("run")
            lost = "" if ended.code == 0 else f"exit code {ended.code}: {log[-500:]}"
            if name.partition("/")[0] not in log or "damaged (" not in log:
                lost = lost or f"the damage was not found: {log[-500:]}"
            yield Fault(f"{Path(name).name} {damage}", lost or training.compare("run", "uninterrupted"))


def _other_cache(training: TinyTraining) -> Path:
    """Return a cache with the same names, in which each entry has the files of another entry."""
    cache, other = training.cache("uninterrupted"), training.cache("swapped")
    entries = sorted(path for path in cache.iterdir() if path.is_dir())
    for entry, successor in zip(entries, [*entries[1:], entries[0]], strict=True):
        shutil.copytree(successor, other / entry.name)
    (vectors,), others = cache.glob("*.npz"), training.cache("other").glob("*.npz")
    shutil.copyfile(next(others), other / vectors.name)
    return other


@scenario(KIND, "files of a run that is resumed", faults=20, smoke=0)
def damaged_runs(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of a killed run: it is named, or the run has the files of an uninterrupted one in the end."""
    with CommandServer(LIBRARIES) as server:
        training = _train(server, folder)
        run, other = training.folder("run"), training.folder("other")
        for name, damage in _choose(run, other, draws, count, skipped=("checkpoint-", ".")):
            _damage(run / name, damage, other / name, draws)
            ended, log = training.continue_run("run")
            if ended.code == 0 and Path(name).name in RESTORED:
                lost = training.compare("run", "uninterrupted")
            else:
                lost = check_end(ended, log, [2], Path(name).name, "SHA256SUMS")
            yield Fault(f"{name} {damage}", lost)
            _restore(training)


@scenario(KIND, "files of a finished run that is published", faults=40, smoke=0)
def damaged_results(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Damage a file of a finished run: it is not published, and the file is named."""
    skipped = ("checkpoint-", ".", "metrics.jsonl", "tokenizer/", "model/README.md", "model/.eval_results")
    with CommandServer([*LIBRARIES, "trainer.publish.upload"]) as server:
        training = _train(server, folder)
        run, other = training.folder("uninterrupted"), training.folder("other")
        for name, damage in _choose(run, other, draws, count, skipped):
            content = (run / name).read_bytes()
            _damage(run / name, damage, other / name, draws)
            ended = server.run("trainer.publish.__main__", [run, "--hub_model_id", "ORG/name", "--dry_run"])
            is_right = ended.code == 0 and Path(name).name == "SHA256SUMS"  # another file may have lost its checksum
            lost = "" if is_right else check_end(ended, "\n".join(ended.messages), [2], "SHA256SUMS")
            yield Fault(f"{name} {damage}", lost)
            (run / name).write_bytes(content)


def _train(server: CommandServer, folder: Path) -> TinyTraining:
    """Train an uninterrupted run, another one, and `run`, which is killed after its second checkpoint."""
    training = TinyTraining(server, folder)
    for name, words in (("uninterrupted", ()), ("other", ("--seed", "1", "--vocab_size", "30"))):
        ended, log = training.run(name, *words)
        if ended.code != 0:
            raise RuntimeError(f"the run {name} failed: {log[-2000:]}")
    training.run("run", fault=f"kill_rank:0:{2 * EVALUATED + 2}")
    _copy(training, "run", "killed")
    return training


def _choose(
    run: Path, other: Path, draws: random.Random, count: int, skipped: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """Choose `count` of all pairs of a file and a damage; files that are equal in the other run are not swapped."""
    paths = (path for path in sorted(run.rglob("*")) if path.is_file())
    names = [name for path in paths if not (name := path.relative_to(run).as_posix()).startswith(skipped or "\0")]
    pairs = [
        (name, damage)
        for name in names
        for damage in DAMAGES
        if damage != "swapped" or _has_other(run / name, other / name)
    ]
    return sorted(draws.sample(pairs, min(count, len(pairs))))


def _has_other(path: Path, other: Path) -> bool:
    return other.is_file() and other.read_bytes() != path.read_bytes()


def _copy(training: TinyTraining, name: str, copy: str) -> None:
    training.remove(copy)
    shutil.copytree(training.folder(name), training.folder(copy))
    shutil.copytree(training.cache(name), training.cache(copy))


def _restore(training: TinyTraining) -> None:
    _copy(training, "killed", "run")


def _damage(path: Path, damage: str, other: Path, draws: random.Random) -> None:
    content = path.read_bytes()
    if damage == "swapped":
        shutil.copyfile(other, path)
    elif damage == "flipped":
        place = draws.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << draws.randrange(8)]) + content[place + 1 :])
    else:
        path.write_bytes(content[: draws.randrange(1, len(content))] if damage == "truncated" else b"")
