"""Lets paths at s3:// and gs:// use pyarrow, so that nothing else must be installed; for this, import the module.

pyarrow finds the credentials where the programs of these providers look for them; AWS_ENDPOINT_URL names another server
than Amazon's. It reads hdfs://, too. URLs of other kinds need fsspec's package for them.
"""

import os
from typing import Any
from urllib.parse import urlsplit

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from upath import UPath

__all__ = ["UPath"]


class _ObjectStorage(ArrowFSWrapper):
    """A filesystem of pyarrow for `fsspec`, whose wrapper lacks what `UPath` asks of the class."""

    root_marker = ""

    @classmethod
    def _parent(cls, path: str) -> str:
        return cls._strip_protocol(path).rpartition("/")[0]


class _S3(_ObjectStorage):
    protocol = "s3"

    def __init__(self, **_: Any) -> None:
        from pyarrow.fs import S3FileSystem

        endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", ""))
        server = {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme} if endpoint.netloc else {}
        super().__init__(fs=S3FileSystem(**server))


class _GoogleCloud(_ObjectStorage):
    protocol = "gs"

    def __init__(self, **_: Any) -> None:
        from pyarrow.fs import GcsFileSystem

        super().__init__(fs=GcsFileSystem())


fsspec.register_implementation("s3", _S3, clobber=True)
fsspec.register_implementation("gs", _GoogleCloud, clobber=True)
