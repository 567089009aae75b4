"""A small S3 server on the loopback interface: the requests that s3fs makes to list, read, write and copy objects.

Objects are held in memory. moto's server does the same, but cannot be installed with the versions of constraints.txt.
"""

import hashlib
import itertools
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
MODIFIED = "Thu, 01 Jan 2026 00:00:00 GMT"


class LoopbackS3:
    """The server, in a thread while the context is open.

    Attributes:
        objects: key -> content.
        requests: method and key of each request, in order.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count(1)
        self.requests: list[tuple[str, str]] = []

    def __enter__(self) -> "LoopbackS3":
        server = self

        class Handler(_Handler):
            storage = server

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()

    def environment(self) -> dict[str, str]:
        """The variables that lead a client to this server."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.server_port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a header and its content are sent one after the other: 40 ms otherwise
    storage: LoopbackS3

    def log_message(self, *args: object) -> None:
        pass

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):  # Amazon's own chunks, within those of HTTP
            chunks, rest = b"", body
            while True:
                head, _, rest = rest.partition(b"\r\n")
                size = int(head.split(b";")[0], 16)
                if not size:
                    return chunks
                chunks, rest = chunks + rest[:size], rest[size + 2 :]
        return body

    def _answer(self, status: int, body: bytes | str = b"", **headers: str) -> None:
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        body = self._read()
        self.storage.requests.append((self.command, key))
        if bucket != BUCKET:
            self._error(404, "NoSuchBucket")
        else:
            getattr(self, f"_{self.command.lower()}")(key, query, body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

    def _get(self, key: str, query: dict[str, str], body: bytes) -> None:
        if not key:
            self._list(query)
        elif key not in self.storage.objects:
            self._error(404, "NoSuchKey")
        else:
            content = self.storage.objects[key]
            if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                first, last = int(match[1]), int(match[2] or len(content) - 1)
                span = f"bytes {first}-{min(last, len(content) - 1)}/{len(content)}"
                self._answer(206, content[first : last + 1], Content_Range=span, ETag=_etag(content))
            else:
                self._answer(200, content, ETag=_etag(content))

    def _head(self, key: str, query: dict[str, str], body: bytes) -> None:
        if key and key not in self.storage.objects:
            self._answer(404)
        else:
            content = self.storage.objects.get(key, b"")
            self._answer(200, Content_Length=str(len(content)), ETag=_etag(content), Last_Modified=MODIFIED)

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
        self._answer(
            200,
            f"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>{count}</KeyCount>{contents}{common}"
            "</ListBucketResult>",
        )

    def _put(self, key: str, query: dict[str, str], body: bytes) -> None:
        if source := self.headers.get("x-amz-copy-source"):
            body = self.storage.objects[unquote(source).lstrip("/").partition("/")[2]]
            self.storage.objects[key] = body
            self._answer(200, f"<CopyObjectResult><ETag>{_etag(body)}</ETag></CopyObjectResult>")
            return
        if "uploadId" in query:
            self.storage.uploads[query["uploadId"]][int(query["partNumber"])] = body
        else:
            self.storage.objects[key] = body
        self._answer(200, ETag=_etag(body))

    def _post(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploads" in query:
            number = str(next(self.storage.numbers))  # of tasks that upload at the same time, too
            self.storage.uploads[number] = {}
            self._answer(200, f"<InitiateMultipartUploadResult><Key>{escape(key)}</Key><UploadId>{number}</UploadId>"
                              "</InitiateMultipartUploadResult>")  # fmt: skip
        elif "uploadId" in query:
            parts = self.storage.uploads.pop(query["uploadId"])
            self.storage.objects[key] = b"".join(parts[number] for number in sorted(parts))
            self._answer(200, f"<CompleteMultipartUploadResult><Location>/{quote(key)}</Location>"
                              f"<Key>{escape(key)}</Key><ETag>x</ETag></CompleteMultipartUploadResult>")  # fmt: skip
        else:  # delete many
            for name in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                self.storage.objects.pop(name, None)
            self._answer(200, "<DeleteResult></DeleteResult>")

    def _delete(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            self.storage.uploads.pop(query["uploadId"], None)
        else:
            self.storage.objects.pop(key, None)
        self._answer(204)


def _etag(content: bytes) -> str:
    return f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
