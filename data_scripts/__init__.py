"""Commands that turn dumps, chat logs and public datasets into the datasets that the trainer reads."""
