"""Summarize runs that differ in the seed: launches `trainer.sweep.seeds`."""

import sys

from trainer.sweep.seeds import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
