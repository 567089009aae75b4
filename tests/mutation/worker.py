"""Runs the tests of one module on its mutants; a process that imports the libraries once, and forks for each mutant.

It runs in a copy of the repository, in which it writes one mutant after the other. Jobs are lines of JSON on standard
input; the results are lines of JSON on standard output.
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import pickle
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.mutation.selection import Baseline, BaselinePlugin, SelectionPlugin, run_pytest

PACKAGES = ("data_scripts", "modeling_convsim", "trainer", "model_cards")
OWN = ("tests", "conftest", "test_", *PACKAGES)
CPU_SECONDS = 20  # what a mutant's tests may take beside five times what they take on the original
MEMORY = 16 * 2**30
clock = int(time.time()) + 10_000  # modification time of the next mutant, so that no compiled module is reused


def main() -> None:
    """Read jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        job = json.loads(line)
        for result in run_job(job["path"], job["tests"], job["mutants"]):
            answers.write(json.dumps(result) + "\n")
            answers.flush()


def run_job(path: str, tests: list[str], mutants: list[dict[str, Any]]) -> Any:
    """Yield the number of tests, then the outcome of each mutant."""
    baseline = Baseline()
    for file in _files(tests):
        baseline.add(_measure(file))
    yield {"tests": len(baseline.seconds), "problem": baseline.problem}
    if baseline.problem:
        return
    original = Path(path).read_bytes()
    for mutant in mutants:
        started = time.monotonic()
        _write(path, mutant["code"].encode())
        selected = baseline.tests_of(path, mutant["first_line"], mutant["last_line"])
        outcome = _run_tests(baseline, selected) if selected else "not executed"
        if outcome == "survived" and len(selected) < len(baseline.seconds):
            outcome = _run_tests(baseline, list(baseline.seconds))
        yield {"outcome": outcome, "seconds": round(time.monotonic() - started, 2)}
    _write(path, original)


def _write(path: str, code: bytes) -> None:
    global clock
    clock += 1
    Path(path).write_bytes(code)
    os.utime(path, (clock, clock))


def _files(tests: list[str]) -> list[str]:
    """Return the test files of files and folders."""
    return [
        str(file) for one in map(Path, tests) for file in (sorted(one.rglob("test_*.py")) if one.is_dir() else [one])
    ]


@functools.cache
def _measure(file: str) -> Baseline:
    """Run a file of tests on the original; return what each takes and which lines it runs."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with _exit_at_end():
            os.close(reading)
            plugin = BaselinePlugin(PACKAGES)
            code = run_pytest([file], [plugin], [])
            names = {name for name in list(sys.modules) if not name.startswith(OWN)}
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(plugin.result(code, names), pipe)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    if not content:
        return Baseline(problem=f"{file} ended the process")
    baseline = pickle.loads(content)
    _import_libraries(baseline.libraries)
    return baseline


@contextlib.contextmanager
def _exit_at_end() -> Any:
    try:
        yield
    finally:
        os._exit(99)


def _import_libraries(names: set[str]) -> None:
    """Import the libraries that the tests import, so that the processes of the mutants have them."""
    for name in sorted(names - set(sys.modules)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _run_tests(baseline: Baseline, selected: list[str]) -> str:
    """Run tests in a new process, up to the first that fails: killed, timed out, or survived."""
    limit = CPU_SECONDS + 5 * sum(baseline.seconds[name] for name in selected)
    child = os.fork()
    if child == 0:
        with _exit_at_end():
            os.setsid()
            os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            plugin = SelectionPlugin(set(selected))
            # One file after the other: most mutants fail in the first, before the others are imported.
            os._exit(any(run_pytest([file], [plugin], ["-x"]) for file in baseline.files_of(selected)))
    status = _wait(child, time.monotonic() + 4 * limit)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)):
        return "timed out"
    return "survived" if status == 0 else "killed"


def _wait(child: int, deadline: float) -> int | None:
    """Return the exit status of a process; None if it had to be killed."""
    pause = 0.005
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


if __name__ == "__main__":
    main()
