"""Commands that cannot write: one line that names the output, and the old output as it was."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.soak.command_server import CommandServer
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
    write_dumps,
    write_texts,
    writing_published_folder,
)
from tests.soak.registry import Fault, scenario


@scenario("disk full", "extraction, reply index, encoding, published folder", faults=20, smoke=0)
def full_disk(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Let every write fail that makes a file larger than a random size, in all libraries, as on a full disk."""
    for server, command, output, largest in _commands(folder, count):
        limit = draws.randrange(largest) if draws.random() < 0.8 else 0
        before = contents(output)
        ended = command.run(server, output, file_bytes=limit)
        what = f"{command.name}: files of at most {limit} bytes{', over an older output' if before else ''}"
        yield _fault(what, server, command, output, before, ended.code, ended.messages)


@scenario("read-only", "extraction, reply index, encoding, published folder", faults=10, smoke=0)
def read_only(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Take away the permission to write to the folder of the output."""
    folder.chmod(0o755)
    for server, command, output, _ in _commands(folder, count):
        before = contents(output)
        for path in [output, *output.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        for path in folder.rglob("*.safetensors"):  # the library gives them to their owner alone
            path.chmod(0o444)
        ended = command.run(server, output, as_nobody=True)
        for path in [output, *output.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        what = f"{command.name}: folder without permission to write{', over an older output' if before else ''}"
        yield _fault(what, server, command, output, before, ended.code, ended.messages)


def _fault(
    what: str,
    server: CommandServer,
    command: Command,
    output: Path,
    before: dict[str, bytes],
    code: int | None,
    messages: list[str],
) -> Fault:
    problems = []
    if code == 0:
        problems.append("no error")
    elif code != 2 or len(messages) != 1 or str(output) not in messages[0]:
        problems.append(f"exit code {code}, messages {messages}")
    found = contents(output)
    # Files of comments that are complete stay, so that the next run reuses them.
    found = {name: data for name, data in found.items() if name in before or not name.startswith("comments")}
    problems.append(differences(found, before))
    again = command.run(server, output)
    if again.code != 0:
        problems.append(f"run again: exit code {again.code}, {again.messages}")
    return Fault(what, "; ".join(filter(None, problems)))


def _commands(folder: Path, count: int) -> Iterator[tuple[CommandServer, Command, Path, int]]:
    """Each command in turn, with an empty output folder and with one that holds its output, and its largest file."""
    from tests.soak.tiny_files import write_model

    model, texts = write_model(folder / "model"), write_texts(folder / "texts.txt", 5_000)
    dumps = write_dumps(folder / "dumps")
    commands = [
        extraction(dumps, 1),
        index_building(model, texts),
        encoding(model, texts, ".npy"),
        encoding(model, texts, ".parquet"),
        writing_published_folder(model),
    ]
    with CommandServer([*LIBRARIES, *MODEL_LIBRARIES, PUBLISHED_FOLDER], {"HF_HOME": str(folder / "home")}) as server:
        for number in range(count):
            command = commands[number % len(commands)]
            complete = folder / f"complete_{number % len(commands)}"
            if not complete.exists():
                complete.mkdir()
                ended = command.run(server, complete)
                assert ended.code == 0, (command, ended)
            output = folder / "output"
            output.mkdir()
            if number // len(commands) % 2:
                shutil.copytree(complete, output, dirs_exist_ok=True)
            yield server, command, output, max(map(len, contents(complete).values()))
            shutil.rmtree(output)
