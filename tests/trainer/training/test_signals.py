"""Signals are noted while a run trains; a second one ends its process."""

import os
import signal
import threading

import pytest

from trainer.training import signals as module
from trainer.training.signals import Interrupted, NotedSignals


@pytest.fixture
def signals():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    signals = NotedSignals()
    with signals.noting():
        yield signals
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_is_noted(signals, number, code):
    assert signals.agree() is None
    os.kill(os.getpid(), number)
    assert signals.agree() == number
    assert Interrupted(number, "saved").exit_code == code


def test_a_repeated_signal_is_the_same_one_and_a_later_one_ends_the_process(signals, monkeypatch):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)  # within the seconds in which `accelerate launch` repeats one
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(module, "SAME_SIGNAL_SECONDS", 0.0)
        os.kill(os.getpid(), signal.SIGHUP)  # a closed terminal is told of twice
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    assert signals.agree() == signal.SIGTERM


def test_handlers_are_restored_and_other_threads_have_none():
    before = signal.getsignal(signal.SIGTERM)
    with NotedSignals().noting():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    entered = []

    def enter() -> None:
        with NotedSignals().noting():
            entered.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert entered == [before]
