"""The one error for a user's mistake: commands print its message and exit with code 2."""


class InputError(Exception):
    """Bad input; the message names the file and line or the option, what was expected and what to do."""
