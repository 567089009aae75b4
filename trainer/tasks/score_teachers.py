"""Trained models whose in-batch scores a run reproduces: distillation of an ensemble into one model."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.encoders.loading import load_encoder
from trainer.tasks.encoding import embed_batch, encode_pairs


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
        inputs = torch.cat([part.inputs for part in parts], dim=1)
        responses = torch.cat([part.responses for part in parts], dim=1) / len(parts)
        return inputs, responses

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
        if not isinstance(encoder, Encoder) or not isinstance(encoder.model, ConvSimForMultitask):
            raise InputError(
                f"score_teachers: {source} is not a multitask model of this project; name a model that a run saved "
                "(runs/NAME/model). A SentenceTransformer can be the teacher of the task distillation"
            )
        if encoder.tokenizer.get_vocab() != tokenizer.get_vocab():
            raise InputError(
                f"score_teachers: the tokenizer of {source} ({len(encoder.tokenizer):,} entries) is not that of this "
                f"run ({len(tokenizer):,} entries): train with its tokenizer, --tokenizer {source}"
            )
        models.append(encoder.model)
    return ScoreTeachers(models)
