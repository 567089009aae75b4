"""Distillation of a SentenceTransformer's scores of responses (Hinton et al., 2015)."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from modeling_convsim.files.errors import InputError
from trainer.data.datasets import source_name
from trainer.data.teacher import encode_columns, sample_rows
from trainer.data.token_cache import TokenColumn
from trainer.processes import gather_rows, rank
from trainer.settings import Settings
from trainer.tasks.base import Task, TaskInputs, register_task
from trainer.tasks.encoding import encode_pairs, pack
from trainer.tasks.losses import accuracy, score_divergence

CALIBRATION_PAIRS = 4_000
CANDIDATES = 1_000  # responses among which calibration ranks each true one


@register_task
class ResponseDistillation(Task):
    """Reproduce a teacher's scores of the responses of a batch: scaled cosines of its embeddings.

    The scores also tell how well the other responses fit, and the teacher may have seen more conversations than the
    run has. If its cosines are not informative, their calibrated scale, and thus its influence, is small.
    """

    name = "response_distillation"
    card_line = (
        "Response distillation: reproduce a teacher's scores for the responses of the batch (KL divergence; Hinton et "
        "al., 2015)."
    )
    required_option = "teacher"
    adds_texts = False

    def __init__(
        self,
        settings: Settings,
        inputs: TokenColumn,
        responses: TokenColumn,
        input_vectors: np.ndarray,
        response_vectors: np.ndarray,
        scale: float,
    ) -> None:
        super().__init__(settings, inputs, responses)
        self._inputs, self._responses, self._scale = inputs, responses, scale
        self._input_vectors, self._response_vectors = input_vectors, response_vectors

    @classmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        """Build one task on a sample of each dataset of conversation pairs."""
        assert settings.teacher is not None  # it is the required option
        samples = sample_rows(inputs.data, 2 * settings.teacher_pairs, cls._dataset_names(settings, inputs))
        vectors = encode_columns(settings.teacher, samples, Path(settings.cache_dir))
        tasks: dict[str, Task] = {}
        for name, rows in samples.items():
            columns = inputs.tokenize(rows, ["input", "response"])
            both = vectors[name]["input"], vectors[name]["response"]
            tasks[cls.name + name.removeprefix("pairs")] = cls(
                settings, columns["input"], columns["response"], *both, calibrated_scale(*both)
            )
        return tasks

    @staticmethod
    def _dataset_names(settings: Settings, inputs: TaskInputs) -> list[str]:
        """The names of the training datasets whose responses the teacher scores."""
        if unknown := [source for source in settings.distilled_pairs if source not in settings.pairs]:
            known = ", ".join(settings.pairs) or "none"
            raise InputError(f"distilled_pairs has {unknown[0]}, which is not in pairs ({known}): add it there, too")
        trained = list(inputs.data.of_kind("pairs"))
        names = trained
        if settings.distilled_pairs and len(settings.pairs) > 1:
            names = [f"pairs/{source_name(source)}" for source in settings.distilled_pairs]
        if not names or (missing := [name for name in names if name not in trained]):
            of = f" of {missing[0]}" if names else ""
            raise InputError(f"pairs: no training split{of}, which the task response_distillation needs")
        return names

    def __len__(self) -> int:
        return len(self._input_vectors)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack inputs and responses, and add the teacher's embeddings of them, (batch, dimension of the teacher)."""
        texts = pack(self._inputs, rows) | pack(self._responses, rows, "response_")
        return texts | {
            "teacher_inputs": torch.from_numpy(self._input_vectors[rows]).float(),
            "teacher_responses": torch.from_numpy(self._response_vectors[rows]).float(),
        }

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean KL divergence from the teacher's scores of responses for inputs, and of inputs for responses.

        `accuracy` is P@1 among the responses of all processes, `teacher_accuracy` is the teacher's P@1.
        """
        teacher_u, teacher_v = self._scale * batch.pop("teacher_inputs"), batch.pop("teacher_responses")
        inputs, responses = encode_pairs(model, batch)
        scores, target = inputs @ gather_rows(responses).T, teacher_u @ gather_rows(teacher_v).T
        back, target_back = responses @ gather_rows(inputs).T, teacher_v @ gather_rows(teacher_u).T
        loss = (score_divergence(scores, target) + score_divergence(back, target_back)) / 2
        first = len(scores) * rank()
        true = torch.arange(first, first + len(scores), device=scores.device)
        return loss, {"accuracy": accuracy(scores, true), "teacher_accuracy": accuracy(target, true)}


def calibrated_scale(inputs: np.ndarray, responses: np.ndarray) -> float:
    """Return the scale of cosines that minimizes InfoNCE: temperature scaling (Guo et al., 2017, section 4).

    Args:
        inputs: (pairs, dimension) L2-normalized embeddings of inputs.
        responses: (pairs, dimension) L2-normalized embeddings of the true responses.

    Returns:
        From 1 to 100, in steps of 12 %.
    """

    pairs = min(len(inputs), CALIBRATION_PAIRS)
    scales = np.geomspace(1, 100, 41)
    losses = np.zeros(len(scales))
    for start in range(0, pairs, CANDIDATES):
        rows = slice(start, min(start + CANDIDATES, pairs))
        cosines = torch.from_numpy(inputs[rows]).float() @ torch.from_numpy(responses[rows]).float().T
        true = torch.arange(len(cosines))
        losses += [F.cross_entropy(float(scale) * cosines, true, reduction="sum").item() for scale in scales]
    return float(scales[losses.argmin()])
