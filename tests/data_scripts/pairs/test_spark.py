"""What runs on Spark's executors, and the refusals that need no session."""

import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from data_scripts.files.errors import InputError
from data_scripts.files.storage import storage_path
from data_scripts.pairs.spark import SparkTasks, check_shared


def session(master: str, **settings: str) -> SimpleNamespace:
    """A session that records the files for executors and the settings."""
    sent, conf = [], dict[str, int]()
    given = SimpleNamespace(contains=settings.__contains__)
    context = SimpleNamespace(master=master, defaultParallelism=3, addPyFile=sent.append, getConf=lambda: given)
    return SimpleNamespace(sparkContext=context, sent=sent, settings=conf, conf=SimpleNamespace(set=conf.__setitem__))


def test_a_cluster_gets_the_code_and_can_fetch_it_until_the_end():
    on_cluster = session("spark://host:7077")
    with SparkTasks(on_cluster):
        (archive,) = on_cluster.sent
        with zipfile.ZipFile(archive) as code:
            assert {"data_scripts/__init__.py", "data_scripts/pairs/spark.py"} <= set(code.namelist())
    assert not Path(archive).exists()


def test_paths_without_a_scheme_are_refused_on_a_cluster(tmp_path):
    url, path = storage_path(tmp_path.as_uri()), tmp_path
    check_shared(session("local[*]"), [url, path])
    check_shared(session("spark://host:7077"), [url])
    with pytest.raises(InputError, match=r"a path without a scheme, but Spark runs at spark://host:7077; all machines"):
        check_shared(session("spark://host:7077"), [url, path])
