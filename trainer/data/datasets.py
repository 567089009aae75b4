"""The sets that a run trains and is judged on, with every evaluation sentence taken out of training."""

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict, concatenate_datasets

from data_scripts.errors import InputError
from data_scripts.read.hub_datasets import load_columns, load_pairs
from data_scripts.sources.cqa import load_cqa
from data_scripts.sources.nli import load_nli
from data_scripts.sources.sts import load_sts_sets
from data_scripts.sources.stsb import load_stsb
from data_scripts.tools.leakage import remove_leaked, text_columns
from trainer.arguments import Arguments

# Field of `Corpora` -> the columns of its training texts; of the last two they are found by their names.
_TEXTS = {
    "pairs": ["input", "response"],
    "snli": ["premise", "hypothesis"],
    "nli": ["premise", "hypothesis"],
    "captions": ["caption"],
    "paraphrases": ["sentence1", "sentence2"],
    "documents": [],
    "texts": [],
}

logger = logging.getLogger(__name__)


@dataclass
class Corpora:
    """Training sets without evaluation sentences, evaluation sets as they are; a set that was not named is None."""

    pairs: DatasetDict | None = None
    snli: DatasetDict | None = None
    stsb: DatasetDict | None = None
    cqa: DatasetDict | None = None
    sts: dict[str, dict[str, Dataset]] | None = None
    """Year -> SemEval set -> test pairs `sentence1`, `sentence2`, `score`."""
    nli: dict[str, Dataset] = field(default_factory=dict)
    """Name of a set -> its training rows `premise`, `hypothesis`, `label`."""
    captions: dict[str, Dataset] = field(default_factory=dict)
    """Name of a set -> its training rows `group`, `caption`."""
    paraphrases: dict[str, Dataset] = field(default_factory=dict)
    """Name of a set -> its training rows `sentence1`, `sentence2`, `score`."""
    documents: dict[str, Dataset] = field(default_factory=dict)
    """Name of a set -> its training rows, of sentences in order or of pairs."""
    texts: dict[str, Dataset] = field(default_factory=dict)
    """Name of a set -> its training rows, with any of `data_scripts.tools.leakage.TEXT_COLUMNS`."""
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
        sts=load_sts_sets(arguments.sts) if arguments.sts else None,
        nli=_training_sets("nli", arguments.nli, load_nli),
        captions={
            name: _one_caption_a_row(rows)
            for name, rows in _training_sets(
                "captions", arguments.captions, lambda source: load_columns(source, ("group", "captions"))
            ).items()
        },
        paraphrases=_training_sets(
            "paraphrases",
            arguments.paraphrases,
            lambda source: load_columns(source, ("sentence1", "sentence2", "score")),
        ),
        documents=_training_sets("documents", arguments.documents, lambda source: load_columns(source, ())),
        texts=_training_sets("texts", arguments.texts, lambda source: load_columns(source, ())),
    )
    evaluation = _evaluation_sentences(corpora)
    for name, (rows, columns) in training_sets(corpora).items():
        kept, removed = remove_leaked(rows, columns, evaluation)
        kind, _, each = name.partition("/")
        getattr(corpora, kind)[each or "train"] = kept
        corpora.leakage[name] = removed
        if removed.get("removed"):
            found = ", ".join(f"{count:,} {key}" for key, count in removed.items() if count and key != "removed")
            logger.warning(
                "%s: %d training rows hold an evaluation sentence and were removed (%s)",
                name,
                removed["removed"],
                found,
            )
    if corpora.snli is not None and "train" in corpora.snli and arguments.snli_share < 1:
        train = corpora.snli["train"].shuffle(seed=arguments.seed)
        corpora.snli["train"] = train.select(range(round(len(train) * arguments.snli_share)))
    for task, named, sets in (
        ("response_prediction", "pairs", corpora.pairs),
        ("snli", "snli", corpora.snli),
    ):
        if arguments.trains(task) and (sets is None or "train" not in sets):
            raise InputError(f"{named}: found no training split, which the task {task} needs")
    return corpora


def load_judged_on(sources: Mapping[str, str]) -> Corpora:
    """What models are judged on alone: pairs, snli, stsb, cqa, sts -> folder or Hub id.

    Raises:
        InputError: one of them is missing or unreadable.
    """
    loaders: dict[str, Callable[[str], Any]] = {
        "pairs": load_pairs,
        "snli": load_nli,
        "stsb": load_stsb,
        "cqa": load_cqa,
        "sts": load_sts_sets,
    }
    return Corpora(**{name: loaders[name](source) for name, source in sources.items()})


def training_sets(corpora: Corpora) -> dict[str, tuple[Dataset, list[str]]]:
    """Every set that a run with these corpora may be trained on: its rows and their columns of text.

    By the set's name in results.json: `pairs` and `snli`, and KIND/NAME of the others.
    """
    found = {}
    for kind, columns in _TEXTS.items():
        sets = getattr(corpora, kind) or {}
        if not isinstance(sets, DatasetDict):
            for name, rows in sets.items():
                found[f"{kind}/{name}"] = rows, columns or text_columns(rows.column_names, f"{kind}: {name}")
        elif "train" in sets:
            found[kind] = sets["train"], columns
    return found


def training_texts(corpora: Corpora) -> Iterator[str]:
    """The texts of `training_sets`, but for those that no task reads."""
    for name, (rows, columns) in training_sets(corpora).items():
        if name.startswith("texts/"):
            continue
        for batch in rows.select_columns(columns).iter(batch_size=1000):
            yield from itertools.chain.from_iterable(batch.values())


def _training_sets(option: str, sources: list[str], load: Callable[[str], DatasetDict]) -> dict[str, Dataset]:
    """The train split of each source, by the last part of its name."""
    sets: dict[str, Dataset] = {}
    names = [source.rstrip("/").rpartition("/")[2] for source in sources]
    for name, source in zip(names, sources, strict=True):
        if names.count(name) > 1:
            raise InputError(f"{option} has two sets named {name}: rename one of the folders")
        splits = load(source)
        if "train" not in splits:
            raise InputError(f"{option}: {source} has no training split; it has {', '.join(splits)}")
        sets[name] = splits["train"]
    return sets


def _one_caption_a_row(images: Dataset) -> Dataset:
    table = images.select_columns(["group", "captions"]).with_format("arrow")[:]
    parents = pc.list_parent_indices(table["captions"])
    columns = {"group": table["group"].take(parents), "caption": pc.list_flatten(table["captions"])}
    return Dataset(pa.table(columns))


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
    for year, names in (corpora.sts or {}).items():
        for name, rows in names.items():
            sentences[f"sts {year} {name}"] = _texts(rows, ("sentence1", "sentence2"))
    return sentences


def _texts(rows: Dataset, columns: Iterable[str]) -> list[str]:
    return [text for column in columns for text in rows[column]]
