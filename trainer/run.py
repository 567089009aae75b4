"""Trains an encoder with the settings of a preset: `accelerate launch trainer/run.py PRESET.yaml [--key value …]`."""

import logging
import sys

from data_scripts.files.errors import USER_ERRORS, user_message
from trainer.command_line import USAGE, parse_arguments
from trainer.preset_files import list_presets


def main() -> int:
    """Train; returns the exit code. An error in the settings or the data is one line on stderr, with exit code 2.

    SIGTERM and SIGINT (Ctrl-C) save a checkpoint and end the run with exit code 143 or 130.

    Without arguments, list the presets.
    """
    if not sys.argv[1:]:
        print(f"usage: {USAGE}\n\n{list_presets()}\n`python trainer/run.py --help` lists the options.")
        return 0
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for library in ("accelerate", "datasets", "gensim", "httpx", "sentence_transformers"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        arguments = parse_arguments(sys.argv[1:])
        # These import torch, which --help does not need.
        if arguments.adapt:
            from trainer.adapt.adaptation import adapt

            adapt(arguments)
        else:
            from trainer.training.train import train

            train(arguments)
    except USER_ERRORS as error:
        print(f"error: {user_message(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        print(f"error: {stopped or 'stopped by SIGINT'}", file=sys.stderr)
        return getattr(stopped, "exit_code", 130)
    return 0


if __name__ == "__main__":
    sys.exit(main())
