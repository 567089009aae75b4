"""Limits how long a request to the Hub waits: `huggingface_hub` sets no limit for most of them.

The wheel has the same code in `modeling_convsim/encoding/hub_client.py`, because neither package imports the other.
"""

import re
import time
from typing import Any

TIMEOUT_SECONDS = 60.0  # without an answer, or without more of one
MAX_SILENCE_SECONDS = 180.0  # of requests without any answer, after which no more are made
MAX_WAIT_SECONDS = 60  # that the Hub may ask for before the next attempt, of which there are five


class HubIsBusyError(OSError):
    """The Hub asks to wait for longer than `MAX_WAIT_SECONDS`, or has not answered for `MAX_SILENCE_SECONDS`."""


class _Silence:
    """Refuses requests when those before have had no answer for long: a pull makes many, each with several attempts."""

    def __init__(self) -> None:
        self._since: float | None = None  # when the first of the requests without an answer was made
        self._last = 0.0  # when the last request was made

    def check(self, request: Any) -> None:
        now = time.monotonic()
        if self._since is None or now - self._last > MAX_SILENCE_SECONDS:
            self._since = now
        if now - self._since > MAX_SILENCE_SECONDS:
            raise HubIsBusyError(f"{request.url.host} has not answered for {now - self._since:.0f} seconds")
        self._last = now

    def end(self, response: Any) -> None:
        self._since = None


def limit_waiting() -> None:
    """Let no request of `huggingface_hub` in this process wait without end; a limit that is set already stays."""
    # Imported here, so that --help does not wait for it.
    import huggingface_hub
    from huggingface_hub.utils import _http

    silence = _Silence()

    def make_client() -> Any:
        client = _http.default_client_factory()
        hooks = client.event_hooks
        client.event_hooks = {
            "request": [*hooks.get("request", []), silence.check, _set_timeout],
            "response": [*hooks.get("response", []), silence.end, _refuse_long_wait],
        }
        return client

    if _http._GLOBAL_CLIENT_FACTORY is _http.default_client_factory:
        huggingface_hub.set_client_factory(make_client)


def _set_timeout(request: Any) -> None:
    given = request.extensions.get("timeout", {})
    names = ("connect", "read", "write", "pool")
    request.extensions["timeout"] = {name: min(given.get(name) or TIMEOUT_SECONDS, TIMEOUT_SECONDS) for name in names}


def _refuse_long_wait(response: Any) -> None:
    asked = [response.headers.get("Retry-After", ""), *re.findall(r"\bt=(\d+)", response.headers.get("ratelimit", ""))]
    seconds = max((int(value) for value in asked if value.isdecimal()), default=0)
    if response.status_code in (429, 503) and seconds > MAX_WAIT_SECONDS:
        raise HubIsBusyError(
            f"the Hub is busy or limits the rate of requests ({response.status_code}): try again in {seconds} seconds"
        )
