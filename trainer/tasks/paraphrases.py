"""Contrastive learning on paraphrases."""

from dataclasses import dataclass

from trainer.arguments import option
from trainer.tasks.base import register_task
from trainer.tasks.contrastive import ContrastiveOptions, ContrastiveTask


@dataclass
class ParaphrasesOptions(ContrastiveOptions):
    """Options of the task paraphrases."""

    paraphrases: list[str] = option(
        [], "folders or Hub ids of paraphrases, or of pairs of sentences with similarity scores"
    )


@register_task
class Paraphrases(ContrastiveTask):
    """Two paraphrases are a positive pair; a pair with a lower score gives hard negatives."""

    name = "paraphrases"
    label = "paraphrases"
    card_line = (
        "Paraphrases: pick the paraphrase of a text among those of the batch, InfoNCE with in-batch negatives; a pair "
        "with a lower score gives a hard negative."
    )
    Options = ParaphrasesOptions
    required_option = "paraphrases"
    datasets = ("paraphrases",)
    pairs_function = "paraphrase_pairs"
