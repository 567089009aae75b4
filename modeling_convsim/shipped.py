"""The files of model_cards that commands read: in the clone, or in the installed package, which has a copy."""

import os
from pathlib import Path

from modeling_convsim.files.errors import InputError

VARIABLE = "CONVSIM_BASE"
_INSTALLED = Path(__file__).resolve().parent / "model_cards"  # pyproject.toml puts it there in the wheel
MODEL_CARDS = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).resolve().parents[1] / "model_cards"


def resolve_base(name: str) -> str:
    """The name of a model; for the word `base`, that of `base_model`, unless there is a folder of this name."""
    return base_model() if name == "base" and not Path(name).is_dir() else name


def base_model() -> str:
    """The base model: the folder or Hub id that CONVSIM_BASE names, or else the folder that ships with convsim.

    Raises:
        InputError: CONVSIM_BASE is not set, and convsim was installed without the folder.

    Example:
        >>> from sentence_transformers import SentenceTransformer
        >>> SentenceTransformer(base_model()).get_embedding_dimension()
        384
    """
    if named := os.environ.get(VARIABLE):
        return named
    folder = MODEL_CARDS / "base"
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{folder}: the base model is missing; reinstall convsim, or set {VARIABLE} to the folder or Hub id of "
            "a copy or of another multitask model, such as runs/quickstart/model"
        )
    return str(folder)
