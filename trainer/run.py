"""Train an encoder with the settings of a preset: `accelerate launch trainer/run.py PRESET.yaml [--key value …]`."""

import logging
import sys

from data_scripts.errors import InputError
from trainer.command_line import parse_arguments


def main() -> None:
    """Train; a mistake in the settings or the data is one line on stderr and exit code 2."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for library in ("accelerate", "datasets", "httpx", "sentence_transformers"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        arguments = parse_arguments(sys.argv[1:])
        from trainer.training.train import train  # imports torch, which --help does not need

        train(arguments)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
