"""Downloads from a local server, which answers as `Server.faults` says."""

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data_scripts.commands import download
from data_scripts.commands.download import ATTEMPTS, download_file, unpack_members
from data_scripts.files import hub
from data_scripts.files.errors import InputError

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `CONTENT`; each request takes one of `faults`: a status, or what happens.

    "hang": no answer; "drip": a byte now and then; "cut": half of it; "whole" and "other": the
    range is ignored, which the answer states or not.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: list[int | str] = []
        self.ranges: list[str | None] = []
        self.ended = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_port}/folder/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        fault = self.server.faults.pop(0) if self.server.faults else ""
        if fault == "hang":
            self.server.ended.wait(10)
            return
        if isinstance(fault, int):
            self.send_error(fault)
            return
        assert self.headers["Accept-Encoding"] == "identity"  # positions are those in the file
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and fault not in ("whole", "other") else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        data = CONTENT[start:]
        self.send_response(206 if start or fault == "other" else 200)
        if start or fault == "other":
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault == "drip":
            with suppress(OSError):
                for byte in data:
                    self.wfile.write(bytes([byte]))
                    self.server.ended.wait(0.02)
            return
        self.wfile.write(data[:100_000] if fault == "cut" else data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(download, "WAIT_SECONDS", 0)
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()


def test_a_file_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.bin"
    for _ in range(2):
        download_file(server.address, path, SHA256)
    assert path.read_bytes() == CONTENT and server.ranges == [None]
    assert [file.name for file in path.parent.iterdir()] == ["file.bin"]


def test_an_interrupted_download_continues(server: Server, tmp_path: Path) -> None:
    server.faults = ["cut", 503]
    download_file(server.address, tmp_path / "file.bin", SHA256)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=100000-"]


def test_what_an_earlier_run_has_read_is_not_read_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:7])
    download_file(server.address, tmp_path / "file.bin", SHA256)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT and server.ranges == ["bytes=7-"]


@pytest.mark.parametrize(
    ("begun", "faults"), [(7, ["whole"]), (7, ["other"]), (len(CONTENT), []), (len(CONTENT) + 1, [])]
)
def test_a_download_that_cannot_continue_starts_again(
    server: Server, tmp_path: Path, begun: int, faults: list[int | str]
) -> None:
    (tmp_path / "file.bin.part").write_bytes(bytes(begun))
    server.faults = faults
    download_file(server.address, tmp_path / "file.bin", SHA256)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_another_checksum_is_refused_and_the_file_removed(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{server.address}: has the SHA-256 {SHA256}, expected 0000"):
        download_file(server.address, tmp_path / "file.bin", "0" * 64)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("faults", "message", "requests"),
    [
        ([404], "cannot be downloaded (404 Not Found); has the file been moved?", 1),
        ([500] * ATTEMPTS, f"cannot be downloaded (500 Internal Server Error, {ATTEMPTS} times)", ATTEMPTS),
        (["hang"] * ATTEMPTS, f"(timed out, {ATTEMPTS} times)", ATTEMPTS),
    ],
)
def test_failures_name_the_address_and_the_cause(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    faults: list[int | str],
    message: str,
    requests: int,
) -> None:
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.05)
    server.faults = faults
    with pytest.raises(InputError) as raised:
        download_file(server.address, tmp_path / "file.bin")
    assert str(raised.value).startswith(f"{server.address}: ") and message in str(raised.value)
    assert len(server.ranges) == requests


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "SLOW_SECONDS", 0.1)
    server.faults = ["drip"] * ATTEMPTS
    with pytest.raises(InputError, match=r"\(the server sends fewer than 1,000 bytes per second, \d times\)"):
        download_file(server.address, tmp_path / "file.bin", "")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "sts.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("test-gold/", "")
        for name in ("test-gold/STS.gs.a.txt", "test-gold/correlation.pl", "__MACOSX/test-gold/._STS.gs.a.txt"):
            file.writestr(name, name)
    return path


def test_members_are_unpacked_without_their_folders(archive: Path, tmp_path: Path) -> None:
    unpack_members(archive, ["*STS.*"], tmp_path / "out")
    assert {file.name: file.read_text() for file in (tmp_path / "out").iterdir()} == {
        "STS.gs.a.txt": "test-gold/STS.gs.a.txt"
    }
    unpack_members(archive, ["*.pl"], tmp_path / "named", "scorer")
    assert [file.name for file in (tmp_path / "named").iterdir()] == ["scorer"]


def test_an_archive_without_the_expected_files_is_refused(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"sts.zip: contains no \*.xml; has the archive changed\?"):
        unpack_members(archive, ["*.xml"], tmp_path)
    with pytest.raises(InputError, match=r"sts.zip: contains 2 files named test-gold/\*; has the archive changed\?"):
        unpack_members(archive, ["test-gold/*"], tmp_path, "scorer")


@pytest.mark.parametrize("damage", ["<html>", None])
def test_a_damaged_archive_is_named(archive: Path, tmp_path: Path, damage: str | None) -> None:
    content = bytearray(archive.read_bytes())
    content[content.index(b"test-gold/STS") + len("test-gold/STS.gs.a.txt") + 2] ^= 0xFF  # in the compressed data
    archive.write_bytes(damage.encode() if damage else content)
    with pytest.raises(InputError, match=r"sts.zip: not a readable .zip .*; delete it"):
        unpack_members(archive, ["test-gold/STS.*"], tmp_path / "out")
