import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from data_scripts.files.storage import use_pyarrow
from data_scripts.pairs import dataset as pairs
from tests.loopback_s3 import LoopbackS3

SPARK = """
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions 2
spark.ui.enabled false
spark.sql.codegen.wholeStage false
"""


@pytest.fixture(autouse=True)
def empty_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plots of datasets are empty files: drawing them takes a quarter of a second. `pairs/test_plots.py` does."""

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


@pytest.fixture
def spark(tmp_path_factory, monkeypatch) -> None:
    """Settings for little data: compiling Spark's code to the fastest machine code would take most of the time."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install -e '.[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is no java on the PATH")
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(SPARK)
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))
