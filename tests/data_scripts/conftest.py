from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from data_scripts.files.storage import use_pyarrow
from data_scripts.pairs import dataset as pairs
from tests.loopback_s3 import LoopbackS3


@pytest.fixture(autouse=True)
def empty_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plots of datasets are empty files: drawing them takes a quarter of a second. `pairs/test_card.py` does."""

    def draw_plots(folder: Path, statistics: object) -> None:
        (folder / "plots").mkdir()
        for name in ("characters", "replies"):
            (folder / "plots" / f"{name}.png").touch()

    monkeypatch.setattr(pairs, "draw_plots", draw_plots)


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackS3]:
    """A server of object storage, which s3:// URLs name in the test."""
    with LoopbackS3() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        use_pyarrow()
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield server
        fsspec.get_filesystem_class("s3").clear_instance_cache()
