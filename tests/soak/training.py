"""The training that soak scenarios attack: `trainer/run.py` in one process, or in two that this one starts.

`main` gets the words of a command line: the number of processes, a file for the log (or none), a fault, and then those
of a run.
"""

import gc
import importlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LIMIT = 60  # seconds for which a process may outlive the other one
NEVER_ENDED = 98


def main(arguments: list[str]) -> int:
    """Train; returns the exit code."""
    processes, log, fault, *words = arguments
    gc.freeze()  # the libraries are not garbage
    if log:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    if processes == "1":
        return _train(words, fault, rank=0)
    return _launch(words, fault, int(processes))


def _launch(words: list[str], fault: str, processes: int) -> int:
    """Start the processes and forward signals to them, as `accelerate launch` does; returns their highest exit code."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ranks: list[int] = []

    def forward(number: int, frame: Any) -> None:
        for child in ranks:
            with suppress(ProcessLookupError):
                os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    for rank in range(processes):
        if (child := os.fork()) == 0:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1"}
            os.environ |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "MASTER_PORT": str(port)}
            os._exit(_train(words, fault, rank))
        ranks.append(child)
    return _wait(ranks)


def _wait(ranks: list[int]) -> int:
    """Wait for all processes; kill the others `LIMIT` seconds after the first one has ended."""
    codes: dict[int, int] = {}
    first_end = None
    while len(codes) < len(ranks):
        for child in set(ranks) - set(codes):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
                first_end = first_end or time.monotonic()
        if first_end and time.monotonic() - first_end > LIMIT:
            for child in set(ranks) - set(codes):
                os.kill(child, signal.SIGKILL)
            return NEVER_ENDED
        time.sleep(0.01)
    # The code of the processes that were not killed.
    return max((code for code in codes.values() if code >= 0), default=1)


def _train(words: list[str], fault: str, rank: int) -> int:
    from trainer import run

    name, *values = fault.split(":")
    FAULTS[name](rank, *values)
    sys.argv = ["trainer/run.py", *words]
    try:
        return run.main()
    except SystemExit as stopped:  # from the parser
        return stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1


def _no_fault(rank: int) -> None:
    pass


def _kill_rank(rank: int, killed: str, step: str) -> None:
    """Kill one of the processes before it takes a step."""
    from trainer.training.loop import TrainingLoop

    take_step = TrainingLoop.step

    def step_or_die(self: TrainingLoop, index: int) -> None:
        if index == int(step) and rank == int(killed):
            os.kill(os.getpid(), signal.SIGKILL)
        take_step(self, index)

    TrainingLoop.step = step_or_die  # type: ignore[method-assign]


def _change_loss(rank: int, factor: str, step: str) -> None:
    """Multiply the loss of a step."""
    from trainer.training.loop import TrainingLoop

    compute = TrainingLoop.compute_gradients

    def compute_changed(self: TrainingLoop, index: int) -> None:
        task = self._tasks[self._plan.batch(index)[0]]
        loss = task.loss

        def change(model: Any, batch: Any) -> tuple[Any, Any]:
            value, metrics = loss(model, batch)
            return value * float(factor), metrics

        if index + 1 == int(step):
            task.loss = change  # type: ignore[method-assign]
        try:
            compute(self, index)
        finally:
            task.loss = loss  # type: ignore[method-assign]

    TrainingLoop.compute_gradients = compute_changed  # type: ignore[method-assign]


def _change_gradients(rank: int, value: str, step: str) -> None:
    """Set one value of the gradient of a step; the loss of the step stays finite."""
    from trainer.training.trainable_model import TrainableModel

    apply, calls = TrainableModel.apply_gradients, 0

    def apply_changed(self: TrainableModel) -> None:
        nonlocal calls
        calls += 1
        if calls == int(step):
            gradients = [one.grad for one in self.full.parameters() if one.grad is not None and not one.grad.is_sparse]
            gradients[0].view(-1)[0] = float(value)
        apply(self)

    TrainableModel.apply_gradients = apply_changed  # type: ignore[method-assign]


def _send_signal(rank: int, function: str, number: str, on_rank: str = "0") -> None:
    """Send a signal to a process when a function, `MODULE.NAME`, is called."""
    module, _, name = function.rpartition(".")
    owner = importlib.import_module(module)
    call = getattr(owner, name)

    def send_and_call(*arguments: Any, **options: Any) -> Any:
        if rank == int(on_rank):
            os.kill(os.getpid(), int(number))
        return call(*arguments, **options)

    setattr(owner, name, send_and_call)


FAULTS: dict[str, Callable[..., None]] = {
    "none": _no_fault,
    "kill_rank": _kill_rank,
    "loss": _change_loss,
    "gradients": _change_gradients,
    "signal": _send_signal,
}
