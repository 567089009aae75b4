"""Threads that stand for the processes of a run, so that no process is started."""

import threading
from collections.abc import Callable
from typing import Any

import torch


class ThreadGroup:
    """Replaces `torch.distributed`: each thread is a process, and a collective waits for all of them."""

    def __init__(self, processes: int) -> None:
        self.processes, self.own = processes, threading.local()
        self.given: list[Any] = [None] * processes
        self._barrier = threading.Barrier(processes, timeout=500)
        self.collectives: set[str] = set()

    def is_available(self) -> bool:
        return True

    is_initialized = is_available

    def get_world_size(self) -> int:
        return self.processes

    def get_rank(self) -> int:
        return self.own.rank

    def _exchange(self, name: str, value: Any) -> list[Any]:
        self.collectives.add(name)
        self.given[self.own.rank] = value
        self._barrier.wait()
        given = list(self.given)
        self._barrier.wait()
        return given

    def _exchange_tensors(self, name: str, tensor: torch.Tensor) -> list[torch.Tensor]:
        given = self._exchange(name, tensor.clone())
        assert len({part.shape for part in given}) == 1  # as torch demands
        return given

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        output.copy_(torch.cat(self._exchange_tensors("all_gather", tensor)))

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        output.copy_(sum(self._exchange_tensors("reduce_scatter", tensor)).chunk(self.processes)[self.own.rank])  # type: ignore[union-attr]

    def all_reduce(self, tensor: torch.Tensor) -> None:
        tensor.copy_(sum(self._exchange_tensors("all_reduce", tensor)))  # type: ignore[arg-type]

    def broadcast(self, tensor: torch.Tensor, src: int, group: None) -> None:
        tensor.copy_(self._exchange_tensors("broadcast", tensor)[src])

    def broadcast_object_list(self, values: list[Any], src: int, group: None) -> None:
        values[:] = self._exchange("broadcast", list(values))[src]

    def all_gather_object(self, values: list[Any], value: Any, group: None) -> None:
        values[:] = self._exchange("all_gather", value)

    def barrier(self, group: None) -> None:
        self._exchange("barrier", None)

    def run(self, function: Callable[[int], Any]) -> list[Any]:
        """The results of `function` of each rank, called at the same time."""
        results: list[Any] = [None] * self.processes

        def call(rank: int) -> None:
            self.own.rank = rank
            try:
                results[rank] = function(rank)
            except BaseException as error:
                results[rank] = error
                self._barrier.abort()

        threads = [threading.Thread(target=call, args=(rank,)) for rank in range(self.processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results
