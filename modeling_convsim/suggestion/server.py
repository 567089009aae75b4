"""Serves an index of replies, `convsim serve RUN`: a JSON API, and, if Gradio is installed, a web page.

`POST /suggest` takes a `Question`, and returns {"suggestions": [...], "estimated": ...} with the fields of `Suggestion`
and `ReplyIndex.is_estimated`. `POST /feedback` takes a `Rating`, adds it to ratings.jsonl in the index's folder, which
calibrates the index, and returns {"stored": true}, with the `Review.summary` as "known" if the rating is from the
review. The body is JSON; an error is {"error": the reason}.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from modeling_convsim.files.command_line import ArgumentParser, run_stoppable
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.extras import install_command
from modeling_convsim.suggestion.ratings import RATINGS, Rating, Text, Turns, add_rating, find_index
from modeling_convsim.suggestion.review import Review

if TYPE_CHECKING:
    from modeling_convsim.suggestion.reply_index import ReplyIndex

LOCAL = ("localhost", "127.0.0.1", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "[::]")  # noqa: S104  # with which the page is served on all addresses
MAX_BODY = 2**20  # bytes
MAX_SUGGESTIONS = 10


class Question(msgspec.Struct, forbid_unknown_fields=True):
    """A message to answer, the earlier messages of its conversation, the newest first, and the author's name."""

    message: Text
    context: Turns = []
    k: Annotated[int, msgspec.Meta(ge=1, le=MAX_SUGGESTIONS)] = 3
    min_probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    name: Text | None = None


def parse_arguments(arguments: list[str] | None, command: str = "convsim serve") -> argparse.Namespace:
    """Parses the command line."""
    parser = ArgumentParser(
        prog=command,
        description="Serve suggested replies and their probabilities as a JSON API: POST /suggest and /feedback. "
        f"With Gradio ({install_command('demo')}), the same address also serves a web page.",
        epilog="GRADIO_SERVER_NAME and GRADIO_SERVER_PORT set the address (default: this machine only, port 7860).",
    )
    parser.add_argument("run", type=Path, help="folder of a `convsim adapt` run or of an index")
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name or address at which users open the page, such as that of a proxy; repeatable. "
        "Requests to other names than this and this machine's own are refused (default: none)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser (default: no)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Serves until the process is stopped; returns 2 if the index cannot be opened."""
    return run_stoppable(lambda: _serve(parse_arguments(arguments)))


def demo(arguments: list[str] | None = None) -> int:
    """As `main`, but requires Gradio for the page: `convsim demo`."""
    return run_stoppable(lambda: _serve(parse_arguments(arguments, "convsim demo"), True))


def _serve(options: argparse.Namespace, page: bool = False) -> int:
    if page and not find_spec("gradio"):
        raise InputError(f"convsim demo needs gradio: {install_command('demo')}")
    import uvicorn

    from modeling_convsim.suggestion.reply_index import ReplyIndex

    try:
        index = ReplyIndex.load(options.run)
    except (ValueError, OSError) as error:
        raise InputError(str(error)) from error
    name, port = os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"), os.environ.get("GRADIO_SERVER_PORT", "7860")
    if not port.isdecimal():
        raise InputError(f"GRADIO_SERVER_PORT is {port!r}, expected a port number")
    app = build_app(index, find_index(options.run), allowed_hosts(options.host))
    print(f"serving {options.run} at http://{name}:{port} (press Ctrl+C to stop)", flush=True)
    if options.open:
        threading.Timer(1, webbrowser.open, [f"http://{name}:{port}"]).start()
    uvicorn.run(app, host=name, port=int(port), log_level="warning")
    return 0


def build_app(index: ReplyIndex, folder: Path, hosts: Sequence[str]) -> Any:
    """The ASGI application of an index.

    Args:
        index: The index.
        folder: The folder with its index.json, where ratings are stored.
        hosts: The host names at which it answers.
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    one_at_a_time = threading.Lock()  # an index keeps what it has encoded, and ratings change it

    def suggest(question: Question) -> dict[str, Any]:
        with one_at_a_time:
            found = index.suggest(**msgspec.structs.asdict(question))
            return {"suggestions": [asdict(each) for each in found], "estimated": index.is_estimated}

    def rate(rating: Rating) -> dict[str, Any]:
        with one_at_a_time:
            add_rating(folder / RATINGS, rating)
            index.calibrate(folder / RATINGS)  # 12 ms for 1,000 ratings
            is_of_review = rating.source == "review" and index.review
            return {"stored": True} | ({"known": Review(folder).summary()} if is_of_review else {})

    def endpoint(kind: type, answer: Callable[[Any], dict[str, Any]]) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            # A page of another website can send other types than JSON without asking first.
            if request.headers.get("content-type", "").partition(";")[0] != "application/json":
                return JSONResponse({"error": "expected the header Content-Type: application/json"}, 415)
            body = b""
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY:
                    return JSONResponse({"error": f"the body has more than {MAX_BODY:,} bytes"}, 413)
            try:
                return JSONResponse(await run_in_threadpool(answer, msgspec.json.decode(body, type=kind)))
            except msgspec.DecodeError as error:
                return JSONResponse({"error": f"{error}; expected a JSON object: {fields_of(kind)}"}, 400)
            except (ValueError, OSError) as error:
                return JSONResponse({"error": str(error)}, 400)

        return respond

    routes = [
        Route("/suggest", endpoint(Question, suggest), methods=["POST"]),
        Route("/feedback", endpoint(Rating, rate), methods=["POST"]),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(TrustedHostMiddleware, hosts, www_redirect=False)])
    if find_spec("gradio"):
        from modeling_convsim.suggestion.page import mount

        mount(app, index, folder, one_at_a_time)
    return app


def fields_of(kind: type[msgspec.Struct]) -> str:
    """The names of a struct's fields with their types in JSON, for an error message."""
    (schema,) = msgspec.json.schema(kind)["$defs"].values()
    names = []
    for name, field in schema["properties"].items():
        types = field.get("enum") or [each["type"] for each in field.get("anyOf", [field])]
        names.append(f"{name} ({' or '.join(types)}{'' if name in schema['required'] else ', optional'})")
    return ", ".join(names)


def allowed_hosts(names: list[str]) -> list[str]:
    """The allowed host names: those of this machine, that of a Space, and the given ones.

    Requests to other names are refused, so that no other website can read the page (DNS rebinding).
    """
    served = os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")
    space = os.environ.get("SPACE_HOST")  # on Hugging Face
    return [*LOCAL, gethostname() if served in EVERYWHERE else served, *([space] if space else []), *names]


if __name__ == "__main__":
    sys.exit(main())
