"""Encodes windows of texts in several threads or processes, and yields their vectors in the order of the texts."""

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, islice
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol

import numpy as np
import torch
from transformers import PreTrainedModel

from data_scripts.files.command_line import end_with_parent

MIN_TEXTS_PER_WORKER = 64  # starting a thread takes as long as encoding a few texts


class WindowEncoder(Protocol):
    """The part of `Encoder` that a worker process uses."""

    def stream(self, texts: Iterable[str], *options: Any) -> Iterator[np.ndarray]:
        """Yields vectors of texts, a few at a time."""
        ...


def split_windows(texts: Iterable[str], size: int, workers: int) -> Iterator[list[str]]:
    """Yields lists of `size` consecutive texts, reading texts as they are needed; divides few texts among all workers.

    The last list may be shorter.
    """
    remaining = iter(texts)
    first = list(islice(remaining, size * workers))
    if len(first) < size * workers:
        size = min(size, max(-(-len(first) // workers), MIN_TEXTS_PER_WORKER))
    remaining = chain(first, remaining)
    return iter(lambda: list(islice(remaining, size)), [])


_default_threads = threading.Lock()


@contextlib.contextmanager
def single_threaded_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads in each of which torch uses one thread; in all other threads torch uses as many as before.

    `torch.set_num_threads` also changes the number of every thread that uses torch for the first time afterward, so
    another thread, which computes nothing, sets that back. All threads of the pool start before it is used, so that
    none changes the number of a thread that starts later.
    """
    with ThreadPoolExecutor(1) as other:

        def initialize() -> None:
            with _default_threads:
                default = torch.get_num_threads()  # without this call, the first computation would reset the number
                torch.set_num_threads(1)
                other.submit(torch.set_num_threads, default).result()

        with ThreadPoolExecutor(threads, initializer=initialize) as executor:
            all_started = threading.Barrier(threads)
            try:
                list(executor.map(lambda _: all_started.wait(), range(threads)))
            except BaseException:  # such as a thread that the system does not start: the others no longer wait for it
                all_started.abort()
                raise
            yield executor


def encode_in_threads(
    encode: Callable[[list[str]], np.ndarray], windows: Iterator[list[str]], threads: int
) -> Iterator[np.ndarray]:
    """Yields the vectors of each window, in order; starts threads only for several windows and several threads."""
    first = list(islice(windows, 2))
    windows = chain(first, windows)
    if threads == 1 or len(first) < 2:
        yield from map(encode, windows)
        return
    with _without_tokenizer_threads(), single_threaded_pool(threads) as executor:
        yield from _map_in_order(executor, encode, windows, 2 * threads)


def encode_in_processes(
    make_encoder: Callable[[Any], WindowEncoder],
    model: PreTrainedModel,
    windows: Iterable[list[str]],
    options: tuple[Any, ...],
    processes: int,
) -> Iterator[np.ndarray]:
    """Yields the vectors of each window, in order.

    Args:
        make_encoder: Called in every process, with its model.
        model: Shared by the processes on a CPU; on GPUs each process copies it to one.
        windows: Texts that a process encodes at a time.
        options: Further arguments of `WindowEncoder.stream`.
        processes: How many to start; they share the threads that torch may use.

    Raises:
        ChildProcessError: One of them ended, for example because the system killed it when memory ran out, or there is
            too little shared memory.
    """
    threads = max(torch.get_num_threads() // processes, 1)
    context = _Context()
    try:
        if model.device.type == "cpu":
            model.share_memory()
        counter = context.Value("i", 0)
        executor = ProcessPoolExecutor(processes, context, _start_process, (make_encoder, model, counter, threads))
    except (OSError, RuntimeError) as error:
        raise ChildProcessError(
            f"the model does not fit into the shared memory of {processes} encoding processes (/dev/shm): use one "
            "process, or give a container more of it (docker run --shm-size)"
        ) from error
    with executor:
        encode = partial(_encode_in_process, options=options)
        try:
            yield from _map_in_order(executor, encode, windows, 2 * processes)
        except BrokenProcessPool as error:
            raise ChildProcessError(
                f"one of {processes} encoding processes was killed or could not start: if memory ran out, use fewer "
                "processes"
            ) from error


@contextlib.contextmanager
def _without_tokenizer_threads() -> Iterator[None]:
    """Disables the threads of the tokenizers library: they would compete with ours, of which there is one per core."""
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = before or "false"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


def _map_in_order(
    executor: Executor, encode: Callable[[list[str]], np.ndarray], windows: Iterable[list[str]], ahead: int
) -> Iterator[np.ndarray]:
    """Like `executor.map`, but submits at most `ahead` windows before their results are taken."""
    waiting: deque[Future] = deque()
    try:
        for window in windows:
            waiting.append(executor.submit(encode, window))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # The caller or an error may have stopped early. Not Future.cancel: in Python 3.11, a pool that loses a process
        # after that never ends.
        executor.shutdown(cancel_futures=True)


class _Process(SpawnProcess):
    """A process that Ctrl+C does not reach while it starts, when it would print a traceback; later it ignores it."""

    def start(self) -> None:
        if not hasattr(signal, "pthread_sigmask"):  # on Windows
            super().start()
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Context(SpawnContext):
    Process = _Process


_process_encoder: WindowEncoder  # set in processes that `encode_in_processes` starts


def _start_process(
    make_encoder: Callable[[Any], WindowEncoder], model: PreTrainedModel, counter: Any, threads: int
) -> None:
    global _process_encoder
    end_with_parent()
    torch.set_num_threads(threads)
    if model.device.type == "cuda":
        with counter.get_lock():
            number, counter.value = counter.value, counter.value + 1
        model.to(f"cuda:{number % torch.cuda.device_count()}")  # type: ignore[arg-type]
    _process_encoder = make_encoder(model)


def _encode_in_process(texts: list[str], options: tuple[Any, ...]) -> np.ndarray:
    return np.concatenate(list(_process_encoder.stream(texts, *options)))
