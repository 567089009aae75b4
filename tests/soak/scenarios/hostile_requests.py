"""The demo page under many requests at once, with hostile input."""

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.soak.registry import Fault, scenario

ROOT = Path(__file__).resolve().parents[3]
AT_ONCE = 100
MOST_BYTES = 1 << 30  # by which the memory of the page may grow
SECONDS = 240  # for one answer, of many at once
SCRIPT = "<script>document.title='broken'</script><img src=x onerror=alert(1)>"
TEXTS: dict[str, Any] = {
    "1 MB of words": "the dog " * 125_000,
    "1 MB without spaces": "a" * 1_000_000,
    "control characters": "".join(map(chr, range(32))) + "\x7f\x85\u2028\u0000",
    "lone surrogates": "\ud83d hello \udc00",
    "script": SCRIPT,
    "right-to-left": "\u202eשלום\u202d مرحبا \u200f",
    "empty": "",
    "a million lines": "\n" * 1_000_000,
    "combining marks": "e" + "\u0301" * 20_000,
    "null": None,
    "a number": 7,
    "a list": [SCRIPT],
    "an object": {"a": {"b": []}},
}
COUNTS: tuple[Any, ...] = (3, 10**9, 10**400, -1, 0, 2.5, float("nan"), "three", None, [1])


@scenario("concurrent hostile requests", "the demo page, 100 at once", faults=300, smoke=0)
def hostile_requests(folder: Path, draws: random.Random, count: int) -> Iterator[Fault]:
    """Send requests with hostile input at the same time; then the page must still be right, in bounded memory."""
    from modeling_convsim.encoding import Encoder
    from modeling_convsim.suggestion import ReplyIndex
    from tests.soak.tiny_files import write_model

    encoder = Encoder.from_pretrained(write_model(folder / "tiny" / "model"), "cpu")
    replies = ["I like the dog", "a big house", "see you tomorrow", "yes please", SCRIPT]
    index = ReplyIndex.build(encoder, replies, duplicate_cosine=1)
    index.save(folder / "replies")
    best = index.suggest("hello dog", 3)
    with _served(folder) as (address, process):
        _ask(address, "compare", ["hello\ndog"])
        before = _memory(process)
        requests = [_draw(draws) for _ in range(count)]
        with ThreadPoolExecutor(AT_ONCE) as executor:
            for what, problem in executor.map(lambda request: _try(address, *request), requests):
                yield Fault(what, problem)
        grown = _memory(process) - before
        yield Fault(f"memory after {count} requests", f"grew by {grown:,} bytes" if grown > MOST_BYTES else "")
        answer = _ask(address, "suggest", ["hello dog", 3])
        is_right = all(f"{one.score:.3f}" in answer for one in best)
        yield Fault("a request after all others", "" if is_right else f"another answer: {answer[:300]}")


def _draw(draws: random.Random) -> tuple[str, str, list[Any]]:
    """A description of a request, its function, and its arguments."""
    name, text = draws.choice(list(TEXTS.items()))
    match draws.randrange(4):
        case 0:
            return f"compare: {name}", "compare", [text]
        case 1:
            return f"compare: {name}, twice", "compare", [f"{text}\n{text}" if isinstance(text, str) else text]
        case 2:
            number = draws.choice(COUNTS)
            return f"suggest: {name}, {str(number)[:9]} replies", "suggest", [text, number]
    return f"nearest: {name}", "nearest", [text]


def _try(address: str, what: str, function: str, arguments: list[Any]) -> tuple[str, str]:
    try:
        answer = _ask(address, function, arguments)
    except (OSError, ValueError) as error:
        return what, f"{type(error).__name__}: {error}"
    return what, "code that is not escaped" if re.search(r"<(script|img)", answer) else ""


def _ask(address: str, function: str, arguments: list[Any]) -> str:
    """The result of a function of the page, or the message that it refuses the request with.

    Raises:
        OSError: the page does not answer, or not in time.
        ValueError: the answer is neither a result nor a clear refusal.
    """
    call = Request(
        f"{address}/gradio_api/call/{function}",
        data=json.dumps({"data": arguments}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urlopen(call, timeout=SECONDS) as answer:
            event = json.load(answer)["event_id"]
        with urlopen(f"{address}/gradio_api/call/{function}/{event}", timeout=SECONDS) as answer:
            text = answer.read().decode()
    except HTTPError as error:
        if error.code in (400, 413, 422):
            return ""
        raise
    kind, data = re.findall(r"event: (complete|error)\ndata: (.*)", text)[-1]
    if kind == "error":
        message = (json.loads(data) or {}).get("error")
        if not message:
            raise ValueError(f"an error without a message: {data[:200]}")
        return str(message)
    return str(json.loads(data)[0])


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """The page of the index in `folder`/replies: its address and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"GRADIO_SERVER_PORT": str(port), "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    variables |= {"GRADIO_TEMP_DIR": str(folder / "uploads"), "OMP_NUM_THREADS": "1"}
    (folder / "uploads").mkdir()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, ROOT / "model_cards" / "space" / "app.py", folder / "replies"],
            env={**os.environ, **variables}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        for _ in range(240):
            try:
                urlopen(f"http://127.0.0.1:{port}", timeout=10).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "log").read_text()
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(30)


def _memory(process: subprocess.Popen) -> int:
    """Bytes of memory that a process holds."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10  # type: ignore[index]
