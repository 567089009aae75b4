"""Commands that are killed or stopped at random moments, and run again: the same files as never interrupted."""

import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from data_scripts.read.checksums import CHECKSUMS
from tests.soak.command_server import CommandServer, Ended
from tests.soak.pipeline import (
    LIBRARIES,
    MODEL_LIBRARIES,
    PUBLISHED_FOLDER,
    Command,
    contents,
    differences,
    encoding,
    extraction,
    index_building,
    moments,
    write_dumps,
    write_texts,
    writing_published_folder,
)
from tests.soak.registry import Fault, scenario

KILL = (signal.SIGKILL,)
STOP = (signal.SIGTERM, signal.SIGINT)
EARLIEST = 0.02  # seconds until a fork has become the command


@scenario("SIGKILL", "extraction of pairs, one and two workers", faults=8, smoke=1)
def killed_extraction(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Kill the extraction."""
    yield from _interrupted_extraction(folder, draws, count, KILL)


@scenario("SIGKILL", "building a reply index, encoding a file, writing the published folder", faults=10, smoke=0)
def killed_writing(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Kill the commands that write what belongs to a model."""
    yield from _interrupted_writing(folder, draws, count, KILL)


@scenario("SIGTERM and SIGINT", "extraction of pairs, one and two workers", faults=8, smoke=1)
def stopped_extraction(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Stop the extraction."""
    yield from _interrupted_extraction(folder, draws, count, STOP)


@scenario("SIGTERM and SIGINT", "building a reply index, encoding a file, writing the published folder", 10, smoke=0)
def stopped_writing(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Stop the commands that write what belongs to a model."""
    yield from _interrupted_writing(folder, draws, count, STOP)


def _interrupted_extraction(
    folder: Path, draws: random.Random, count: int, signals: tuple[signal.Signals, ...]
) -> Iterator[Fault]:
    dumps = write_dumps(folder / "dumps")
    commands = [extraction(dumps, 1 + number % 2) for number in range(min(count, 2))]
    with CommandServer(LIBRARIES) as server:
        yield from _interrupt_all(server, folder, commands, draws, count, signals)


def _interrupted_writing(
    folder: Path, draws: random.Random, count: int, signals: tuple[signal.Signals, ...]
) -> Iterator[Fault]:
    from tests.soak.tiny_files import write_model

    model, texts = write_model(folder / "model"), write_texts(folder / "texts.txt", 60_000)
    commands = [
        index_building(model, write_texts(folder / "replies.txt", 20_000)),
        writing_published_folder(model),
        encoding(model, texts, ".npy"),
        encoding(model, texts, ".parquet"),
    ]
    with CommandServer([*MODEL_LIBRARIES, PUBLISHED_FOLDER]) as server:
        yield from _interrupt_all(server, folder, commands[:count], draws, count, signals)


def _interrupt_all(
    server: CommandServer,
    folder: Path,
    commands: list[Command],
    draws: random.Random,
    count: int,
    signals: tuple[signal.Signals, ...],
) -> Iterator[Fault]:
    """Interrupt each of the commands in turn, at moments spread over its time; the signals take turns too."""
    for place, command in enumerate(commands):
        complete = folder / f"complete_{place}"
        complete.mkdir()
        ended = command.run(server, complete)
        assert ended.code == 0, (command, ended)
        expected = contents(complete)
        faults = len(range(place, count, len(commands)))
        for number, moment in enumerate(moments(ended.seconds, faults, draws)):
            output = folder / "output"
            output.mkdir()
            if number % 2:  # over an older output
                shutil.copytree(complete, output, dirs_exist_ok=True)
            used = signals[(place + number) % len(signals)]
            yield _interrupt(server, command, output, expected, used, max(moment, EARLIEST))
            shutil.rmtree(output)


def _interrupt(
    server: CommandServer,
    command: Command,
    output: Path,
    expected: dict[str, bytes],
    used: signal.Signals,
    moment: float,
) -> Fault:
    before = contents(output)
    ended = command.run(server, output, number=used, after=moment)
    what = f"{command.name}: {used.name} after {moment:.2f} s"
    problems = [_wrong_end(ended, used), _half_written(contents(output), before, expected)]
    again = command.run(server, output)
    if again.code != 0:
        problems.append(f"run again: exit code {again.code}, {again.messages}")
    problems.append(differences(contents(output), expected))
    return Fault(what, "; ".join(filter(None, problems)))


def _wrong_end(ended: Ended, used: signal.Signals) -> str:
    """What is wrong with the end of an interrupted command, which may have been complete before the signal."""
    if ended.code == 0 or (used == signal.SIGKILL and ended.code == -used):
        return ""
    if ended.code != 128 + used or len(ended.messages) != 1 or used.name not in ended.messages[0]:
        return f"exit code {ended.code}, messages {ended.messages}"
    return ""


def _half_written(found: dict[str, bytes], before: dict[str, bytes], expected: dict[str, bytes]) -> str:
    """The files with an output's own name that are neither the old nor the complete new ones."""
    wrong = []
    for name, data in found.items():
        allowed = {before.get(name), expected.get(name)}
        if Path(name).name == CHECKSUMS:  # has a line for each file that is complete
            is_whole = set(data.splitlines()) <= {line for text in allowed for line in (text or b"").splitlines()}
        else:
            is_whole = data in allowed or (not data and "." not in Path(name).name)  # an empty folder
        if not is_whole and not any(part.startswith(".") for part in Path(name).parts):
            wrong.append(name)
    return f"half written: {', '.join(wrong)}" if wrong else ""
