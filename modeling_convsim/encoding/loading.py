"""Opens a saved model from a folder or the Hub, and explains why it cannot be opened."""

import argparse
import os
from pathlib import Path
from typing import Literal, get_args

from modeling_convsim.files.errors import one_line
from modeling_convsim.files.json_files import read_object
from modeling_convsim.shipped import resolve_base

Dtype = Literal["float32", "bfloat16", "auto"]
Side = Literal["input", "query", "response"]
MODEL_HELP = "folder of a saved model, Hub id (OWNER/NAME or OWNER/NAME@REVISION), or base"
FILES = ("*.json", "*.safetensors", "*.py")  # of a model that `Encoder` or sentence-transformers reads


def add_hardware_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of every command that opens a model."""
    group = parser.add_argument_group("hardware")
    group.add_argument("--device", help="cpu, cuda, cuda:1 … (default: a GPU if there is one)")
    group.add_argument(
        "--dtype",
        choices=get_args(Dtype),
        default="float32",
        help="precision of the model; auto: bfloat16 if the device has instructions for it, otherwise float32; vectors "
        "are always float32 (default: float32)",
    )


def parse_model_id(name: str) -> tuple[str, str | None]:
    """Splits OWNER/NAME@REVISION into the id and the revision, which is None without an @."""
    model_id, _, revision = name.partition("@")
    return model_id, revision or None


def find_folder(
    name: str,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike | None = None,
    local_files_only: bool = False,
) -> Path:
    """The folder of a model: the given folder, or the one in the cache, after downloading missing files.

    Args:
        name: A folder; on the Hub, OWNER/NAME or OWNER/NAME@REVISION; or "base", the model that ships with convsim.
        revision: On the Hub: a branch, a tag or a commit; by default the branch main.
        token: On the Hub: a token, or False for none; by default the one that `hf auth login` saved.
        cache_dir: The cache's folder; by default that of `huggingface_hub`.
        local_files_only: Use the cache alone.

    Raises:
        ValueError: The model cannot be downloaded; the message says why, and what to do.
    """
    name = resolve_base(name)
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import errors, snapshot_download  # importing it takes longer than encoding a text

    model_id, named_revision = parse_model_id(name)
    try:
        folder = snapshot_download(
            model_id,
            revision=revision or named_revision,
            token=token,
            cache_dir=Path(cache_dir) if cache_dir else None,
            local_files_only=local_files_only,
            allow_patterns=list(FILES),
        )
    except errors.HFValidationError:
        reason = "no such folder, and not a Hub id (OWNER/NAME or OWNER/NAME@REVISION)"
    except (errors.HTTPError, OSError, RuntimeError) as error:
        reason = f"no such folder here, and the Hub says: {one_line(str(error))}"
    else:
        return Path(folder)
    raise ValueError(f"cannot open the model {name}: {reason}")


def read_model_type(folder: Path, name: str) -> str:
    """The `model_type` of a folder; ValueError unless it holds one of our models and its tokenizer.

    Weights may be sharded.
    """
    try:
        files = {path.name for path in folder.iterdir() if path.is_file()}
    except OSError as error:
        raise ValueError(f"cannot open the model {name}: {error.filename} cannot be read ({error.strerror})") from error
    for required in ("config.json", "model.safetensors", "tokenizer.json"):
        if not {required, f"{required}.index.json"} & files:
            raise ValueError(f"{name} holds no {required}: expected the folder of a saved model and its tokenizer")
    try:
        kind = read_object(folder / "config.json").get("model_type")
    except ValueError as error:
        raise ValueError(f"cannot open the model {name}: {error}") from error
    if not str(kind).startswith("convsim_"):
        raise ValueError(f"cannot open the model {name}: its type is {kind!r}, expected one that starts with convsim_")
    return str(kind)
