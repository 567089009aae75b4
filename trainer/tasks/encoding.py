"""Packed batches, and their vectors from the model and from an ensemble of teachers."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.loading import find_folder
from modeling_convsim.encoding.torch_model import load_model
from modeling_convsim.files.errors import InputError
from modeling_convsim.modeling_heads import ConvSimForMultitask, scale_responses
from trainer.data.token_cache import TokenColumn
from trainer.encoders.loading import load_encoder


def pack(column: TokenColumn, rows: np.ndarray, prefix: str = "") -> dict[str, Tensor]:
    """Pack the texts of some rows (batch,): `input_ids` (tokens,) and `cu_seqlens` (batch + 1,), int64."""
    ids, cu_seqlens = column.gather(rows)
    return {f"{prefix}input_ids": torch.from_numpy(ids), f"{prefix}cu_seqlens": torch.from_numpy(cu_seqlens)}


def embed_batch(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Return the L2-normalized sentence embeddings (batch, embedding_size) of a packed batch."""
    return model(**batch).pooler_output


def encode_pairs(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the vectors of a packed batch of conversation pairs; their dot products are the scores of responses.

    Returns:
        Inputs, u (u' for a model with an `input_network`), and responses, v' multiplied by the scale of the scores;
        both (batch, embedding_size).
    """
    output = model(**batch)
    inputs = output.pooler_output if output.query_embeds is None else output.query_embeds
    return inputs, scale_responses(output)


class ScoreTeachers:
    """An ensemble of multitask models; its score of two texts is the mean of the models' scores.

    The mean of dot products is the dot product of concatenated vectors, divided by the number of models. An ensemble
    therefore returns vectors, like a model, and a task scores both in the same way.
    """

    def __init__(self, models: Sequence[ConvSimForMultitask]) -> None:
        self._models = [model.eval().requires_grad_(False) for model in models]

    @torch.no_grad()
    def encode_pairs(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return vectors of inputs and of responses, (batch, sum of the models' embedding_size), for dot products."""
        parts = [encode_pairs(model, batch) for model in self._on_device_of(batch)]
        inputs, responses = (torch.cat(vectors, dim=1) for vectors in zip(*parts, strict=True))
        return inputs, responses / len(parts)

    @torch.no_grad()
    def embed_batch(self, batch: dict[str, Tensor]) -> Tensor:
        """Return vectors (batch, sum of the models' embedding_size) whose dot products are the mean cosines."""
        parts = [embed_batch(model, batch) for model in self._on_device_of(batch)]
        return torch.cat(parts, dim=1) / len(parts) ** 0.5

    def _on_device_of(self, batch: dict[str, Tensor]) -> list[ConvSimForMultitask]:
        device = batch["input_ids"].device
        return [model.to(device) for model in self._models]


def load_score_teachers(sources: Sequence[str], tokenizer: PreTrainedTokenizerFast) -> ScoreTeachers:
    """Load the models of the option `score_teachers`.

    Args:
        sources: folders or Hub ids.
        tokenizer: the tokenizer of the run.

    Raises:
        InputError: a model cannot be loaded, is not a multitask model of this project, or has another tokenizer.
    """
    models = []
    for source in sources:
        encoder = load_encoder(source)
        if not isinstance(encoder, Encoder) or not encoder.model.has_heads:
            raise InputError(
                f"score_teachers: {source} is not a multitask model of this project; use a model saved by a run "
                "(runs/NAME/model). To distill from a SentenceTransformer, use the task distillation"
            )
        if encoder.tokenizer.vocabulary != tokenizer.get_vocab():
            raise InputError(
                f"score_teachers: the tokenizer of {source} ({len(encoder.tokenizer.vocabulary):,} entries) differs "
                f"from this run's ({len(tokenizer):,} entries): train with its tokenizer, --tokenizer {source}"
            )
        models.append(cast(ConvSimForMultitask, load_model(str(find_folder(source)))[0]))
    return ScoreTeachers(models)
