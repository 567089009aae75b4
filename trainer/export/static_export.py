"""The format static: the files of a `model2vec.StaticModel`, one vector a token."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding.batch_tokenizer import token_limit
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.extras import import_extra
from trainer.encoders.protocol import Side
from trainer.export.onnx_export import OUTPUTS, save_tokenizer


class StaticEncoder:
    """An exported folder in model2vec as a `SentenceEncoder`; the same vectors on every side."""

    def __init__(self, folder: Path) -> None:
        self.model = import_extra("model2vec", "export", "exporting").StaticModel.from_pretrained(folder)
        self.sizes = {OUTPUTS["input"]: self.model.dim}

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, embedding_size), float32."""
        return self.model.encode(list(texts)).astype(np.float32)


def write_static(model: Any, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write the files of a `model2vec.StaticModel`; its only weights are `embeddings`.

    model2vec ignores unknown tokens and L2-normalizes, as the CBOW encoder does. sentence-transformers, which reads the
    folder too, counts unknown tokens: their row is zero, which does not change the direction of a vector.

    Raises:
        InputError: the encoder is more than an embedding table.
    """
    config = model.config
    if "static" not in model.base_model.export_formats:
        raise InputError(
            f"--format static: static files hold one vector a token, which are averaged; a {config.model_type} model "
            "has layers on top, which they cannot hold. Only a CBOW encoder can be static; use --format onnx"
        )
    table = model.embedding_tables()[0].detach().numpy().copy()  # (vocab_size, embedding_size)
    table[config.unk_token_id] = 0
    static = import_extra("model2vec", "export", "exporting").StaticModel(
        table[: len(tokenizer)],
        save_tokenizer(tokenizer, folder),
        config={"model_type": "model2vec", "architectures": ["StaticModel"], "hidden_dim": config.embedding_size},
        normalize=True,
        max_length=token_limit(tokenizer.model_max_length),
    )
    static.save_pretrained(folder)
