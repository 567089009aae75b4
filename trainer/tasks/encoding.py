"""Packed batches, and the output for them of the model (with GradCache) and of an ensemble of teachers."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.loading import find_folder
from modeling_convsim.encoding.torch_model import load_model
from modeling_convsim.files.errors import InputError
from modeling_convsim.modeling_heads import ConvSimForMultitask, ConvSimMultitaskOutput, scale_responses
from trainer.data.token_cache import TokenColumn
from trainer.encoders.loading import load_encoder


def pack(column: TokenColumn, rows: np.ndarray, prefix: str = "") -> dict[str, Tensor]:
    """Pack the texts of some rows (batch,): `input_ids` (tokens,) and `cu_seqlens` (batch + 1,), int64."""
    ids, cu_seqlens = column.gather(rows)
    return {f"{prefix}input_ids": torch.from_numpy(ids), f"{prefix}cu_seqlens": torch.from_numpy(cu_seqlens)}


def encode_batch(model: nn.Module, batch: dict[str, Tensor], mini_batch_size: int | None) -> ConvSimMultitaskOutput:
    """Return the model's output for a packed batch, with the activations of `mini_batch_size` rows in memory at a time.

    GradCache (Gao et al., 2021, "Scaling deep contrastive learning batch size under memory limited setup"): the forward
    pass keeps only the embeddings of each mini-batch. After the gradient of the whole batch's loss is known, a second
    forward pass with the same dropout computes the activations again. Loss, negatives and gradient equal those of the
    whole batch at once.
    """
    rows = len(batch["cu_seqlens"]) - 1
    if mini_batch_size is None or rows <= mini_batch_size:
        return model(**batch)
    outputs = [checkpoint(partial(model, **part), use_reentrant=False) for part in _parts(batch, mini_batch_size)]
    joined: dict[str, Any] = {
        key: torch.cat([output[key] for output in outputs]) for key in outputs[0] if key != "response_scale"
    }
    return ConvSimMultitaskOutput(**joined, response_scale=outputs[0].response_scale)


def embed_batch(model: nn.Module, batch: dict[str, Tensor], mini_batch_size: int | None) -> Tensor:
    """Return the L2-normalized sentence embeddings (batch, embedding_size) of a packed batch."""
    embeddings = encode_batch(model, batch, mini_batch_size).pooler_output
    assert embeddings is not None
    return embeddings


def encode_pairs(model: nn.Module, batch: dict[str, Tensor], mini_batch_size: int | None) -> tuple[Tensor, Tensor]:
    """Return the vectors of a packed batch of conversation pairs, whose dot products are the scores of responses.

    Returns:
        Inputs, u, or u' of a model with an `input_network`, and responses, v' multiplied by the scale of the scores;
        both (batch, embedding_size).
    """
    output = encode_batch(model, batch, mini_batch_size)
    inputs = output.pooler_output if output.query_embeds is None else output.query_embeds
    assert inputs is not None
    return inputs, scale_responses(output)


def _parts(batch: dict[str, Tensor], size: int) -> Iterator[dict[str, Tensor]]:
    """Split a packed batch into parts of `size` rows."""
    prefixes = [key.removesuffix("cu_seqlens") for key in batch if key.endswith("cu_seqlens")]
    for start in range(0, len(batch["cu_seqlens"]) - 1, size):
        part = {}
        for prefix in prefixes:
            cu_seqlens = batch[f"{prefix}cu_seqlens"][start : start + size + 1]
            part[f"{prefix}input_ids"] = batch[f"{prefix}input_ids"][cu_seqlens[0] : cu_seqlens[-1]]
            part[f"{prefix}cu_seqlens"] = cu_seqlens - cu_seqlens[0]
        yield part


class ScoreTeachers:
    """An ensemble of multitask models; its score of two texts is the mean of theirs.

    The mean of dot products is the dot product of concatenated vectors, divided by the number of models. So an ensemble
    returns vectors, like a model, and a task scores both in the same way.
    """

    def __init__(self, models: Sequence[ConvSimForMultitask]) -> None:
        self._models = [model.eval().requires_grad_(False) for model in models]

    @torch.no_grad()
    def encode_pairs(self, batch: dict[str, Tensor], mini_batch_size: int | None) -> tuple[Tensor, Tensor]:
        """Return vectors of inputs and of responses, (batch, sum of the models' embedding_size), for dot products."""
        parts = [encode_pairs(model, batch, mini_batch_size) for model in self._on_device_of(batch)]
        inputs, responses = (torch.cat(vectors, dim=1) for vectors in zip(*parts, strict=True))
        return inputs, responses / len(parts)

    @torch.no_grad()
    def embed_batch(self, batch: dict[str, Tensor], mini_batch_size: int | None) -> Tensor:
        """Return vectors (batch, sum of the models' embedding_size) whose dot products are the mean cosines."""
        parts = [embed_batch(model, batch, mini_batch_size) for model in self._on_device_of(batch)]
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
        InputError: one cannot be loaded, is not a multitask model of this project, or has another tokenizer.
    """
    models = []
    for source in sources:
        encoder = load_encoder(source)
        if not isinstance(encoder, Encoder) or not encoder.model.has_heads:
            raise InputError(
                f"score_teachers: {source} is not a multitask model of this project; name a model that a run saved "
                "(runs/NAME/model). A SentenceTransformer can be the teacher of the task distillation"
            )
        if encoder.tokenizer.vocabulary != tokenizer.get_vocab():
            raise InputError(
                f"score_teachers: the tokenizer of {source} ({len(encoder.tokenizer.vocabulary):,} entries) is not "
                f"that of this run ({len(tokenizer):,} entries): train with its tokenizer, --tokenizer {source}"
            )
        models.append(cast(ConvSimForMultitask, load_model(str(find_folder(source)))[0]))
    return ScoreTeachers(models)
