"""Which tests a mutant needs: those that run its lines, the fast ones only."""

import os
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time  # a test may replace `time.process_time`
from types import FrameType
from typing import Any

import pytest

FAST = 4.0  # seconds of processor time, while lines are counted, that a test of a mutant may take


Lines = dict[str, set[int]]  # path of a module -> numbers of its lines


@dataclass
class Baseline:
    """Tests, run on the original.

    Attributes:
        seconds: each fast test's processor time.
        lines: the lines that each runs.
        import_lines: the lines that run outside of tests, when a module is imported.
        libraries: the imported modules that are not the project's.
        problem: why no mutant can be tested.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, Lines] = field(default_factory=dict)
    import_lines: Lines = field(default_factory=dict)
    libraries: set[str] = field(default_factory=set)
    problem: str = ""

    def tests_of(self, path: str, first_line: int, last_line: int) -> list[str]:
        """Return the tests that run one of these lines; all, if the lines run when the module is imported."""
        changed = set(range(first_line, last_line + 1))
        if changed & self.import_lines.get(path, set()):
            return list(self.seconds)
        return [name for name in self.seconds if changed & self.lines[name].get(path, set())]

    def add(self, other: "Baseline") -> None:
        """Add the tests of another file."""
        self.seconds |= other.seconds
        self.lines |= other.lines
        _add_lines(self.import_lines, other.import_lines)
        self.libraries |= other.libraries
        self.problem = self.problem or other.problem

    def files_of(self, tests: list[str]) -> list[str]:
        """Return the files of some tests, the fastest first."""
        seconds: dict[str, float] = defaultdict(float)
        for name in tests:
            seconds[name.partition("::")[0]] += self.seconds[name]
        return sorted(seconds, key=lambda file: seconds[file])


def _add_lines(lines: Lines, others: Lines) -> None:
    for path, numbers in others.items():
        lines[path] = lines.get(path, set()) | numbers


class BaselinePlugin:
    """Measures the tests of one file, and which lines of the packages each runs.

    A line that a fixture runs belongs to every test of the file: a fixture may be made once for several tests.
    """

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = tuple(str(Path(package).resolve()) + os.sep for package in packages)
        self._root = len(str(Path.cwd().resolve())) + 1
        self._baseline = Baseline()
        self._failed: list[str] = []
        self._seconds: dict[str, float] = defaultdict(float)
        self._lines: dict[str, Any] = defaultdict(lambda: defaultdict(set))
        self._fixture_lines: Any = defaultdict(set)
        self._import_lines: Any = defaultdict(set)
        self._current = self._import_lines
        sys.settrace(self._trace)
        threading.settrace(self._trace)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self._packages):
            return None
        return self._trace_line(frame, event, argument)

    def _trace_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._current[frame.f_code.co_filename].add(frame.f_lineno)
        return self._trace_line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        yield from self._record(item, self._fixture_lines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        yield from self._record(item, self._lines[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        yield from self._record(item, self._lines[item.nodeid])

    def _record(self, item: pytest.Item, lines: Any) -> Any:
        outside, started = self._current, process_time()
        self._current = lines
        sys.settrace(self._trace)
        try:
            return (yield)
        finally:
            self._current = outside
            self._seconds[item.nodeid] += process_time() - started

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)
        if report.skipped:
            self._seconds.pop(report.nodeid, None)

    def result(self, code: int, libraries: set[str]) -> Baseline:
        """Return the measurements of the finished run."""
        sys.settrace(None)
        baseline = self._baseline
        baseline.seconds = {name: one for name, one in self._seconds.items() if one <= FAST and name in self._lines}
        for name in baseline.seconds:
            baseline.lines[name] = {}
            for lines in (self._lines[name], self._fixture_lines):
                _add_lines(baseline.lines[name], self._relative(lines))
        baseline.import_lines = self._relative(self._import_lines)
        baseline.libraries = libraries
        if code or self._failed:
            baseline.problem = f"the tests of the original fail: {', '.join(self._failed) or f'exit code {code}'}"
        return baseline

    def _relative(self, lines: Lines) -> Lines:
        return {path[self._root :]: numbers for path, numbers in lines.items()}


class SelectionPlugin:
    """Runs only some tests."""

    def __init__(self, tests: set[str]) -> None:
        self._tests = tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self._tests]


def run_pytest(files: list[str], plugins: list[Any], options: list[str]) -> int:
    """Run pytest in this process, silently; return its exit code."""
    silence = os.open(os.environ.get("MUTANTS_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    temporary = f"--basetemp={os.environ['MUTANTS_TEMPORARY']}"
    off = [word for name in ("cacheprovider", "xdist", "randomly", "faulthandler") for word in ("-p", f"no:{name}")]
    return int(pytest.main(["-q", "--timeout=0", temporary, *off, *options, *files], plugins=plugins))
