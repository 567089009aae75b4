"""The error for a user's mistake: commands print its message and exit with code 2."""

from collections.abc import Mapping


class InputError(Exception):
    """Bad input; the message names the file and line or the option, what was expected and what to do."""


def refuse_options(given: Mapping[str, object], reason: str) -> None:
    """Refuse options that a command would ignore.

    Args:
        given: option -> whether the user gave it.
        reason: the rest of the message, after the option.

    Raises:
        InputError: one of the options was given.
    """
    for option, is_given in given.items():
        if is_given:
            raise InputError(f"{option}: {reason}")
