"""Trains an encoder with the settings of a preset: `accelerate launch trainer/run.py PRESET.yaml [--key value …]`."""

import logging
import sys

from modeling_convsim.files.command_line import run_stoppable
from trainer.settings import USAGE, list_presets, parse_settings


def main() -> int:
    """Train; returns the exit code. An error in the settings or the data is one line on stderr, with exit code 2.

    SIGTERM, SIGHUP and SIGINT (Ctrl-C) save a checkpoint and end the run with the exit code 128 + signal.

    Without arguments, list the presets.
    """
    return run_stoppable(_run)


def _run() -> int:
    if not sys.argv[1:]:
        print(f"usage: {USAGE}\n\n{list_presets()}\n`convsim train --help` lists the options.")
        return 0
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for library in ("accelerate", "datasets", "gensim", "httpx", "sentence_transformers"):
        logging.getLogger(library).setLevel(logging.WARNING)
    settings = parse_settings(sys.argv[1:])
    # These import torch, which --help does not need.
    if settings.adapt:
        from trainer.adapt.adaptation import adapt

        adapt(settings)
    else:
        from trainer.training.train import train

        train(settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
