"""SIGTERM and SIGINT, with which machines and people stop a run: it saves a checkpoint and leaves with a message."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist

from data_scripts.files.errors import InputError
from trainer.distributed import patient_group, world_size

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# `accelerate launch` forwards Ctrl-C, which its processes have received already: for so long, it is the same signal.
SAME_SIGNAL_SECONDS = 2.0


class Interrupted(KeyboardInterrupt):
    """A signal has stopped the run; `exit_code` is 128 plus its number, as a shell reports it."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Interruption:
    """Receives the signals of a run. A second signal ends the process at once.

    The first one raises `Interrupted`, unless it is deferred: training notes it and stops after the step.
    """

    def __init__(self) -> None:
        self.saved: Path | None = None
        """The run's last checkpoint, in the main process's folder: another machine may not see it."""
        self._number: int | None = None
        self._seconds = 0.0
        self._is_deferred = False

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Receive signals until the context is left; in another thread than the main one, they are not received."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note signals until the context is left."""
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False

    def is_requested(self) -> bool:
        """Return whether any process of the run has received a signal. Every process must call this."""
        if world_size() > 1:
            # Not on the GPU, which would have to finish the step first.
            number = torch.tensor([self._number or 0])
            dist.all_reduce(number, dist.ReduceOp.MAX, group=patient_group())
            self._number = int(number) or None
        return self._number is not None

    def stop(self) -> None:
        """Raise `Interrupted` for the signal that was received."""
        number = signal.Signals(self._number or signal.SIGTERM)
        raise Interrupted(f"stopped by {number.name}", 128 + number)

    @contextmanager
    def explained(self, folder: Path) -> Iterator[None]:
        """Say how the run in a folder can be continued, if it is interrupted or loses one of its processes.

        Raises:
            InputError: another process of the run has ended.
        """
        try:
            yield
        except Interrupted as stopped:
            raise Interrupted(f"{stopped}; {self._continuation(folder)}", stopped.exit_code) from None
        except RuntimeError as error:
            # gloo raises no exception of its own.
            if world_size() > 1 and (isinstance(error, dist.DistError) or "gloo" in str(error)):
                reason = re.sub(r"^\[\S+\] ", "", str(error)).partition(". ")[0].splitlines()[0]
                raise InputError(
                    f"another process of the run has ended, or cannot be reached ({reason}); "
                    f"{self._continuation(folder)}"
                ) from error
            raise

    def _continuation(self, folder: Path) -> str:
        if self.saved:
            return f"{self.saved} is saved: continue with --resume true"
        return f"{folder} has no checkpoint of this run yet: start it again"

    def _receive(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._number is None:
            self._number, self._seconds = number, now
            if not self._is_deferred:
                self.stop()
        elif now - self._seconds > SAME_SIGNAL_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
