"""A small S3 server on the loopback interface: the requests that s3fs makes to list, read, write and copy objects.

Objects are held in memory. moto's server does the same, but cannot be installed with the versions of constraints.txt.
"""

import hashlib
import re
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.loopback import LoopbackHandler, LoopbackServer

BUCKET = "bucket"
MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"


class _Handler(LoopbackHandler):
    storage: "LoopbackS3"

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self.read_body()
        self.storage.requests.append((self.command, key))
        found = bucket == BUCKET and (key in self.storage.objects or not key or self.command not in ("GET", "HEAD"))
        if found:
            getattr(self, f"_{self.command.lower()}")(key, query, body)
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code><Message>NoSuchKey</Message></Error>", {})

    do_GET = do_HEAD = do_PUT = do_POST = _handle

    def _get(self, key: str, query: dict[str, str], body: bytes) -> None:
        if key:
            self._head(key, query, body)
        else:
            self._list(query)

    def _head(self, key: str, query: dict[str, str], body: bytes) -> None:
        content = self.storage.objects.get(key, b"")
        self.answer(200, content, {"ETag": _etag(content), "Last-Modified": MODIFIED})

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        files, folders = [], set()
        for key in sorted(self.storage.objects):
            if key.startswith(prefix):
                head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
                if found:
                    folders.add(prefix + head + found)
                else:
                    files.append(key)
        limit = int(query.get("max-keys", 1000))
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.storage.objects[key])}</Size>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in files[:limit]
        )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in sorted(folders)
        )
        count = len(files[:limit]) + len(folders)
        self._answer_xml(
            "ListBucketResult", f"<IsTruncated>false</IsTruncated><KeyCount>{count}</KeyCount>{contents}{common}"
        )

    def _put(self, key: str, query: dict[str, str], body: bytes) -> None:
        source = self.headers.get("x-amz-copy-source")
        if source:
            body = self.storage.objects[unquote(source).lstrip("/").partition("/")[2]]
        self.storage.objects[key] = body
        if source:
            self._answer_xml("CopyObjectResult", f"<ETag>{_etag(body)}</ETag>")
        else:
            self.answer(200, b"", {"ETag": _etag(body)})

    def _post(self, key: str, query: dict[str, str], body: bytes) -> None:
        for name in re.findall(r"<Key>(.*?)</Key>", body.decode()):  # s3fs deletes objects in no other way
            self.storage.objects.pop(name, None)
        self._answer_xml("DeleteResult", "")

    def _answer_xml(self, name: str, content: str) -> None:
        self.answer(200, f"<{name}>{content}</{name}>".encode(), {})


class LoopbackS3(LoopbackServer):
    """The server.

    Attributes:
        objects: key -> content.
        requests: method and key of each request, in order.
    """

    handler = _Handler

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []

    def environment(self) -> dict[str, str]:
        """The variables that lead a client to this server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
