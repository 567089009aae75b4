"""The signals that stop a training loop after its step."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch
import torch.distributed as dist

from modeling_convsim.files.command_line import stop_signals
from trainer.processes import patient_group, world_size

# `accelerate launch` forwards Ctrl-C, which its processes have already received: within this time, it is the same one.
SAME_SIGNAL_SECONDS = 2.0


class Interrupted(KeyboardInterrupt):
    """A signal has stopped the run; `exit_code` is 128 plus its number, as a shell reports it."""

    def __init__(self, number: int, state: str) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}; {state}")
        self.exit_code = 128 + number


class NotedSignals:
    """Notes the first signal that asks a process to stop; a second one ends it at once."""

    def __init__(self) -> None:
        self._number: int | None = None
        self._seconds = 0.0

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note signals until the context is left; in another thread than the main one, they are not received."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._receive) for number in stop_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def agree(self) -> int | None:
        """Return the signal that a process of the run has noted, None if none has. Every process must call this."""
        if world_size() == 1:
            return self._number
        # Not on the GPU, which would have to finish the step first.
        number = torch.tensor([self._number or 0])
        dist.all_reduce(number, dist.ReduceOp.MAX, group=patient_group())
        return int(number) or None

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._number is None:
            self._number, self._seconds = number, now
        # The shell and the system may both send a signal when a terminal is closed.
        elif now - self._seconds > SAME_SIGNAL_SECONDS and signal.Signals(number).name != "SIGHUP":
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
