"""Response prediction, the papers' main task (Yang et al., 2018, sections 2.1 and 2.2)."""

import numpy as np
import torch
from torch import Tensor, nn

from trainer.data.token_cache import TokenColumn
from trainer.processes import gather_rows, rank
from trainer.settings import Settings
from trainer.tasks.base import Task, TaskInputs, register_task
from trainer.tasks.encoding import ScoreTeachers, encode_pairs, pack
from trainer.tasks.losses import accuracy, in_batch_softmax


@register_task
class ResponsePrediction(Task):
    """Pick the true response from the batch: InfoNCE with in-batch negatives."""

    name = "response_prediction"
    card_line = (
        "Response prediction: pick the true response to an input from the responses of the batch (InfoNCE with "
        "in-batch negatives; Yang et al., 2018)."
    )
    required_option = "pairs"
    datasets = ("pairs",)
    evaluator = "response_prediction"

    def __init__(
        self,
        settings: Settings,
        inputs: TokenColumn,
        responses: TokenColumn,
        teachers: ScoreTeachers | None = None,
    ) -> None:
        super().__init__(settings, inputs, responses)
        self._inputs, self._responses, self._teachers = inputs, responses, teachers

    @classmethod
    def build(cls, settings: Settings, inputs: TaskInputs) -> dict[str, Task]:
        """Build one task for each dataset of conversation pairs."""
        tasks: dict[str, Task] = {}
        for name, rows in inputs.data.of_kind("pairs").items():
            columns = inputs.tokenize(rows, ["input", "response"])
            tasks[cls.name + name.removeprefix("pairs")] = cls(
                settings, columns["input"], columns["response"], inputs.teachers
            )
        return tasks

    def __len__(self) -> int:
        return len(self._inputs)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack inputs and responses; with masking, add the keys (batch,) that identify their texts."""
        batch = pack(self._inputs, rows) | pack(self._responses, rows, "response_")
        if self.settings.mask_false_negatives:
            batch["input_keys"] = torch.from_numpy(self._inputs.keys[rows])
            batch["response_keys"] = torch.from_numpy(self._responses.keys[rows])
        return batch

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return InfoNCE over the responses of all processes; `accuracy` is P@1 within the batch."""
        input_keys, response_keys = batch.pop("input_keys", None), batch.pop("response_keys", None)
        inputs, responses = encode_pairs(model, batch)
        all_responses = gather_rows(responses)  # (processes x batch, embedding_size)
        first, share = len(inputs) * rank(), self.settings.score_teacher_share
        targets = torch.arange(first, first + len(inputs), device=inputs.device)
        mask = None
        if input_keys is not None and response_keys is not None:
            # False negatives: responses equal to the true one, and other responses to the same input.
            mask = response_keys[:, None] == gather_rows(response_keys)  # (batch, processes x batch)
            mask |= input_keys[:, None] == gather_rows(input_keys)
            mask[torch.arange(len(targets), device=mask.device), targets] = False
        teacher_forth, teacher_back = None, None
        if self._teachers is not None:
            teacher_u, teacher_v = self._teachers.encode_pairs(batch)
            teacher_forth = teacher_u @ gather_rows(teacher_v).T
            teacher_back = teacher_v @ gather_rows(teacher_u).T
        scores = inputs @ all_responses.T  # (batch, processes x batch)
        loss = in_batch_softmax(scores, targets, mask, teacher_forth, share)
        if self.settings.symmetric_loss:
            back = responses @ gather_rows(inputs).T
            loss = (loss + in_batch_softmax(back, targets, mask, teacher_back, share)) / 2
        return loss, {"accuracy": accuracy(scores, targets)}
