"""Training that is killed, stopped or loses a process, and is continued: the same files as never interrupted."""

import random
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.soak.command_server import CommandServer
from tests.soak.registry import Fault, scenario
from tests.soak.tiny_training import LIBRARIES, STEPS, TinyTraining, check_end

STOP = (signal.SIGTERM, signal.SIGINT)
# Functions in whose call a signal is sent, beside the random moments.
PLACES = (
    "trainer.training.train.load_run_data",
    "trainer.data.token_cache._build",
    "trainer.data.skip_gram.train_word_vectors",
    "trainer.training.loop.save_checkpoint",
    "trainer.training.checkpoints.place_checkpoint",
    "trainer.training.model_evaluator.evaluate_encoder",
    "trainer.training.finish._load_best",
    "trainer.training.finish.write_results",
    "trainer.publish.folder.verify_folder",
)


@scenario("SIGKILL", "training, one process", faults=10, smoke=1)
def killed_training(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Kill a run at random moments: steps, evaluations, saves, caches, results."""
    yield from _killed(folder, draws, count, processes=1)


@scenario("SIGKILL", "training, two processes", faults=6, smoke=0)
def killed_training_of_two(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Kill both processes of a run at random moments."""
    yield from _killed(folder, draws, count, processes=2)


def _killed(folder: Path, draws: random.Random, count: int, processes: int) -> Iterator[Fault]:
    with CommandServer(LIBRARIES) as server:
        training = TinyTraining(server, folder)
        seconds = _reference(training, processes)
        for part in range(count):
            moment = (part + draws.random()) * seconds / count
            ended, _ = training.run("run", processes=processes, number=signal.SIGKILL, after=moment)
            saved = _saved(training.folder("run"))
            lost = "" if ended.code in (0, -signal.SIGKILL) else f"exit code {ended.code}"
            lost = lost or training.check_continued("run", "uninterrupted", processes)
            yield Fault(f"killed after {moment:.2f} of {seconds:.2f} s, with {saved or 'no checkpoint'}", lost)
            training.remove("run")


@scenario("SIGTERM and SIGINT", "training, one process", faults=20, smoke=0)
def stopped_training(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Stop a run by a signal, at random moments and in chosen functions."""
    yield from _stopped(folder, draws, count, processes=1, places=PLACES)


@scenario("SIGTERM and SIGINT", "training, two processes", faults=8, smoke=0)
def stopped_training_of_two(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Stop a run of two processes by a signal to both, at random moments, or to one of them."""
    yield from _stopped(folder, draws, count, processes=2, places=("trainer.training.trainable_model.clip_gradient",))


def _stopped(
    folder: Path, draws: random.Random, count: int, processes: int, places: tuple[str, ...]
) -> Iterator[Fault]:
    with CommandServer(LIBRARIES) as server:
        training = TinyTraining(server, folder)
        seconds = _reference(training, processes)
        for part in range(count):
            number = STOP[part % 2]
            codes = {0, 128 + number}
            if part < len(places):
                last = processes - 1
                where = f"in {places[part].rpartition('.')[2]}"
                ended, log = training.run("run", processes=processes, fault=f"signal:{places[part]}:{number}:{last}")
                codes = {128 + number}
            else:
                moment = (part - len(places) + draws.random()) * seconds / (count - len(places))
                where = f"after {moment:.2f} of {seconds:.2f} s"
                ended, log = training.run("run", processes=processes, number=number, after=moment)
                codes |= {2} if processes == 2 else set()  # a process that is reached by its peer's end first
            saved = _saved(training.folder("run"))
            lost = "" if ended.code == 0 else check_end(ended, log, codes, "--resume true" if saved else "")
            lost = lost or training.check_continued("run", "uninterrupted", processes)
            yield Fault(f"{number.name} {where}, with {saved or 'no checkpoint'}", lost)
            training.remove("run")


@scenario("killed rank", "training, two processes", faults=4, smoke=0)
def killed_rank(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Kill one of two processes at a random step: the other one leaves with a message."""
    with CommandServer(LIBRARIES) as server:
        training = TinyTraining(server, folder)
        _reference(training, processes=2)
        for part in range(count):
            rank, step = part % 2, draws.randrange(STEPS)
            ended, log = training.run("run", processes=2, fault=f"kill_rank:{rank}:{step}")
            saved = _saved(training.folder("run"))
            lost = check_end(ended, log, [2], "another process of the run has ended", saved or "again")
            lost = lost or training.check_continued("run", "uninterrupted", 2)
            yield Fault(f"process {rank} killed before step {step + 1}, after {ended.seconds:.1f} s", lost)
            training.remove("run")


def _reference(training: TinyTraining, processes: int) -> float:
    """Run it uninterrupted; returns its seconds."""
    ended, log = training.run("uninterrupted", processes=processes)
    if ended.code != 0:
        raise RuntimeError(f"the uninterrupted run failed: {log[-2000:]}")
    return ended.seconds


def _saved(run: Path) -> str:
    """Name the last checkpoint of a run; empty without one."""
    saved = sorted(run.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    return saved[-1].name if saved else ""
