"""The context of a run (settings, processes, folder), its progress, and the signals that stop it."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist
from accelerate import Accelerator

from data_scripts.files.command_line import stop_signals
from data_scripts.files.errors import InputError
from trainer.arguments import Arguments
from trainer.distributed import patient_group, world_size

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
        before = {number: signal.signal(number, self._receive) for number in stop_signals()}
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
        # A shell and the system may both tell of a closed terminal.
        elif now - self._seconds > SAME_SIGNAL_SECONDS and signal.Signals(number).name != "SIGHUP":
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@dataclass(frozen=True)
class RunContext:
    """The constant context of a run."""

    arguments: Arguments
    accelerator: Accelerator
    folder: Path
    started: float = field(default_factory=time.monotonic)
    """`time.monotonic()` at the start of this process's part of the run."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the datasets and the tokenizer, on the first process of each machine only."""
    interruption: Interruption = field(default_factory=Interruption)


@dataclass
class Progress:
    """The progress of a run; each checkpoint stores it as `progress.json`."""

    step: int = 0
    """Number of steps taken."""
    pairs: int = 0
    """Number of pairs trained on, over all processes."""
    seconds: float = 0.0
    """Seconds spent in the training loop, including dev evaluations."""
    best: float | None = None
    """Highest dev score so far, and the step that reached it; both on the main process only."""
    best_step: int | None = None
    threads: int | None = None
    """Number of threads that training uses; None on a GPU."""
    mixed_precision: str | None = None
    """Precision of the computations; never `auto`."""
    device: str | None = None
    """Type of the device."""
    processes: int = 1
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the datasets and the tokenizer, on the first process of each machine only."""

    @classmethod
    def at_start(cls, context: RunContext) -> "Progress":
        """Return the progress of a run that has not taken a step."""
        accelerator = context.accelerator
        return cls(
            mixed_precision=accelerator.mixed_precision,
            device=accelerator.device.type,
            threads=torch.get_num_threads() if accelerator.device.type == "cpu" else None,
            processes=accelerator.num_processes,
            fingerprints=dict(context.fingerprints),
        )
