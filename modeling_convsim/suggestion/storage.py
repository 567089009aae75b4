"""The folder of a saved index.

It holds index.json (settings), replies.parquet (text, count and, if the index has them, the question that a reply
answered or the answer to a question, and the variants of a reply that has several), vectors.npy (float16) and, for
100,000 rows or more, replies.faiss (the output of `build_faiss`). SHA256SUMS has their checksums.
"""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from data_scripts.files.extras import import_extra
from data_scripts.files.folders import CHECKSUMS, find_damage, replace_files, write_checksums
from data_scripts.files.json_files import from_json, read_object
from modeling_convsim.encoding.text_files import write_array
from modeling_convsim.modeling_base import ConvSimPreTrainedModel
from modeling_convsim.suggestion.calibration import Calibration
from modeling_convsim.suggestion.deduplication import Replies, Variant
from modeling_convsim.suggestion.index_folder import lock_index, new_index_folder
from modeling_convsim.suggestion.search import import_faiss, needs_faiss

FORMAT = 3  # of the folder; another one is refused
COMPANIONS = {"response": "question", "input": "answer"}  # side of an index -> name of the companions' column

IndexSide = Literal["response", "input"]


@dataclass(frozen=True)
class SecondModel:
    """The second model of an index that two models score: see `JointEncoder`."""

    model: str
    weights_sha256: str
    share: float


@dataclass(frozen=True)
class IndexSettings:
    """The fields of index.json."""

    model: str  # folder or repository id of the model, as the user gave it
    weights_sha256: str
    truncate_dim: int | None
    side: IndexSide
    replies: int
    duplicate_cosine: float
    message_weight: float  # of the messages that the replies answered; 0 if the vectors do not hold them
    calibration: Calibration | None
    no_threshold: str | None  # why nothing is suggested by default: no threshold has the required precision
    question_threshold: float | None  # of an index of questions before it is calibrated
    consensus_weight: float = 0.0  # of the agreement with the other good replies
    examples: list[str] = field(default_factory=list)  # held-out messages, which the page offers to try
    second: SecondModel | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if a weight is out of range."""
        check_weights(self.duplicate_cosine, self.message_weight)


def check_weights(duplicate_cosine: float, message_weight: float) -> None:
    """Raises ValueError if a weight of an index is out of range."""
    if not 0 < duplicate_cosine <= 1:
        raise ValueError(f"duplicate_cosine is {duplicate_cosine}, expected a number above 0, at most 1")
    if not 0 <= message_weight < math.inf:
        raise ValueError(f"message_weight is {message_weight}, expected 0 or more")


class SavedIndex(NamedTuple):
    """The content of an index's folder; the vectors are memory-mapped."""

    settings: IndexSettings
    replies: Replies
    vectors: np.ndarray  # (rows, dimensions), float16
    faiss_index: Any  # None for an index that is searched exactly


def hash_weights(model: ConvSimPreTrainedModel) -> str:
    """SHA-256 of a model's weights, rounded to bfloat16 so that it does not depend on the model's precision.

    The share of a lexical channel, which is in the config, is one of them.
    """
    digest = hashlib.sha256()
    if share := model.config.lexical_share:
        digest.update(f"lexical_share {share:g}".encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.to("cpu", torch.bfloat16).contiguous().view(torch.int16).numpy().data)
    return digest.hexdigest()


