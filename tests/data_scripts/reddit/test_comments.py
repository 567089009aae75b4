"""Dumps are converted in parallel: one that fails or is lost does not keep the others waiting."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from data_scripts.clean.filters import PAPER, Filters
from data_scripts.reddit import comments
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLines


def convert(dump: Path, output: Path, filters: Filters, show_progress: bool) -> BrokenLines:
    if dump.name == "broken":
        raise InputError("broken")
    if dump.name == "killed":
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    return BrokenLines()


def convert_all(names: list[str], folder: Path) -> dict[Path, BrokenLines]:
    dumps = [folder / name for name in names]
    for dump in dumps:
        dump.touch()
    return comments._convert_in_workers([(dump, dump) for dump in dumps], 1, PAPER, 0)


@pytest.mark.timeout(30)
def test_a_worker_that_is_lost_after_a_dump_failed_does_not_keep_the_others_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr(comments, "write_comments", convert)
    monkeypatch.setattr(comments, "get_context", lambda method: multiprocessing.get_context("fork"))
    with pytest.raises(InputError, match="broken"):
        convert_all(["broken", "killed", "c", "d", "e"], tmp_path)
    with pytest.raises(InputError, match="one of 1 worker processes was killed"):
        convert_all(["killed", "b", "c", "d"], tmp_path)
    assert convert_all(["a", "b"], tmp_path).keys() == {tmp_path / "a", tmp_path / "b"}
