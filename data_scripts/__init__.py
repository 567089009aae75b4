"""From dumps, chat logs and public corpora to the data sets that the trainer reads."""
