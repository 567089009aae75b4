import pytest
import torch

from trainer.training.traffic import StepSize, log_traffic, megabytes_received

SMALL, LARGE = torch.zeros(10, 4), torch.zeros(1_000_000, 4)  # float32: 16 bytes per row
SIZE = StepSize(pairs=32, layer_parameters=250_000, table_rows=[(8, SMALL), (100, LARGE)], embedding_values=32 * 50)


def test_a_large_table_is_exchanged_as_rows_and_a_small_one_as_a_dense_tensor():
    received = megabytes_received(4, SIZE)
    # A ring all-reduce of a tensor among four processes receives 2 * 3 / 4 of it.
    assert received["layers"] == pytest.approx(1.5)
    # Rows of the small table would be 3 * 8 * 24 = 576 bytes, the whole is 1.5 * 160 = 240; each row has an id.
    assert received["tables"] == pytest.approx((240 + 3 * 100 * (8 + 16)) / 1e6)
    # The embeddings of three other processes, and their gradients.
    assert received["negatives"] == pytest.approx(2 * 3 * 32 * 50 * 4 / 1e6)


def test_a_single_process_exchanges_nothing():
    assert set(megabytes_received(1, SIZE).values()) == {0}


def test_traffic_is_logged_for_this_and_for_larger_numbers_of_processes(caplog):
    with caplog.at_level("INFO"):
        log_traffic(2, SIZE)
    assert [message.partition(" processes")[0] for message in caplog.messages] == ["with 2", "with 8", "with 64"]
    # layers 1.0 MB, tables 160 bytes and 2,400 bytes, negatives 12,800 bytes
    assert "of 32 pairs each, a process receives 1.0 MB in a step: layers 1.0, tables 0.0, neg" in caplog.messages[0]
