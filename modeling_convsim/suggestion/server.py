"""Serves the demo page (page.py) of a model and an index of replies: `convsim demo INDEX`."""

import argparse
import os
import sys
from pathlib import Path
from socket import gethostname

from data_scripts.files.command_line import ArgumentParser

LOCAL = ("localhost", "127.0.0.1", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "[::]")  # nosec B104  # with which the page is served on all addresses


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ArgumentParser(
        prog="convsim demo",
        description="Serve a page that demonstrates a model and an index of replies that was built with it.",
        epilog="GRADIO_SERVER_NAME and GRADIO_SERVER_PORT set the address (default: this machine only, port 7860 or "
        "the next free port).",
    )
    parser.add_argument(
        "index",
        type=Path,
        help="folder written by `convsim suggest build` or `convsim adapt`, which names its model",
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name or address at which users open the page, such as that of a proxy in front of it; repeatable. "
        "Requests for other names than this and those of this machine are refused (default: none)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser (default: no)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Serves the page until the process is stopped; returns 2 if the index cannot be opened."""
    options = parse_arguments(arguments)

    # After the arguments are parsed: these take seconds to import.
    from modeling_convsim.suggestion import ReplyIndex, page

    try:
        index = ReplyIndex.load(options.index)
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    page.serve(index, allowed_hosts(options.host), options.open)
    return 0


def allowed_hosts(names: list[str]) -> list[str]:
    """The host names at which the page answers: those of this machine, of a Space, and the given ones.

    Other ones are refused, so that no other website can read the page (DNS rebinding).
    """
    served = os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1")
    space = os.environ.get("SPACE_HOST")  # on Hugging Face
    return [*LOCAL, gethostname() if served in EVERYWHERE else served, *([space] if space else []), *names]


if __name__ == "__main__":
    sys.exit(main())
