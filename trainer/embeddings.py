"""Train the papers' word-vector baselines: launches `trainer.report.word2vec_command`."""

import sys

from trainer.report.word2vec_command import main

if __name__ == "__main__":
    sys.exit(main())
