"""Summarize runs that differ in the seed: launches `trainer.sweep.seeds`."""

import sys

from data_scripts.command_line import exit_without_collection
from trainer.sweep.seeds import main

if __name__ == "__main__":
    exit_without_collection(main(sys.argv[1:]))
