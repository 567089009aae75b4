"""The declaration of an export format: how it is written, loaded, verified and described."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from data_scripts.files.errors import InputError
from trainer.encoders.protocol import Side

# Libraries that take seconds to import are imported in the functions that need them, so that `--help` is fast.
if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer
    from torch import nn
    from transformers import PreTrainedTokenizerFast

    from modeling_convsim.encoding import Encoder

FORMATS = ("onnx", "static")  # each declared by `FORMAT` in `trainer/export/NAME_export.py`

OUTPUTS: dict[str, str] = {
    "input": "sentence_embedding",
    "query": "query_embedding",
    "response": "response_embedding",
}
PRECISIONS = ("float32", "float16", "int8")  # from the most to the least precise


class Precision(NamedTuple):
    """How the weights are stored, each one of `PRECISIONS`."""

    matrices: str
    embeddings: str

    @property
    def lowest(self) -> str:
        """The less precise of the two."""
        return max(self, key=PRECISIONS.index)


class ExportedEncoder(Protocol):
    """An exported folder as a `SentenceEncoder`; `sizes` maps each of its outputs to its dimensions."""

    sizes: dict[str, int]

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, dimensions), float32; an output that was not exported falls back to the input's."""
        ...


@dataclass(frozen=True)
class ExportFormat:
    """One format of `trainer.export`.

    Attributes:
        name: its name in the option `--format` and in `export_formats` of the encoders.
        engine: the package that runs it.
        packages: the packages of the extra `export` that it needs.
        weights_file: the file that holds the weights.
        stores_embeddings_apart: whether the embedding tables can have another precision than the other weights.
        write: writes an encoder to a folder; raises InputError if the format cannot hold it.
        load: loads the folder, with a number of threads.
        held_by: the part of a model that the format stores.
        check_batches: batches of texts whose vectors must be those of the model.
        usage: example code for the README of the folder.
    """

    name: str
    engine: str
    packages: tuple[str, ...]
    weights_file: str
    stores_embeddings_apart: bool
    write: Callable[[Encoder, Path, Precision], None]
    load: Callable[[Path, int], ExportedEncoder]
    held_by: Callable[[Encoder], nn.Module]
    check_batches: Sequence[Sequence[str]]
    usage: str


def import_extra(name: str) -> Any:
    """Import a module of the extra `export`.

    Raises:
        InputError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"exporting needs {name.partition('.')[0]} ({error}): pip install -c constraints.txt -e '.[export]'"
        ) from error


def load_format(name: str) -> ExportFormat:
    """The format with a name in `FORMATS`."""
    return import_module(f"trainer.export.{name}_export").FORMAT


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> Tokenizer:
    """Save the tokenizer's files; returns its `Tokenizer`, without padding, that truncates as the model's does.

    If special tokens in a text are text (`split_special_tokens`, which transformers applies), it has none.
    """
    from tokenizers import Tokenizer

    from modeling_convsim.encoding.batch_tokenizer import token_limit

    tokenizer.save_pretrained(folder)
    parts = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    if tokenizer.split_special_tokens:
        parts["added_tokens"] = [token for token in parts["added_tokens"] if not token["special"]]
    backend = Tokenizer.from_str(json.dumps(parts))
    backend.no_padding()
    if (limit := token_limit(tokenizer)) is not None:
        backend.enable_truncation(limit, direction=tokenizer.truncation_side)
    else:
        backend.no_truncation()
    return backend
