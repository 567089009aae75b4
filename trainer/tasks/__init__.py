"""The training tasks, one a file."""
