"""Signals stop a run at once, or after the step if they are deferred; messages say how to continue."""

import os
import signal
import threading

import pytest
import torch.distributed as dist

from data_scripts.files.errors import InputError
from trainer.training import context as module
from trainer.training.context import Interrupted, Interruption


@pytest.fixture
def interruption():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    interruption = Interruption()
    with interruption.handle_signals():
        yield interruption
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_stops_the_run_at_once_unless_it_is_deferred(interruption, number, code):
    with interruption.deferred():
        assert not interruption.is_requested()
        os.kill(os.getpid(), number)
        assert interruption.is_requested()
    with pytest.raises(Interrupted, match=f"stopped by {number.name}") as stopped:
        interruption.stop()
    assert stopped.value.exit_code == code
    others = Interruption()
    with others.handle_signals(), pytest.raises(Interrupted) as stopped:
        os.kill(os.getpid(), number)
    assert stopped.value.exit_code == code


def test_a_repeated_signal_is_the_same_one_and_a_later_one_ends_the_process(interruption, monkeypatch):
    with pytest.raises(Interrupted):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)  # within the seconds in which `accelerate launch` repeats one
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(module, "SAME_SIGNAL_SECONDS", 0.0)
        os.kill(os.getpid(), signal.SIGHUP)  # a closed terminal is told of twice
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_handlers_are_restored_and_other_threads_have_none():
    before = signal.getsignal(signal.SIGTERM)
    with Interruption().handle_signals():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    entered = []

    def enter() -> None:
        with Interruption().handle_signals():
            entered.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [before]


def test_the_end_of_another_process_is_one_line(interruption, tmp_path, monkeypatch):
    gloo = RuntimeError("[/third_party/gloo/pair.cc:537] Read error [::1]:21: Connection reset by peer. This is\nlong")
    monkeypatch.setattr(module, "world_size", lambda: 2)
    for error in (gloo, dist.DistBackendError("NCCL error: remote process exited")):
        message = "another process of the run has ended"
        with pytest.raises(InputError, match=message) as refused, interruption.explained(tmp_path):
            raise error
        assert "\n" not in str(refused.value) and "third_party" not in str(refused.value)
    with pytest.raises(RuntimeError, match="shapes"), interruption.explained(tmp_path):
        raise RuntimeError("shapes differ")
