"""The folder of a saved index.

It holds index.json (`IndexFile`), replies.jsonl (text, count and, if the index has them, the message that a reply
answered), vectors.npy (float16), for 100,000 rows or more replies.faiss (the output of `build_faiss`), and, if there
are any, ratings.jsonl (`Rating`) and review.jsonl (`HeldOut`).
"""

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from modeling_convsim.encoding.text_files import write_arrays
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.extras import import_extra
from modeling_convsim.files.folders import staged_folder
from modeling_convsim.files.json_files import from_json, read_object
from modeling_convsim.files.storage import lock_beside, locked, make_folder, resolve_links, write_text
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.probability import Curve
from modeling_convsim.suggestion.ratings import RATINGS, REVIEW, HeldOut, lock_ratings, read_ratings, rescored
from modeling_convsim.suggestion.search import import_faiss, needs_faiss

FORMAT = 6  # of the folder; indexes of replies in formats 3 to 5 are read too; 3 and 4 have replies.parquet
DUPLICATE_COSINE = 0.75  # of sentence embeddings: of pairs of suggestions that were read, nearly all say the same
INDEX_FILES = frozenset(
    {"index.json", "replies.jsonl", "replies.parquet", "vectors.npy", "replies.faiss", "SHA256SUMS", RATINGS, REVIEW}
)
ROW = ("text", "count", "message")  # of replies.jsonl
INDEX_KEYS = frozenset({"model", "weights_sha256", "replies"})


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


class SavedIndex(NamedTuple):
    """The content of an index's folder; the vectors are memory-mapped."""

    file: IndexFile
    replies: Replies
    vectors: np.ndarray  # (rows, dimensions), float16
    faiss_index: Any  # None for an index that is searched exactly


def name_model(index: Path, model: str) -> str:
    """What index.json names a model: see `IndexFile.model`."""
    if not Path(model).is_dir():
        return model
    folder, model_folder = index.resolve(), Path(model).resolve()
    if model_folder.is_relative_to(folder.parent):
        return Path(os.path.relpath(model_folder, folder)).as_posix()
    return str(model_folder)


def find_model(index: Path, name: str) -> str:
    """The folder or the name on the Hub of a model that index.json names."""
    folder = index / name
    return str(folder.resolve()) if folder.is_dir() else name


def check_index_folder(folder: Path) -> None:
    """Raises ValueError if writing an index to a folder would replace something else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not _is_index(folder):
        raise ValueError(
            f"{folder} exists and is not an index (no readable index.json): choose another folder, or delete this one"
        )
    if others := sorted({path.name for path in folder.iterdir()} - INDEX_FILES):
        raise ValueError(f"{folder} holds {others[0]} beside an index: move it away, or choose another folder")


def _is_index(folder: Path) -> bool:
    with suppress(InputError):
        return read_object(folder / "index.json").keys() >= INDEX_KEYS
    return False


@contextmanager
def lock_index(folder: Path) -> Iterator[None]:
    """Holds the lock of an index's folder.

    Raises:
        ValueError: Another process holds the lock, or it cannot be created.
    """
    folder = resolve_links(folder)
    make_folder(folder.parent)
    with locked(folder, lock_beside(folder)):
        yield


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


def read_index(folder: Path) -> SavedIndex:
    """Reads an index's folder.

    Raises:
        ValueError: A file is missing or damaged, or a dependency is not installed.
    """
    file, parquet = read_index_file(folder), None
    if not (folder / "replies.jsonl").is_file():
        parquet = import_extra("pyarrow.parquet", "suggest", f"{folder}, an index of an earlier version,")
    try:
        if parquet:
            columns = parquet.read_table(folder / "replies.parquet").to_pydict()
            columns["message"] = columns.get("message", columns.get("question"))  # in format 3
        else:
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
    return SavedIndex(file, replies, vectors, faiss_index)


def read_index_file(folder: Path) -> IndexFile:
    """Reads index.json; ValueError if there is none, it has another format, or a value of another type or range."""
    if not (folder / "index.json").is_file():
        raise ValueError(f"{folder} holds no index.json: expected what `convsim adapt` or `convsim index` has written")
    try:
        values = read_object(folder / "index.json")
        version = values.pop("format", 1)
        has_more = values.get("truncate_dim") or values.get("second")
        if version == 3 and values.get("side") == "response" and not has_more:
            version = 4
        if version in (4, 5):
            values = _from_earlier(values)
        if version in (4, 5, FORMAT):
            return from_json(IndexFile, values)
    except ValueError as error:
        raise ValueError(f"cannot open the index {folder}: index.json is damaged ({error}); rebuild it") from error
    if version == 3:
        raise ValueError(
            f"{folder} is an index of questions, of truncated vectors or of two models of an earlier version: rebuild "
            "it"
        )
    raise ValueError(f"{folder} was written in format {version}, but this version reads format {FORMAT}: rebuild it")


def _from_earlier(values: dict[str, Any]) -> dict[str, Any]:
    """The content of index.json in the present format, which has no precision of the best suggestions."""
    earlier = values.get("settings", values)  # in format 3, there is one object
    settings = {each.name: earlier[each.name] for each in fields(IndexSettings) if each.name in earlier}
    return {**{name: values[name] for name in INDEX_KEYS}, "settings": settings}
