"""Contrastive learning on captions of the same image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.arguments import option
from trainer.tasks.base import register_task
from trainer.tasks.contrastive import ContrastiveOptions, ContrastiveTask

if TYPE_CHECKING:
    from datasets import Dataset

    from trainer.data.examples import PositivePairs


@dataclass
class CaptionsOptions(ContrastiveOptions):
    """Options of the task captions."""

    captions: list[str] = option([], "folders or Hub ids of image captions, in the format of `data_scripts captions`")


@register_task
class Captions(ContrastiveTask):
    """Two captions of the same image are a positive pair."""

    name = "captions"
    label = "captions"
    card_line = (
        "Captions: pick another caption of the same image among the texts of the batch, InfoNCE with in-batch "
        "negatives."
    )
    Options = CaptionsOptions
    required_option = "captions"
    datasets = ("captions",)

    @staticmethod
    def positive_pairs(rows: Dataset, seed: int) -> PositivePairs:
        """Call `trainer.data.examples.caption_pairs`."""
        from trainer.data.examples import caption_pairs

        return caption_pairs(rows, seed)
