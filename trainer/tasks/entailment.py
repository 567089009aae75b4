"""Contrastive learning on premises and hypotheses that they entail."""

from dataclasses import dataclass

from trainer.arguments import option
from trainer.tasks.base import register_task
from trainer.tasks.contrastive import ContrastiveOptions, ContrastiveTask


@dataclass
class EntailmentOptions(ContrastiveOptions):
    """Options of the task entailment."""

    nli: list[str] = option([], "folders or Hub ids of natural language inference datasets (SNLI, MultiNLI …)")


@register_task
class Entailment(ContrastiveTask):
    """A premise and an entailed hypothesis are a positive pair; a contradicting hypothesis is a hard negative."""

    name = "entailment"
    label = "entailment"
    card_line = (
        "Entailment: pick the hypothesis that a premise entails among the texts of the batch, InfoNCE with in-batch "
        "negatives; a contradicting hypothesis is a hard negative (Gao et al., 2021)."
    )
    Options = EntailmentOptions
    required_option = "nli"
    datasets = ("nli",)
    pairs_function = "entailment_pairs"
