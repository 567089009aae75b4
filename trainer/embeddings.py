"""Train the papers' word-vector baselines: launches `trainer.report.word2vec_command`."""

from data_scripts.command_line import end_process
from trainer.report.word2vec_command import main

if __name__ == "__main__":
    end_process(main())
