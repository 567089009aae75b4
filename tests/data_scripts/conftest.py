from pathlib import Path

import pytest

from data_scripts.write import pairs


@pytest.fixture(autouse=True)
def empty_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plots of datasets are empty files: drawing them takes a quarter of a second. `write/test_plots.py` does."""

    def draw_plots(folder: Path, statistics: object) -> None:
        (folder / "plots").mkdir()
        for name in ("characters", "replies"):
            (folder / "plots" / f"{name}.png").touch()

    monkeypatch.setattr(pairs, "draw_plots", draw_plots)
