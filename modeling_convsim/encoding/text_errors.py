"""Errors that name the text which cannot be encoded."""

from collections.abc import Iterable, Iterator


class TextError(ValueError):
    """A text cannot be encoded; the message gives its position among the texts."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)  # what a process pool passes on
        self.position, self.reason = position, reason

    def __str__(self) -> str:
        return f"texts[{self.position}] {self.reason}"


def check_text(text: object, position: int) -> None:
    """Raises TextError unless a text is a string that UTF-8 can represent."""
    if not isinstance(text, str):
        raise TextError(position, f"is {repr(text)[:60]}, a {type(text).__name__}, expected a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            position,
            f"has the lone surrogate {text[error.start]!a} at character {error.start}, expected Unicode text: replace "
            "it, for example with text.encode('utf-8', 'replace').decode()",
        ) from None


def checked_texts(texts: Iterable[str]) -> Iterator[str]:
    """Yields texts after `check_text`."""
    for position, text in enumerate(texts):
        check_text(text, position)
        yield text


def refuse_single_string(texts: object, call: str) -> None:
    """Raises TypeError if `texts`, of which several are expected, is one string, whose characters would be taken."""
    if isinstance(texts, str):
        raise TypeError(f"texts is one string, expected several: {call}")
