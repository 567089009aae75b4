"""The format static: the files of a `model2vec.StaticModel`, one vector a token."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from data_scripts.files.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.batch_tokenizer import token_limit
from trainer.encoders.protocol import Side
from trainer.export.formats import OUTPUTS, import_extra, save_tokenizer

USAGE = """from model2vec import StaticModel

model = StaticModel.from_pretrained(".")
embeddings = model.encode(["How old are you?", "What is your age?"])
print(embeddings @ embeddings.T)
"""


class StaticEncoder:
    """An exported folder in model2vec as a `SentenceEncoder`; the same vectors on every side."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        self.model = import_extra("model2vec").StaticModel.from_pretrained(folder)
        self.sizes = {OUTPUTS["input"]: self.model.dim}

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, embedding_size), float32."""
        return self.model.encode(list(texts)).astype(np.float32)


def write_static(encoder: Encoder, folder: Path, precision: str, embeddings: str) -> None:
    """Write the files of a `model2vec.StaticModel`; its only weights are `embeddings`, in `precision`.

    model2vec ignores unknown tokens and L2-normalizes, as the CBOW encoder does. sentence-transformers, which reads the
    folder too, counts unknown tokens: their row is zero, which does not change the direction of a vector.

    Raises:
        InputError: the encoder is more than an embedding table, or the format does not have this precision.
    """
    config = encoder.model.config
    if "static" not in encoder.model.base_model.export_formats:
        raise InputError(
            f"--format static: static files hold one vector a token, which are averaged; a {config.model_type} model "
            "has layers on top, which they cannot hold. Only a CBOW encoder can be static; use --format onnx"
        )
    if precision == "int8":
        raise InputError(
            "--precision int8: --format static does not have it; export float32, which model2vec's "
            'StaticModel.from_pretrained(FOLDER, quantize_to="int8") quantizes'
        )
    table = encoder.model.embedding_tables()[0].detach().numpy().copy()  # (vocab_size, embedding_size)
    table[config.unk_token_id] = 0
    static = import_extra("model2vec").StaticModel(
        table[: len(encoder.tokenizer)].astype(precision),
        save_tokenizer(encoder.tokenizer, folder),
        config={"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": config.embedding_size},
        normalize=True,
        max_length=token_limit(encoder.tokenizer),
    )
    static.save_pretrained(folder)


# Described in export.py.
FORMAT: dict[str, Any] = {
    "engine": "model2vec",
    "packages": ("model2vec",),
    "weights_file": "model.safetensors",
    "write": write_static,
    "load": StaticEncoder,
    "held_by": lambda encoder: encoder.model.base_model,
    "usage": USAGE,
}
