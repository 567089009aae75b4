"""What people answered to suggestions, whether a reply can be sent, and what a review asks them about.

Both are files of JSON lines in the folder of an index: ratings.jsonl, of `Rating`, and review.jsonl, of `HeldOut`.
"""

import os
from codecs import BOM_UTF8
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
import numpy as np

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import LOCK, locked, resolve_links
from modeling_convsim.suggestion.probability import LEAST, Curve

RATINGS, REVIEW = "ratings.jsonl", "review.jsonl"
LOCK_SECONDS = 5.0  # that a rating waits for another process
MAX_TURNS = 50
MAX_TEXT = 20_000  # characters
MAX_LINE = 2**22  # bytes
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
Turns = Annotated[list[Text], msgspec.Meta(max_length=MAX_TURNS)]
Score = Annotated[float, msgspec.Meta(ge=-1e3, le=1e3)]  # finite; NaN is refused, too
Answer = Literal["send", "edit", "no"]
Line = TypeVar("Line")


class Rating(msgspec.Struct, forbid_unknown_fields=True):
    """Whether a suggested reply to a message can be sent as it is, after a small edit, or not.

    Attributes:
        message: The message.
        reply: The suggestion.
        rating: "send", "edit" or "no".
        context: The earlier messages of the conversation, the newest first.
        score: The score of the suggestion; without one, the rating says nothing about other scores.
        source: Where it was answered: "use", or "review" of held-out messages; "from" in JSON.
    """

    message: Text
    reply: Text
    rating: Answer
    context: Turns = []
    score: Score | None = None
    source: Literal["use", "review"] = msgspec.field(default="use", name="from")

    @property
    def key(self) -> tuple[str, ...]:
        """What was rated: the message and its context, and, after an empty text, the suggestion."""
        return (self.message, *self.context, "", self.reply)


def find_index(folder: Path) -> Path:
    """The folder of an index: the given one, or `replies` in that of a run."""
    return folder if (folder / "index.json").is_file() or not (folder / "replies").is_dir() else folder / "replies"


def read_ratings(path: str | os.PathLike) -> list[Rating]:
    """The ratings of a file; of several of a suggestion, the last one.

    Raises:
        InputError: The file cannot be read, or a line is no rating.
    """
    example = '{"message": "...", "reply": "...", "rating": "send"}'
    return last_ratings(_read_lines(Path(path), Rating, f"expected a rating such as {example}"))


def _read_lines(path: Path, kind: type[Line], remedy: str) -> list[Line]:
    decoder, rows = msgspec.json.Decoder(kind), list[Line]()
    try:
        lines = path.read_bytes().removeprefix(BOM_UTF8).splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                rows.append(decoder.decode(line))
            except ValueError as error:
                raise InputError(f"{path}:{number}: {error}; {remedy}") from error
    return rows


def is_ratings(path: Path) -> bool:
    """Whether the first line of a file is a rating."""
    try:
        with path.open("rb") as stream:
            msgspec.json.decode(stream.readline(MAX_LINE).removeprefix(BOM_UTF8), type=Rating)
    except (OSError, ValueError):
        return False
    return True


def last_ratings(ratings: Iterable[Rating]) -> list[Rating]:
    """Of several ratings of a suggestion, the last one."""
    return list({each.key: each for each in ratings}.values())


def fit_ratings(ratings: Iterable[Rating]) -> Curve | None:
    """The curve of ratings with a score, in which "edit" can be sent; None for fewer than 30, or of one kind alone."""
    scored = [(each.score, each.rating != "no") for each in ratings if each.score is not None]
    scores, can_be_sent = np.array(scored, np.float64).reshape(-1, 2).T
    if len(scored) < LEAST or can_be_sent.min() == can_be_sent.max():
        return None
    return Curve.fit(scores, can_be_sent, estimated=False)


def lock_ratings(folder: Path) -> AbstractContextManager[None]:
    """Holds the lock of the ratings in a folder; it is beside the folder, because saving an index replaces that."""
    folder = resolve_links(folder)
    return locked(folder / RATINGS, folder.with_name(f".{folder.name}-ratings{LOCK}"), LOCK_SECONDS)


def add_rating(path: Path, rating: Rating) -> None:
    """Appends a rating to a file; waits for other processes that write to it.

    Raises:
        InputError: Another process holds the file's lock for 5 seconds.
        OSError: The file cannot be written.
    """
    with lock_ratings(path.parent), path.open("ab+") as stream:
        if stream.tell():
            stream.seek(-1, os.SEEK_END)
            stream.write(b"" if stream.read() == b"\n" else b"\n")  # of a file that was edited
        stream.write(msgspec.json.encode(rating) + b"\n")


class Shown(msgspec.Struct):
    """A suggestion for a held-out message."""

    text: str
    score: float


class HeldOut(msgspec.Struct):
    """A held-out message, its earlier turns, the newest first, the real reply, and up to three suggestions."""

    message: str
    context: list[str]
    reply: str
    suggestions: list[Shown]


def read_review(path: Path) -> list[HeldOut]:
    """The messages of a file.

    Raises:
        InputError: The file cannot be read, or is damaged.
    """
    return _read_lines(path, HeldOut, "restore the file, or build the index again")


def rescored(ratings: Iterable[Rating], review: Iterable[HeldOut]) -> list[Rating]:
    """Ratings of an earlier index for a new one: they have the scores of its review, and no others."""
    scores = {(each.message, *each.context, "", one.text): one.score for each in review for one in each.suggestions}
    return [msgspec.structs.replace(each, score=scores.get(each.key)) for each in ratings]
