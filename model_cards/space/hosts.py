"""Answers only requests to the address of the page, so that no other website can read or use it (DNS rebinding)."""

from collections.abc import Collection
from ipaddress import ip_address
from socket import gethostname
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOCAL = {"localhost", "127.0.0.1", "::1"}
# Values of GRADIO_SERVER_NAME with which the page is served on all addresses of this machine.
EVERYWHERE = {"0.0.0.0", "::", "[::]"}  # nosec B104
REFUSAL = "This page does not answer requests from other sites or for this host name; app.py --host NAME allows one.\n"


class OwnHost:
    """ASGI middleware that answers 403 unless `Host` is a name of the page, and `Origin`, if there is one, the page.

    The page may be behind a proxy that sends its own `Host`: an `Origin` of one of `names` is allowed too.
    """

    def __init__(self, app: ASGIApp, server_name: str, names: Collection[str]) -> None:
        """Takes the address that is served and the host names at which users may open it, besides that address."""
        self.app, self.names = app, {name.lower() for name in names}
        self.allows_addresses = server_name in EVERYWHERE  # an IP address is no name that an attacker can rebind
        own = gethostname() if self.allows_addresses else server_name
        self.hosts = {*LOCAL, *self.names, own.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        is_allowed = scope["type"] == "lifespan" or self._allows(Headers(scope=scope))
        await (self.app if is_allowed else PlainTextResponse(REFUSAL, 403))(scope, receive, send)

    def _allows(self, headers: Headers) -> bool:
        host, origin = headers.get("host", ""), headers.get("origin")
        name = _host_name(f"//{host}")
        if not (name in self.hosts or (self.allows_addresses and _is_address(name))):
            return False
        return origin in (None, f"http://{host}", f"https://{host}") or _host_name(origin) in self.names


def _host_name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # such as //[
        return ""


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False
