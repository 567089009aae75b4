"""How commands start and end: signals end a command with one line, and streams that are closed or full with nothing."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from modeling_convsim.files.command_line import LARGEST, ArgumentParser, number, run_stoppable, whole_number
from modeling_convsim.files.storage import new_file

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def hangup():
    """SIGHUP as a terminal has it: the tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_is_one_line_and_leaves_the_old_output(tmp_path, capsys, number, code):
    (tmp_path / "pairs").write_text("old")

    def command() -> int:
        with new_file(tmp_path / "pairs") as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), number)
            time.sleep(10)
        return 0

    before = signal.getsignal(number)
    assert run_stoppable(command) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"error: stopped by {number.name}; an output that was not complete was not written"]
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"] and (tmp_path / "pairs").read_text() == "old"
    assert signal.getsignal(number) == before


@pytest.mark.usefixtures("hangup")
def test_nohup_ignores_a_closed_terminal_and_a_shell_may_tell_of_it_twice(tmp_path):
    def command() -> int:
        try:
            os.kill(os.getpid(), signal.SIGHUP)
        finally:
            os.kill(os.getpid(), signal.SIGHUP)
            (tmp_path / "tidy").touch()
        return 0

    assert run_stoppable(command) == 129 and (tmp_path / "tidy").exists()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert run_stoppable(command) == 0


def test_a_library_s_own_exception_after_a_signal_is_the_same_line(capsys):
    def command() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None
        return 0

    assert run_stoppable(command) == 143
    assert capsys.readouterr().err.startswith("error: stopped by SIGTERM")
    with pytest.raises(RuntimeError, match="other"):  # without a signal, an exception passes
        run_stoppable(lambda: (_ for _ in ()).throw(RuntimeError("other")))


def test_worker_processes_end_with_the_command():
    context = multiprocessing.get_context("fork")
    is_running = context.Event()
    worker = context.Process(target=lambda: is_running.set() or time.sleep(60), daemon=True)

    def command() -> int:
        worker.start()
        is_running.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    assert run_stoppable(command) == 143
    worker.join(10)
    assert worker.exitcode == -signal.SIGTERM


PARENT = """
import multiprocessing, time
from modeling_convsim.files.command_line import end_with_parent

def work(is_ready):
    end_with_parent()
    is_ready.set()
    time.sleep(60)

is_ready = multiprocessing.Event()
worker = multiprocessing.Process(target=work, args=(is_ready,))
worker.start()
is_ready.wait()
print(worker.pid, flush=True)
worker.join()
"""


def test_a_worker_ends_with_its_parent_alone():
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        for number in (signal.SIGINT, signal.SIGHUP):  # which a terminal sends to both
            os.kill(worker, number)
        with pytest.raises(subprocess.TimeoutExpired):
            parent.wait(0.3)
        parent.kill()
        assert parent.stdout.read() == ""  # which ends when the worker has closed it, too


@pytest.mark.parametrize(
    ("kind", "right", "wrong", "expected"),
    [
        (whole_number(0), {"0": 0, " 12 ": 12, "2147483647": LARGEST},
         ["-1", "2147483648", "1.0", "x", "nan", "9" * 5000], "a whole number from 0 to 2,147,483,647"),
        (whole_number(1, 8), {"8": 8}, ["0", "9", ""], "a whole number from 1 to 8"),
        (number(0, 1), {"0": 0.0, "1": 1.0, "1e-3": 0.001}, ["-0.1", "1.1", "nan", "inf", "-inf", "x"],
         "a number from 0 to 1"),
    ],
)  # fmt: skip
def test_a_number_outside_of_its_range_is_refused_in_one_line(capsys, kind, right, wrong, expected):
    parser = ArgumentParser(prog="program")
    parser.add_argument("--size", type=kind)
    assert {text: parser.parse_args([f"--size={text}"]).size for text in right} == right
    for text in wrong:
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args([f"--size={text}"])
        error = capsys.readouterr().err
        assert error.startswith(f"error: argument --size: {text[:9]}") and error.count("\n") == 1
        assert error.endswith(f": expected {expected} (options: program --help)\n")


def test_a_command_that_has_used_duckdb_does_not_end_with_a_report_of_its_leaked_objects(tmp_path):
    (tmp_path / "c.csv").write_text("input,response\nHello,Hi\n")
    words = ["-m", "data_scripts", "conversations", str(tmp_path / "c.csv"), "-o", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "written" in done.stdout + done.stderr and "leak" not in done.stderr


@pytest.mark.parametrize(
    ("streams", "code", "message"),
    [
        ("| true; exit ${PIPESTATUS[0]}", 0, ""),
        ("> /dev/full", 2, "error: standard output: No space left on device; some output is lost\n"),
        ("2> /dev/full > /dev/null", 0, ""),
    ],
)
def test_of_a_closed_or_full_output_only_what_is_printed_is_lost(tmp_path, streams, code, message):
    program = "import sys; from tqdm import tqdm; from modeling_convsim.files.command_line import run_stoppable\n"
    program += "def run():\n    print('x' * 500_000)\n    for _ in tqdm(range(9), mininterval=0): pass\n"
    program += "    open('done', 'w').close()\n    return 0\nsys.exit(run_stoppable(run))"
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PROGRAM": program,
        "TQDM_DISABLE": "" if "2>" in streams else "1",
    }
    line = f'{sys.executable} -c "$PROGRAM" {streams}'
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (code, message) and (tmp_path / "done").exists()
