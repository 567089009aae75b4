"""The sets that a run trains and is judged on, with every evaluation sentence taken out of training."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from datasets import Dataset, DatasetDict, concatenate_datasets

from data_scripts.cqa import load_cqa
from data_scripts.errors import InputError
from data_scripts.leakage import remove_leaked
from data_scripts.nli import load_nli
from data_scripts.pairs import load_pairs
from data_scripts.sts import load_stsb
from trainer.arguments import Arguments

logger = logging.getLogger(__name__)


@dataclass
class Corpora:
    """Training sets without evaluation sentences, evaluation sets as they are; a set that was not named is None."""

    pairs: DatasetDict | None = None
    snli: DatasetDict | None = None
    stsb: DatasetDict | None = None
    cqa: DatasetDict | None = None
    leakage: dict[str, dict[str, int]] = field(default_factory=dict)
    """Training set -> evaluation set -> training rows that held one of its sentences, and `removed` in all."""


def load_corpora(arguments: Arguments) -> Corpora:
    """Load what the arguments name and strip the training sets.

    Raises:
        InputError: if a set is missing or unreadable, or a task has no training split.
    """
    corpora = Corpora(
        pairs=_joined([load_pairs(source) for source in arguments.pairs]),
        snli=load_nli(arguments.snli) if arguments.snli else None,
        stsb=load_stsb(arguments.stsb) if arguments.stsb else None,
        cqa=load_cqa(arguments.cqa) if arguments.cqa else None,
    )
    evaluation = _evaluation_sentences(corpora)
    for name, sets, columns in (
        ("pairs", corpora.pairs, ["input", "response"]),
        ("snli", corpora.snli, ["premise", "hypothesis"]),
    ):
        if sets is None or "train" not in sets:
            continue
        sets["train"], removed = remove_leaked(sets["train"], columns, evaluation)
        corpora.leakage[name] = removed
        if removed.get("removed"):
            logger.warning("%s: %d training rows hold an evaluation sentence and were removed (%s)",
                           name, removed["removed"], removed)  # fmt: skip
    if corpora.snli is not None and "train" in corpora.snli and arguments.snli_share < 1:
        train = corpora.snli["train"].shuffle(seed=arguments.seed)
        corpora.snli["train"] = train.select(range(round(len(train) * arguments.snli_share)))
    for task, named, sets in (
        ("response_prediction", "pairs", corpora.pairs),
        ("snli", "snli", corpora.snli),
    ):
        if arguments.tasks.get(task) and (sets is None or "train" not in sets):
            raise InputError(f"{named}: found no training split, which the task {task} needs")
    return corpora


def _joined(parts: list[DatasetDict]) -> DatasetDict | None:
    if not parts:
        return None
    splits = {split for part in parts for split in part}
    return DatasetDict(
        {split: concatenate_datasets([part[split] for part in parts if split in part]) for split in sorted(splits)}
    )


def _evaluation_sentences(corpora: Corpora) -> dict[str, Iterable[str]]:
    """Sentences that no model may be trained on. Replies of held-out threads are kept apart by the split itself."""
    sentences: dict[str, Iterable[str]] = {}
    for name, sets, columns in (
        ("stsb", corpora.stsb, ("sentence1", "sentence2")),
        ("snli", corpora.snli, ("premise", "hypothesis")),
        ("cqa", corpora.cqa, ("query", "candidate")),
    ):
        for split, rows in (sets or {}).items():
            if split != "train":
                sentences[f"{name} {'dev' if split == 'validation' else split}"] = _texts(rows, columns)
    return sentences


def _texts(rows: Dataset, columns: Iterable[str]) -> list[str]:
    return [text for column in columns for text in rows[column]]
