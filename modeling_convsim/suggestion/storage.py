"""The folder of a saved index.

It holds index.json (settings), replies.parquet (text, count and, if the index has them, the question that a reply
answered or the answer to a question), vectors.npy (float16) and, for 100,000 replies or more, int8.npy and
projection.npy (the output of `quantize`). SHA256SUMS has their checksums.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from modeling_convsim.encoding.checksums import CHECKSUMS, find_damage, replace_files, write_checksums
from modeling_convsim.encoding.new_files import write_array
from modeling_convsim.modeling_base import ConvSimPreTrainedModel
from modeling_convsim.suggestion.calibration import Calibration
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.extra import import_extra
from modeling_convsim.suggestion.index_folder import lock_index, new_index_folder
from modeling_convsim.suggestion.options import IndexSide
from modeling_convsim.suggestion.search import Quantized, needs_int8

COMPANIONS = {"response": "question", "input": "answer"}  # side of an index -> name of the companions' column


@dataclass(frozen=True)
class IndexSettings:
    """The fields of index.json."""

    model: str  # folder or repository id of the model, as the user gave it
    weights_sha256: str
    truncate_dim: int | None
    side: IndexSide
    replies: int
    duplicate_cosine: float
    calibration: Calibration | None


class SavedIndex(NamedTuple):
    """The content of an index's folder; arrays are memory-mapped."""

    settings: IndexSettings
    replies: Replies
    vectors: np.ndarray  # (replies, dimensions), float16
    quantized: Quantized | None


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


def write_index(
    folder: Path, settings: IndexSettings, replies: Replies, vectors: np.ndarray, quantized: Quantized | None
) -> None:
    """Writes an index's folder, replacing an existing index.

    Raises:
        ValueError: The folder holds something else, another process writes to it, or pyarrow is not installed.
        OSError: The folder cannot be written; an index that was there stays.
    """
    parquet, pyarrow = (import_extra(name, "saving an index") for name in ("pyarrow.parquet", "pyarrow"))
    with new_index_folder(folder) as new:
        columns = {"text": pyarrow.array(replies.texts, pyarrow.string()), "count": replies.counts}
        if replies.companions:
            columns[COMPANIONS[settings.side]] = replies.companions
        parquet.write_table(pyarrow.table(columns), new / "replies.parquet", write_page_checksum=True)
        write_array(new / "vectors.npy", vectors.astype(np.float16, copy=False))
        if quantized is not None:
            write_array(new / "int8.npy", quantized.components)
            write_array(new / "projection.npy", quantized.projection)
        _write_settings(new, settings)
        write_checksums(new, [file.name for file in new.iterdir()])


def write_settings(folder: Path, settings: IndexSettings) -> None:
    """Writes index.json alone, of an index that is in the folder.

    Raises:
        ValueError: The folder holds another index by now, or another process writes to it.
        OSError: It cannot be written; the old settings stay.
    """
    with lock_index(folder):
        try:
            current = _read_settings(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{folder} is not an index any more ({error}): rebuild it") from error
        # The model may have been moved.
        if replace(current, model=settings.model, calibration=None) != replace(settings, calibration=None):
            raise ValueError(f"{folder} has been rebuilt since it was opened: calibrate it again")
        _write_settings(folder, settings)


def _write_settings(folder: Path, settings: IndexSettings) -> None:
    replace_files(folder, {"index.json": (json.dumps(asdict(settings), indent=2) + "\n").encode()})


def read_index(folder: Path) -> SavedIndex:
    """Reads an index's folder.

    Raises:
        ValueError: A file is missing or damaged, or pyarrow is not installed.
    """
    if not (folder / "index.json").is_file():
        raise ValueError(f"{folder} holds no index.json: expected the folder of an index, written by `build`")
    if damage := find_damage(folder):
        raise ValueError(
            f"cannot open the index {folder}: {damage}; rebuild it, or, if you changed it yourself, delete "
            f"{folder / CHECKSUMS}"
        )
    parquet = import_extra("pyarrow.parquet", "opening an index")
    try:
        settings = _read_settings(folder)
        columns = parquet.read_table(folder / "replies.parquet").to_pydict()
        companions = columns.get(COMPANIONS[settings.side])
        replies = Replies(columns["text"], np.array(columns["count"], np.int64), companions)
        vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        quantized = None
        if needs_int8(len(vectors)):
            # Mode "c", because torch warns of arrays that are read-only.
            quantized = Quantized(np.load(folder / "int8.npy", mmap_mode="c"), np.load(folder / "projection.npy"))
        _check_sizes(settings, replies, vectors, quantized)
    # The type of the exception depends on the library that reads a broken file.
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"cannot open the index {folder} ({reason}): rebuild it") from error
    return SavedIndex(settings, replies, vectors, quantized)


def _read_settings(folder: Path) -> IndexSettings:
    values = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    calibration = Calibration.from_json(values["calibration"]) if values["calibration"] else None
    # Indexes built before the option existed have no truncate_dim.
    values = {"truncate_dim": None, **values, "calibration": calibration}
    return IndexSettings(**{field.name: values[field.name] for field in fields(IndexSettings)})


def _check_sizes(settings: IndexSettings, replies: Replies, vectors: np.ndarray, quantized: Quantized | None) -> None:
    if not len(replies.texts) == len(vectors) == settings.replies:
        raise ValueError(f"{len(replies.texts)} replies and {len(vectors)} vectors, expected {settings.replies}")
    if quantized is not None:
        components, projection = (array.shape for array in quantized)
        if projection[0] != vectors.shape[1] or components != (len(vectors), projection[1]):
            raise ValueError(f"int8.npy has shape {components} and projection.npy {projection}, which do not fit")
    if settings.truncate_dim is not None and settings.truncate_dim != vectors.shape[1]:
        raise ValueError(f"vectors have {vectors.shape[1]} dimensions, expected {settings.truncate_dim}")
