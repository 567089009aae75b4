"""Summarize runs that differ in the seed: launches `trainer.sweep.seeds`."""

import sys

from data_scripts.command_line import end_process
from trainer.sweep.seeds import main

if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
