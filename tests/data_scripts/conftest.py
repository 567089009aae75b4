from collections.abc import Iterator

import fsspec
import pytest

from tests.loopback_s3 import LoopbackS3


@pytest.fixture
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackS3]:
    """A server of object storage, which s3:// URLs name in the test."""
    with LoopbackS3() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield server
        fsspec.get_filesystem_class("s3").clear_instance_cache()
