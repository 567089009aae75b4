"""Gradients of embedding tables by row; `training/test_distributed.py` has the collectives of two processes."""

import numpy as np
import pytest
import torch

from trainer.processes import (
    bytes_received,
    sum_by_row,
)


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