def write_index(folder: Path, settings: IndexSettings, replies: Replies, vectors: np.ndarray, faiss_index: Any) -> None:
    """Writes an index's folder, replacing an existing index.

    Raises:
        ValueError: The folder holds something else, another process writes to it, or pyarrow is not installed.
        OSError: The folder cannot be written; an index that was there stays.
    """
    parquet, pyarrow = (import_extra(name, "suggest", "saving an index") for name in ("pyarrow.parquet", "pyarrow"))
    with new_index_folder(folder) as new:
        columns = {"text": pyarrow.array(replies.texts, pyarrow.string()), "count": replies.counts}
        if replies.companions:
            columns[COMPANIONS[settings.side]] = replies.companions
        several = {text: [asdict(each) for each in variants] for text, variants in replies.variants.items()}
        columns["variants"] = [several.pop(text, None) for text in replies.texts]  # in the first row of a reply
        parquet.write_table(pyarrow.table(columns), new / "replies.parquet")
        write_array(new / "vectors.npy", vectors.astype(np.float16, copy=False))
        if faiss_index is not None:
            import_faiss().write_index(faiss_index, str(new / "replies.faiss"))
        _write_settings(new, settings)
        write_checksums(new, [file.name for file in new.iterdir()])


def write_settings(folder: Path, settings: IndexSettings) -> None:
    """Writes index.json alone, of an index that is in the folder.

    Raises:
        ValueError: The folder holds another index by now, or another process writes to it.
        OSError: It cannot be written; the old settings stay.
    """
    with lock_index(folder):
        if _fixed_settings(read_settings(folder)) != _fixed_settings(settings):
            raise ValueError(f"{folder} has been rebuilt since it was opened: calibrate it again")
        _write_settings(folder, settings)


def _fixed_settings(settings: IndexSettings) -> IndexSettings:
    """The settings without those that calibration sets, and without the model, which may have been moved."""
    return replace(settings, model="", calibration=None, no_threshold=None, examples=[])


def _write_settings(folder: Path, settings: IndexSettings) -> None:
    replace_files(
        folder, {"index.json": (json.dumps({"format": FORMAT, **asdict(settings)}, indent=2) + "\n").encode()}
    )


def read_index(folder: Path) -> SavedIndex:
    """Reads an index's folder.

    Raises:
        ValueError: A file is missing or damaged, or a dependency is not installed.
    """
    settings = read_settings(folder)
    if damage := find_damage(folder):
        remedy = f"rebuild it, or, if you changed it yourself, delete {folder / CHECKSUMS}"
        raise ValueError(f"cannot open the index {folder}: {damage}; {remedy}")
    parquet = import_extra("pyarrow.parquet", "suggest", "opening an index")
    try:
        columns = parquet.read_table(folder / "replies.parquet").to_pydict()
        companions = columns.get(COMPANIONS[settings.side])
        several = zip(columns["text"], columns.get("variants", ()), strict=False)  # older indexes have none
        variants = {text: [Variant(**each) for each in found] for text, found in several if found}
        replies = Replies(columns["text"], np.array(columns["count"], np.int64), companions, variants)
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        faiss_index = import_faiss().read_index(str(folder / "replies.faiss")) if needs_faiss(len(vectors)) else None
    # The type of the exception depends on the library that reads a broken file.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"cannot open the index {folder} ({reason}): rebuild it") from error
    rows, distinct = len(replies.texts), len(set(replies.texts))
    if rows != len(vectors) or distinct != settings.replies:
        found = f"{rows} rows of {distinct} replies and {len(vectors)} vectors, expected {settings.replies} replies"
        raise ValueError(f"cannot open the index {folder} ({found}): rebuild it")
    return SavedIndex(settings, replies, vectors, faiss_index)


def read_settings(folder: Path) -> IndexSettings:
    """Reads index.json; ValueError if there is none, it has another format, or a value of another type or range."""
    if not (folder / "index.json").is_file():
        raise ValueError(f"{folder} holds no index.json: expected the folder of an index, written by `build`")
    try:
        values = read_object(folder / "index.json")
        version = values.pop("format", 1)
        if version == FORMAT:
            return from_json(IndexSettings, values)
    except ValueError as error:
        raise ValueError(f"cannot open the index {folder}: index.json is damaged ({error}); rebuild it") from error
    raise ValueError(f"{folder} was written in format {version}, but this version reads format {FORMAT}: rebuild it")
