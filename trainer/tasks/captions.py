"""Contrastive learning on captions of the same image."""

from dataclasses import dataclass

from trainer.arguments import option
from trainer.tasks.base import register_task
from trainer.tasks.contrastive import ContrastiveOptions, ContrastiveTask


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
    pairs_function = "caption_pairs"
