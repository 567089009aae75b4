"""Commands that work on what the sources wrote."""
