"""The folder of a saved index.

It holds index.json (`IndexFile`), replies.jsonl (text, count and, if the index has them, the message that a reply
answered), vectors.npy (float16), for 100,000 rows or more replies.faiss (the output of `build_faiss`), and, if there
are any, ratings.jsonl (`Rating`) and review.jsonl (`HeldOut`).
"""

import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from modeling_convsim.encoding.text_files import write_arrays
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import staged_folder
from modeling_convsim.files.json_files import from_json, read_object
from modeling_convsim.files.storage import write_text
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.probability import Curve
from modeling_convsim.suggestion.ratings import RATINGS, REVIEW, HeldOut, lock_ratings, read_ratings, rescored
from modeling_convsim.suggestion.search import import_faiss, needs_faiss

FORMAT = 6  # of the folder; format 5 is read too; earlier ones have replies.parquet
DUPLICATE_COSINE = 0.75  # of sentence embeddings: of pairs of suggestions that were read, nearly all say the same
INDEX_FILES = frozenset(
    {"index.json", "replies.jsonl", "replies.parquet", "vectors.npy", "replies.faiss", "SHA256SUMS", RATINGS, REVIEW}
)
ROW = ("text", "count", "message")  # of replies.jsonl


@dataclass(frozen=True)
class IndexSettings:
    """How an index scores and selects replies: see `ReplyIndex`.

    Attributes:
        duplicate_cosine: Of replies whose sentence embeddings have this cosine or more, only the best is suggested; 1
            turns this off.
        by_messages: Whether only the messages that replies answered are scored.
        message_weight: The weight of these messages in the score; 0 if the vectors do not hold them.
        consensus_weight: The weight of a reply's agreement with the other good replies.
        diversity: How much suggestions after the first should differ: see `deduplication.select_diverse`.
        curve: The probability of a score, if that was measured.
    """

    duplicate_cosine: float = DUPLICATE_COSINE
    by_messages: bool = False
    message_weight: float = 0.0
    consensus_weight: Annotated[float, msgspec.Meta(ge=0, le=1e3)] = 0.0
    diversity: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    curve: Curve | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if a weight is out of range."""
        if not 0 < self.duplicate_cosine <= 1:
            raise ValueError(f"duplicate_cosine is {self.duplicate_cosine}, expected a number above 0, at most 1")
        if not 0 <= self.message_weight < math.inf:
            raise ValueError(f"message_weight is {self.message_weight}, expected 0 or more")


@dataclass(frozen=True)
class IndexFile:
    """The content of index.json.

    Attributes:
        model: The model's name on the Hub, or its folder: relative to the index's if both are in one folder, so that
            they can be moved together, otherwise absolute.
        weights_sha256: The encoder's `digest`.
        replies: The number of distinct replies.
        settings: See `IndexSettings`.
    """

    model: str
    weights_sha256: str
    replies: int
    settings: IndexSettings

    @property
    def scores(self) -> tuple[object, ...]:
        """What scores depend on, beside the replies."""
        return self.weights_sha256, replace(self.settings, curve=None)


def name_model(index: Path, model: str) -> str:
    """What index.json names a model: see `IndexFile.model`."""
    if not Path(model).is_dir():
        return model
    folder, model_folder = index.resolve(), Path(model).resolve()
    if model_folder.is_relative_to(folder.parent):
        return Path(os.path.relpath(model_folder, folder)).as_posix()
    return str(model_folder)


def check_index_folder(folder: Path) -> None:
    """Raises InputError if writing an index to a folder would replace something else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not _is_index(folder):
        raise InputError(
            f"{folder} exists and is not an index (no readable index.json): choose another folder, or delete this one"
        )
    if others := sorted({path.name for path in folder.iterdir()} - INDEX_FILES):
        raise InputError(f"{folder} holds {others[0]} beside an index: move it away, or choose another folder")


def _is_index(folder: Path) -> bool:
    with suppress(InputError):
        return read_object(folder / "index.json").keys() >= {"model", "weights_sha256", "replies"}
    return False


def write_index(
    folder: Path, file: IndexFile, rows: Replies, vectors: np.ndarray, faiss_index: Any, review: Sequence[HeldOut]
) -> None:
    """Writes an index's folder, replacing an existing index, whose ratings stay (`rescored`).

    Raises:
        ValueError: The folder holds something else, another process writes to it, or it cannot be written; an index
            that was there stays.
    """
    check_index_folder(folder)
    with lock_ratings(folder), staged_folder(folder) as (new, _):
        columns = [rows.texts, rows.counts.tolist(), *([rows.messages] if rows.messages else [])]
        _write_lines(new / "replies.jsonl", [dict(zip(ROW, row, strict=False)) for row in zip(*columns, strict=True)])
        write_arrays(new / "vectors.npy", [vectors.astype(np.float16, copy=False)])
        if faiss_index is not None:
            import_faiss().write_index(faiss_index, str(new / "replies.faiss"))
        if review:
            _write_lines(new / REVIEW, review)
        write_text(new / "index.json", json.dumps({"format": FORMAT, **asdict(file)}, indent=2) + "\n")
        check_index_folder(folder)  # it may have changed meanwhile
        if (folder / RATINGS).is_file():
            ratings, before = read_ratings(folder / RATINGS), read_index_file(folder)
            if before.scores != file.scores:
                ratings = rescored(ratings, review)
            _write_lines(new / RATINGS, ratings)


def _write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))


def read_index(folder: Path) -> tuple[IndexFile, Replies, np.ndarray, Any]:
    """Reads an index's folder: index.json, rows, memory-mapped vectors in float16, and the faiss index, if it has one.

    Raises:
        ValueError: A file is missing or damaged, or a dependency is not installed.
    """
    file = read_index_file(folder)
    try:
        lines = msgspec.json.Decoder(dict[str, Any]).decode_lines((folder / "replies.jsonl").read_bytes())
        columns = {name: [line[name] for line in lines] for name in ROW if name in lines[0]}
        replies = Replies(columns["text"], np.array(columns["count"], np.int64), columns.get("message"))
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        faiss_index = import_faiss().read_index(str(folder / "replies.faiss")) if needs_faiss(len(vectors)) else None
    # The type of the exception depends on the library that reads a broken file.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"cannot open the index {folder} ({reason}): rebuild it") from error
    rows, distinct = len(replies.texts), len(set(replies.texts))
    if rows != len(vectors) or distinct != file.replies:
        found = f"{rows} rows of {distinct} replies and {len(vectors)} vectors, expected {file.replies} replies"
        raise ValueError(f"cannot open the index {folder} ({found}): rebuild it")
    return file, replies, vectors, faiss_index


def read_index_file(folder: Path) -> IndexFile:
    """Reads index.json; ValueError if there is none, it has another format, or a value of another type or range."""
    if not (folder / "index.json").is_file():
        raise ValueError(f"{folder} holds no index.json: expected the output of `convsim adapt` or `convsim index`")
    try:
        values = read_object(folder / "index.json")
        version = values.pop("format", 1)
        if version == 5:  # in which there are settings of a precision, too
            known = {each.name for each in fields(IndexSettings)}
            values["settings"] = {name: value for name, value in values["settings"].items() if name in known}
        if version in (5, FORMAT):
            return from_json(IndexFile, values)
    except ValueError as error:
        raise ValueError(f"cannot open the index {folder}: index.json is damaged ({error}); rebuild it") from error
    raise ValueError(f"{folder} was written in format {version}, but this version reads format {FORMAT}: rebuild it")
