"""The plots of a dataset of pairs, for statistics at their limits."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from data_scripts.pairs.plots import draw_plots
from data_scripts.pairs.statistics import MAX_LENGTH, PairStatistics


def count(lengths: list[int], inputs: list[int]) -> PairStatistics:
    """Statistics of responses of some lengths to some inputs, all in one thread."""
    statistics = PairStatistics()
    texts = ["x" * length for length in lengths]
    columns = {"input": texts, "response": texts[::-1], "thread": ["t"] * len(texts), "source": ["s"] * len(texts)}
    starts = np.diff(inputs, prepend=-1) != 0
    statistics.add(pa.table(columns), np.arange(len(texts)) == 0, starts)
    statistics.finish()
    return statistics


@pytest.mark.parametrize(
    ("lengths", "inputs"),
    [
        ([1], [0]),
        ([5] * 4, [0, 1, 2, 3]),
        ([0, MAX_LENGTH, MAX_LENGTH + 100], [0, 0, 0]),
        (list(range(1, 301)), [0] * 200 + [1] * 50 + list(range(2, 52))),
    ],
)
def test_plots_are_pngs_with_the_same_bytes_each_time(tmp_path: Path, lengths: list[int], inputs: list[int]) -> None:
    plots = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        draw_plots(tmp_path / name, count(lengths, inputs))
        plots.append({path.name: path.read_bytes() for path in (tmp_path / name / "plots").iterdir()})
    assert plots[0].keys() == {"characters.png", "replies.png"} and plots[0] == plots[1]
    assert all(data.startswith(b"\x89PNG") for data in plots[0].values())
