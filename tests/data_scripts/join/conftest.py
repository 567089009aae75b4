import importlib.util
import shutil

import pytest

SPARK = """
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions 2
spark.ui.enabled false
spark.sql.codegen.wholeStage false
"""


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
