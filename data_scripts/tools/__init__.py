"""Commands that read the datasets of the other commands."""
