"""Serves the demo page (page.py) of a model and an index of replies.

python model_cards/space/app.py INDEX
"""

import argparse
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Parses the command line."""
    parser = _parser_class()(
        prog="python model_cards/space/app.py",
        description="Serve a page that demonstrates a model and an index of replies that was built with it.",
        epilog="GRADIO_SERVER_NAME and GRADIO_SERVER_PORT set the address (default: this machine only, port 7860 or "
        "the next free port).",
    )
    parser.add_argument(
        "index",
        nargs="?",
        type=Path,
        default=Path(__file__).parent / "replies",
        help="folder written by `python -m modeling_convsim.suggestion build`, which names its model (default: "
        "replies/ next to this file)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser (default: no)")
    return parser.parse_args(arguments)


def _parser_class() -> Any:
    """`modeling_convsim.command_line.ArgumentParser`, from its file.

    An import would run the package first, which imports torch: it takes seconds, which --help does not need.
    """
    package = find_spec("modeling_convsim")
    assert package is not None and package.origin is not None
    return runpy.run_path(str(Path(package.origin).with_name("command_line.py")))["ArgumentParser"]


def main(arguments: list[str] | None = None) -> int:
    """Serves the page; returns 2 if the index cannot be opened."""
    options = parse_arguments(arguments)

    # Imported after the arguments are parsed: importing gradio and torch takes seconds.
    import page

    from modeling_convsim.suggestion import ReplyIndex

    try:
        index = ReplyIndex.load(options.index)
    except (ValueError, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    page.serve(index, options.open)
    return 0


if __name__ == "__main__":
    sys.exit(main())
