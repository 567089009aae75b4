"""Run Python commands in forks of a process that has imported the trainer, which saves seconds for each of them.

multiprocessing's fork server is such a process. It has computed nothing: PyTorch's autograd does not work in forks of a
process that has used it.
"""

import faulthandler
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.report.plan import PlannedRun

CONTEXT = get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.forked_libraries"])


def run_python(
    commands: Sequence[Sequence[str | Path]],
    folder: Path = Path(),
    environments: Sequence[Mapping[str, str]] = ({},),
    seconds: float = 540,
) -> list[subprocess.CompletedProcess]:
    """Run Python commands at once, and wait for all.

    Args:
        commands: Python's arguments: a script, "-m" and a module, or "-c" and code, each with arguments.
        folder: the working directory of all.
        environments: additional environment variables of each command. Libraries that read a variable when they are
            imported have its value in this process.
        seconds: the time after which those that still run are killed; shortly before pytest's own timeout.

    Returns:
        Their exit codes and outputs; `stdout` has both streams.
    """
    with tempfile.TemporaryDirectory() as outputs:
        printed = [Path(outputs, str(number)) for number in range(len(commands))]
        processes = [
            CONTEXT.Process(
                target=_run, args=(list(map(str, command)), str(folder.resolve()), dict(environment), output)
            )
            for command, environment, output in zip(commands, environments, printed, strict=True)
        ]
        for process in processes:
            process.start()
        end = time.monotonic() + seconds
        for process in processes:
            process.join(max(0, end - time.monotonic()))
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGABRT)  # faulthandler prints what it is doing
                process.join(5)
            process.kill()
            process.join()
        return [
            subprocess.CompletedProcess(command, process.exitcode or 0, output.read_text(errors="replace"))
            for command, process, output in zip(commands, processes, printed, strict=True)
        ]


class ForkedJob:
    """A run of `trainer.report.plan` in a fork; in place of the `subprocess.Popen` that `_start` returns."""

    def __init__(self, job: "PlannedRun", threads: int) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self._process = CONTEXT.Process(target=_run, args=(job.command, Path.cwd(), environment, job.log))
        self._process.start()
        self.terminate, self.wait = self._process.terminate, self._process.join

    def poll(self) -> Any:
        return self._process.exitcode

    @property
    def returncode(self) -> Any:
        return self._process.exitcode


def run_ranks(script: Path, *arguments: str | Path, ranks: int = 2) -> subprocess.CompletedProcess:
    """Run a script in several processes of one machine that train together, as `accelerate launch` does.

    Returns:
        The first that failed, or the first.
    """
    done = _run_together([(script, *arguments)] * ranks, lambda rank: rank)
    return next((one for one in done if one.returncode), done[0])


def run_machines(script: Path | str, arguments: Sequence[Sequence[str | Path]]) -> list[subprocess.CompletedProcess]:
    """Run a script in processes that train together, one on each machine, with these arguments; return all of them."""
    return _run_together([(script, *own) for own in arguments], lambda rank: 0)


def _run_together(
    commands: Sequence[Sequence[str | Path]], local_rank: Callable[[int], int]
) -> list[subprocess.CompletedProcess]:
    ranks = range(len(commands))
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(len(commands))}
    environments = [shared | {"RANK": str(rank), "LOCAL_RANK": str(local_rank(rank))} for rank in ranks]
    return run_python(commands, environments=environments)


class Interpreter:
    """A Python process that imports libraries, with an environment of its own, and runs each program in a fork of it.

    Args:
        libraries: names of modules.
        environment: all its environment variables.
    """

    def __init__(self, libraries: Sequence[str], environment: Mapping[str, str]) -> None:
        command = [sys.executable, str(Path(__file__).with_name("forking_interpreter.py")), *libraries]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, code: str, *arguments: str, cwd: Path, path: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in `cwd`, with `path` first on `sys.path`, and more environment variables."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([code, arguments, str(cwd), str(path), variables]) + "\n")
        self._process.stdin.flush()
        returncode, stdout, stderr = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(arguments, returncode, stdout, stderr)

    def __enter__(self) -> "Interpreter":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def free_port() -> int:
    """Return a port of this machine that no process uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _run(command: list[str], folder: Path, environment: dict[str, str], output: Path) -> None:
    os.environ.update(environment)
    os.chdir(folder)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(file, stream)
    faulthandler.enable(file)
    if command[0] == "-m":
        sys.argv = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    elif command[0] == "-c":
        sys.argv = ["-c", *command[2:]]
        exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")
