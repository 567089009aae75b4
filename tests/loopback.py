"""What the servers of tests on the loopback interface share: their start and end, bodies, and answers with ranges."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class LoopbackServer:
    """A server in a thread while the context is open; each request has a handler with the server as `storage`."""

    handler: type["LoopbackHandler"]

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), type("Handler", (self.handler,), {"storage": self}))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class LoopbackHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # otherwise many answers wait 40 ms between their headers and their body
    storage: Any

    def read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def answer(self, status: int, data: bytes, headers: dict[str, str]) -> int:
        """Send data, or the part that the request's range names; returns the number of its bytes that were sent."""
        if status == 200 and (part := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))):
            start, end = int(part[1]), min(int(part[2] or len(data)), len(data) - 1)
            headers = {"Content-Range": f"bytes {start}-{end}/{len(data)}", **headers}
            status, data = 206, data[start : end + 1]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return 0
        self.wfile.write(data)
        return len(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients that are killed reset their connections."""
