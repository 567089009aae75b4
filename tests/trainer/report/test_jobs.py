"""The process pool with real commands: small scripts."""

import os
from pathlib import Path

import pytest

from trainer.report.plan import PlannedRun, last_line, run_plan

LOG = """
import sys, time
for when in ("begin", "end"):
    with open("calls", "a") as calls:
        print(when, sys.argv[1], file=calls)
    time.sleep(0.15 * (when == "begin"))
"""


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def job(name: str, *needs: str, script: str = LOG) -> PlannedRun:
    return PlannedRun(name, "", "", Path(name), ["-c", script, name], needs)


def calls() -> list[tuple[str, str]]:
    return [tuple(line.split()) for line in Path("calls").read_text().splitlines()]


def test_a_job_starts_when_the_jobs_it_needs_have_ended():
    assert run_plan([job("c", "a", "b"), job("b", "a"), job("d", "elsewhere"), job("a")], 3) == {}
    order = calls()
    for name, needs in (("c", "ab"), ("b", "a")):
        assert all(order.index(("end", need)) < order.index(("begin", name)) for need in needs)
    assert order.index(("begin", "d")) < order.index(("end", "a"))  # a need that is not a job is met


@pytest.mark.parametrize("at_a_time", [1, 3])
def test_as_many_jobs_run_at_once_as_are_allowed(at_a_time: int):
    run_plan(map(job, "abcd"), at_a_time)
    running = most = 0
    for what, _ in calls():
        running += 1 if what == "begin" else -1
        most = max(most, running)
    assert most == at_a_time and running == 0


def test_output_is_appended_to_the_log_and_threads_are_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    Path("a.log").write_text("before\n")
    run_plan([job("a", script="import os; os.system('echo $OMP_NUM_THREADS; echo to stderr >&2')")], 1)
    assert Path("a.log").read_text() == "before\n7\nto stderr\n"


def test_the_last_line_is_the_last_state_of_a_progress_bar():
    Path("a.log").write_bytes(b"begun\nstep 1\rstep 2\r\n  \n\xff")
    assert last_line(Path("a.log")) == "\N{REPLACEMENT CHARACTER}"
    Path("a.log").write_text("begun\nstep 1\rstep 2\r\n  \n")
    assert last_line(Path("a.log")) == "step 2"
    Path("a.log").write_text("\n")
    assert last_line(Path("a.log")) == ""


def test_threads_are_divided_and_every_job_has_one(monkeypatch: pytest.MonkeyPatch):
    def threads(at_a_time: int) -> int:
        run_plan([job("a", script="import os; print(os.environ['OMP_NUM_THREADS'])")], at_a_time)
        return int(last_line(Path("a.log")))

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert [threads(jobs) for jobs in (1, 2, 3, 8)] == [7, 3, 2, 1]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)), raising=False)
    for value in ("", "4,2"):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert threads(4) == 3
