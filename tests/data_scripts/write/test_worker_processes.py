"""Worker processes of a pool."""

import signal
from multiprocessing.context import SpawnProcess

from data_scripts.write.worker_processes import WorkerContext


def test_an_interrupt_does_not_reach_a_process_that_starts(monkeypatch):
    masks = list[set[signal.Signals]]()
    monkeypatch.setattr(
        SpawnProcess, "start", lambda process: masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    )
    WorkerContext().Process(target=len).start()
    masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    assert [signal.SIGINT in mask for mask in masks] == [True, False]  # a process inherits the first one
