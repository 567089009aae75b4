"""Serves the demo page (page.py) of a model and an index of replies: `convsim demo INDEX`."""

import argparse
import sys
from pathlib import Path

from data_scripts.files.command_line import ArgumentParser


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
        nargs="?",
        type=Path,
        default=Path(__file__).parent / "replies",
        help="folder written by `convsim suggest build` or `convsim adapt`, which names its model (default: "
        "replies/ next to this file)",
    )
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name at which users open the page, such as that of a proxy in front of it; repeatable. Requests for "
        "other names than this and those of this machine, and requests from other sites, are refused",
    )
    parser.add_argument(
        "--feedback",
        type=Path,
        metavar="FILE",
        help="append accepted replies (copied, or a thumb up) and rejected ones (a thumb down) to this file of JSON "
        "lines, FILE.jsonl, which `convsim adapt --feedback` reads (default: they are not recorded)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser (default: no)")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Serves the page; returns 2 if the index cannot be opened."""
    options = parse_arguments(arguments)

    # After the arguments are parsed: these take seconds to import.
    import page

    from modeling_convsim.suggestion import ReplyIndex

    try:
        feedback = page.open_feedback(options.feedback) if options.feedback else None
        index = ReplyIndex.load(options.index)
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    page.serve(index, options.open, options.host, feedback)
    return 0


if __name__ == "__main__":
    sys.exit(main())
