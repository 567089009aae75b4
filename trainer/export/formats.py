"""What the export formats share: names of outputs and precisions, the tokenizer's file, optional packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.files import extras

# Libraries that take seconds to import are imported in the functions that need them, so that `--help` is fast.
if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import nn
    from transformers import PreTrainedTokenizerFast

FORMATS = ("onnx", "static")  # each declared by `FORMAT` in `trainer/export/NAME_export.py`
# Side of a text -> the name of its vectors in an exported file.
OUTPUTS = {"input": "sentence_embedding", "query": "query_embedding", "response": "response_embedding"}
PRECISIONS = ("float32", "float16", "int8")  # from the most to the least precise


def import_extra(name: str) -> Any:
    """Import a module of the extra `export`.

    Raises:
        InputError: it is not installed.
    """
    return extras.import_extra(name, "export", "exporting")


def size_in_float32(module: nn.Module) -> int:
    """The size in bytes, in float32, of a module's parameters that an export has: all but those of the NLI head."""
    return sum(4 * weight.numel() for name, weight in module.named_parameters() if "nli_head." not in name)


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
