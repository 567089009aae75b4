"""Workers that read dumps: one that is lost after another dump failed, and Ctrl+C while they start."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from data_scripts.clean.filters import PAPER, Filters
from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLines
from data_scripts.write import comments


def convert(dump: Path, output: Path, filters: Filters) -> tuple[BrokenLines, str]:
    if dump.name == "broken":
        raise InputError("broken")
    if dump.name == "killed":
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return BrokenLines(), 64 * "0"


def collect(names: list[str], folder: Path) -> dict[Path, BrokenLines | None]:
    todo = [(Path(name), folder / name) for name in names]
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor:
        left_out = comments._collect(executor, convert, todo, PAPER, lambda dump: None)
        assert executor.submit(len, names).result() == len(names)  # a cluster continues with the join
        return left_out


@pytest.mark.timeout(200)
def test_a_worker_that_is_lost_after_a_dump_failed_does_not_keep_the_others_waiting(tmp_path):
    with pytest.raises(InputError, match="broken"):
        collect(["broken", "killed", "c", "d", "e"], tmp_path)
    with pytest.raises(BrokenProcessPool):
        collect(["killed", "b", "c", "d"], tmp_path)
    assert collect(["a", "b"], tmp_path).keys() == {Path("a"), Path("b")}
