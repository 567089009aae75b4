"""The error for a user's mistake: commands print its message and exit with code 2."""

from collections.abc import Mapping

MAX_MESSAGE = 2_000  # characters


class InputError(ValueError):
    """Bad input; the message names the file and line or the option, what was expected and what to do.

    The message is made one line that can be printed (`one_line`), because parts of it come from files and libraries.
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


USER_ERRORS = (InputError, OSError)  # what commands print as one line


def user_message(error: Exception) -> str:
    """The line that a command prints for one of `USER_ERRORS`."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return one_line(f"{error.filename}: {error.strerror}; check the path, its permissions and the disk")
    return one_line(str(error) or type(error).__name__)


def one_line(text: str, limit: int = MAX_MESSAGE) -> str:
    """A text as one line of printable characters; the middle of one that is longer than `limit` is left out."""
    text = " ".join(filter(None, map(str.strip, _without_middle(text, limit).splitlines())))
    if text.isprintable():
        return text
    escaped = (each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return _without_middle("".join(escaped), limit)


def _without_middle(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"


def refuse_url(text: str) -> None:
    """Refuse a URL where only paths and Hub ids are read, instead of looking for a folder with its scheme's name.

    Raises:
        InputError: it is a URL.
    """
    if "://" in text:
        raise InputError(f"{text}: a URL, expected a local path; copy the files to or from a local disk")


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
