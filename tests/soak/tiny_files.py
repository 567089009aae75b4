"""A tiny model, its tokenizer and its published folder, without training."""

from pathlib import Path

from tests.conftest import make_tiny_tokenizer
from tests.modeling_convsim.tiny_models import build


def write_model(folder: Path, kind: str = "dan_best") -> Path:
    """Save a tiny model with its tokenizer; returns the folder."""
    build(kind).save_pretrained(folder)
    make_tiny_tokenizer().save_pretrained(folder)
    return folder
