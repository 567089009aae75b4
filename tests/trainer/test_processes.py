"""The collectives against formulas: threads stand for the processes of a run, so that no process is started."""

import time

import numpy as np
import pytest
import torch

from tests.trainer.thread_group import ThreadGroup
from trainer import processes
from trainer.processes import (
    average_table_gradients,
    bytes_received,
    first_on_each_machine,
    gather_rows,
    gather_uneven_rows,
    sum_by_row,
)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> ThreadGroup:
    group = ThreadGroup(3)
    monkeypatch.setattr(processes, "dist", group)
    return group


def test_the_first_process_of_each_machine_enters_before_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    group, entered = ThreadGroup(4), list[int]()  # two machines of two processes
    monkeypatch.setattr(processes, "dist", group)
    monkeypatch.setattr(processes, "patient_group", lambda: None)
    monkeypatch.setattr(processes, "is_first_on_machine", lambda: group.get_rank() % 2 == 0)

    def enter(rank: int) -> None:
        with first_on_each_machine():
            time.sleep(0.05 * (rank % 2 == 0))  # others that do not wait are here first
            entered.append(rank)

    group.run(enter)
    assert {*entered[:2]} == {0, 2} and {*entered[2:]} == {1, 3}


def test_rows_are_gathered_in_the_order_of_the_ranks_and_their_gradients_are_summed(group: ThreadGroup) -> None:
    weights = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(0))  # of the loss of each rank

    def gather(rank: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        rows = (torch.arange(8.0).view(2, 4) + 100 * rank).requires_grad_()
        gathered = gather_rows(rows)
        (gradient,) = torch.autograd.grad((gathered * weights[rank]).sum(), rows)
        return processes.rank(), gathered.detach(), gradient

    expected = torch.cat([torch.arange(8.0).view(2, 4) + 100 * rank for rank in range(3)])
    for rank, (own, gathered, gradient) in enumerate(group.run(gather)):
        assert own == rank and gathered.equal(expected)
        torch.testing.assert_close(gradient, weights.sum(0)[2 * rank : 2 * rank + 2])


@pytest.mark.parametrize("counts", [[2, 0, 3], [0, 0, 0]])
def test_rows_of_processes_with_different_numbers_of_them_are_gathered(group: ThreadGroup, counts: list[int]) -> None:
    expected = torch.cat([torch.full((count, 2), float(rank)) for rank, count in enumerate(counts)])

    def gather(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.full((counts[rank], 2), float(rank), requires_grad=True)
        gathered = gather_uneven_rows(rows)
        (gradient,) = torch.autograd.grad(((rank + 1) * gathered).sum(), rows)
        return gathered.detach(), gradient

    for rank, (gathered, gradient) in enumerate(group.run(gather)):
        assert gathered.equal(expected) and gradient.equal(torch.full((counts[rank], 2), 6.0))


@pytest.mark.parametrize(("size", "collective"), [(1_000, "all_gather"), (8, "all_reduce")])
def test_gradients_of_a_table_are_averaged_over_processes_with_different_numbers_of_rows(group, size, collective):
    rows = [[5, 2, 5, 7], [], [2, 7, 3, 3, 1]]
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(len(part), 2, generator=generator) for part in rows]
    expected = torch.zeros(size, 2)
    for part, value in zip(rows, values, strict=True):
        for row, vector in zip(part, value, strict=True):
            expected[row] += vector / 3

    def average(rank: int) -> tuple[torch.Tensor, list[int]]:
        table = torch.nn.Parameter(torch.zeros(size, 2))
        index = torch.tensor([rows[rank]], dtype=torch.long)
        table.grad = torch.sparse_coo_tensor(index, values[rank], (size, 2), check_invariants=True)
        unused = torch.nn.Parameter(torch.zeros(size, 2))
        average_table_gradients([table, unused])
        assert table.grad is not None and unused.grad is None
        return table.grad.to_dense(), table.grad.to_sparse().coalesce().indices()[0].unique().tolist()

    for gradient, found in group.run(average):
        torch.testing.assert_close(gradient, expected)
        assert found == [1, 2, 3, 5, 7]  # without row 0, which pads
    assert group.collectives == {"all_gather", collective}


def test_a_single_process_changes_nothing() -> None:
    rows = torch.ones(2, 3, requires_grad=True)
    assert gather_rows(rows) is rows
    table = torch.nn.Parameter(torch.zeros(9, 2))
    table.grad = gradient = torch.sparse_coo_tensor([[4, 4]], torch.ones(2, 2), (9, 2), check_invariants=True)
    average_table_gradients([table])
    assert table.grad is gradient
    assert (processes.world_size(), processes.rank()) == (1, 0)


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
