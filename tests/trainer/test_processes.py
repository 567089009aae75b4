"""Threads of a process, and gradients by row; `training/test_distributed.py` has the collectives of two processes."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from trainer import processes
from trainer.processes import available_threads, bytes_received, describe_processes, sum_by_row


@pytest.mark.parametrize(
    ("idle", "environment", "expected"),
    [
        (1.2, {}, 1),  # a busy core
        (0.0, {}, 1),
        (3.9, {}, 4),
        (64.0, {}, 4),  # of which this process may use four
        (0.0, {"OMP_NUM_THREADS": "3"}, 3),
        (2.1, {"OMP_NUM_THREADS": "1", "ACCELERATE_MIXED_PRECISION": "no"}, 2),  # `accelerate launch` sets both
        (0.0, {"OMP_NUM_THREADS": "1", "ACCELERATE_MIXED_PRECISION": "no", "LOCAL_WORLD_SIZE": "2"}, 2),
    ],
)
def test_a_process_uses_the_idle_cores_or_the_threads_that_it_is_given(monkeypatch, idle, environment, expected):
    assert os.environ["OMP_WAIT_POLICY"] == "passive"  # by importing trainer
    for name in ("OMP_NUM_THREADS", "ACCELERATE_MIXED_PRECISION", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch, "get_num_threads", lambda: int(environment.get("OMP_NUM_THREADS", 4)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(processes, "_idle_cores", lambda: idle)
    assert available_threads() == expected


def test_a_run_says_that_a_launcher_started_one_process(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    one = SimpleNamespace(num_processes=1, mixed_precision="no", device=torch.device("cpu"))
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    assert describe_processes(one) == "1 process on CPU, 2 threads, float32"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert describe_processes(one).endswith("float32; without GPUs, `accelerate launch` starts several processes only "
                                            "with --multi_gpu")  # fmt: skip
    two = SimpleNamespace(num_processes=2, mixed_precision="bf16", device=torch.device("cpu"))
    assert describe_processes(two) == "2 processes, each on CPU, 2 threads, bfloat16"


@pytest.mark.parametrize("rows", [[], [3], [1, 2, 6], [2, 1], [4, 4], [0, 5, 5]])
def test_rows_of_a_gradient_are_distinct_sorted_and_summed(rows: list[int]) -> None:
    values = np.random.default_rng(0).normal(size=(len(rows), 2)).astype(np.float32)
    expected = np.zeros((7, 2), np.float32)
    np.add.at(expected, rows, values)
    index = torch.tensor([rows], dtype=torch.long)
    summed = sum_by_row(torch.sparse_coo_tensor(index, torch.from_numpy(values), (7, 2), check_invariants=True))
    assert summed.is_coalesced() and summed.indices()[0].tolist() == sorted(set(rows))
    np.testing.assert_allclose(summed.to_dense().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_received_bytes_by_hand(dtype: torch.dtype) -> None:
    table = torch.zeros(50, 6, dtype=dtype)
    # Rows of three other processes, each with an id of 8 bytes; or 2 * 3 / 4 of the table.
    assert bytes_received(4, 10, table) == (3 * 10 * (8 + 6 * dtype.itemsize), 1.5 * 50 * 6 * dtype.itemsize)
