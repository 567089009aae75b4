"""Response prediction, the papers' main task (Yang et al., 2018, sections 2.1 and 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.arguments import option
from trainer.tasks.base import InBatchOptions, PairOptions, Task, TaskInputs, register_task

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from trainer.data.token_cache import TokenColumn
    from trainer.tasks.encoding import ScoreTeachers


@dataclass
class ResponsePredictionOptions(InBatchOptions, PairOptions):
    """Options of the task response_prediction."""

    mask_false_negatives: bool = option(
        False,
        "mask false negatives: in-batch negatives equal to the true response, or other responses to the same input",
    )
    symmetric_loss: bool = option(False, "also predict the input from the response")


@register_task
class ResponsePrediction(Task):
    """Pick the true response among those of the batch: InfoNCE with in-batch negatives."""

    name = "response_prediction"
    label = "conversations"
    card_line = (
        "Response prediction: pick the true response to an input among the responses of the batch, InfoNCE with "
        "in-batch negatives (Yang et al., 2018)."
    )
    Options = ResponsePredictionOptions
    required_option = "pairs"
    datasets = ("pairs",)
    evaluator = "response_prediction"

    def __init__(
        self,
        options: ResponsePredictionOptions,
        inputs: TokenColumn,
        responses: TokenColumn,
        teachers: ScoreTeachers | None = None,
    ) -> None:
        super().__init__(options, inputs, responses)
        self._inputs, self._responses, self._teachers = inputs, responses, teachers

    @classmethod
    def build(cls, options: ResponsePredictionOptions, inputs: TaskInputs) -> dict[str, Task]:
        """Build one task for each dataset of conversation pairs."""
        tasks: dict[str, Task] = {}
        for name, rows in inputs.data.of_kind("pairs").items():
            columns = inputs.tokenize(rows, ["input", "response"])
            tasks[cls.name + name.removeprefix("pairs")] = cls(
                options, columns["input"], columns["response"], inputs.teachers
            )
        return tasks

    def __len__(self) -> int:
        return len(self._inputs)

    def batch(self, rows: np.ndarray) -> dict[str, Tensor]:
        """Pack inputs and responses; with masking, add the keys (batch,) that identify their texts."""
        import torch

        from trainer.tasks.encoding import pack

        batch = pack(self._inputs, rows) | pack(self._responses, rows, "response_")
        if self.options.mask_false_negatives:
            batch["input_keys"] = torch.from_numpy(self._inputs.keys[rows])
            batch["response_keys"] = torch.from_numpy(self._responses.keys[rows])
        return batch

    def loss(self, model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return InfoNCE over the responses of all processes; `accuracy` is P@1 within the batch."""
        import torch

        from trainer.distributed import gather_rows, rank
        from trainer.tasks.encoding import encode_pairs
        from trainer.tasks.losses import accuracy, false_negatives, in_batch_softmax, sum_over_dims, truncate

        input_keys, response_keys = batch.pop("input_keys", None), batch.pop("response_keys", None)
        pairs = encode_pairs(model, batch, self.options.mini_batch_size)
        all_responses = gather_rows(pairs.responses)  # (processes x batch, embedding_size)
        all_inputs = gather_rows(pairs.inputs) if self.options.symmetric_loss else pairs.inputs
        first = len(pairs.inputs) * rank()
        targets = torch.arange(first, first + len(pairs.inputs), device=pairs.inputs.device)
        mask = None
        if input_keys is not None and response_keys is not None:
            all_input_keys, all_response_keys = gather_rows(input_keys), gather_rows(response_keys)
            mask = false_negatives(input_keys, response_keys, all_input_keys, all_response_keys, targets)
        teacher_forth, teacher_back = None, None
        if self._teachers is not None:
            teacher_u, teacher_v = self._teachers.encode_pairs(batch, self.options.mini_batch_size)
            teacher_forth = teacher_u @ gather_rows(teacher_v).T
            teacher_back = teacher_v @ gather_rows(teacher_u).T

        share = self.options.score_teacher_share

        def score(dims: int | None) -> tuple[Tensor, Tensor]:
            u, all_u = (truncate(vectors, dims, pairs.normalized_inputs) for vectors in (pairs.inputs, all_inputs))
            v, all_v = (
                truncate(vectors, dims, pairs.normalized_responses) for vectors in (pairs.responses, all_responses)
            )
            scores = u @ all_v.T  # (batch, processes x batch)
            loss = in_batch_softmax(scores, targets, mask, teacher_forth, share)
            if self.options.symmetric_loss:
                loss = (loss + in_batch_softmax(v @ all_u.T, targets, mask, teacher_back, share)) / 2
            return loss, accuracy(scores, targets)

        return sum_over_dims(score, self.options.matryoshka_dims)
