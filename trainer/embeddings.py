"""Train the papers' word-vector baselines: launches `trainer.report.word2vec`."""

import sys

from trainer.report.word2vec import main

if __name__ == "__main__":
    sys.exit(main())
