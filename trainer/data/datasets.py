"""The training and evaluation datasets of a run.

Evaluation sentences are removed from the training data, and so are conversation pairs of an earlier source.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict, concatenate_datasets
from pandas.util import hash_array

from data_scripts.clean.leakage import remove_leaked, text_columns
from data_scripts.loading import load_columns, load_pairs
from data_scripts.public.captions import load_captions, one_caption_a_row
from data_scripts.public.cqa import load_cqa
from data_scripts.public.nli import load_nli
from data_scripts.public.paraphrases import load_paraphrases
from data_scripts.public.sts import load_sts_sets
from data_scripts.public.stsb import load_stsb
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import is_path, parse_hub_name
from trainer.data.tokenizer import Texts
from trainer.settings import Settings, sources_of

EvaluationData = dict[str, Any]
"""Name of a dataset -> its splits: a DatasetDict, or for `sts` year -> name -> test pairs."""

HASHED_TOGETHER = 100_000  # rows
FEWEST = 100  # dev pairs needed to select a checkpoint
ENOUGH = 200  # dev pairs of small data, if that is at most a fifth of the pairs

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatasetKind:
    """A kind of dataset, given to a run by the option of the same name.

    Attributes:
        name: the option, whose value is one source or a list of them; also the name in results.json.
        load: reads the splits of a folder or a Hub id.
        text_columns: the columns of its training texts, from which evaluation sentences are removed. None: it is not
            trained on. Empty: the columns are found by name.
        is_joined: whether the sources have validation and test splits, which are joined; if there are several sources,
            each one is a separate training dataset, as it always is where this is false.
        evaluation_columns: the columns of the sentences in its other splits, which are removed from the training data.
            Conversations have none: their splits separate threads, and only a pair that another source has in its
            validation or test split, or an earlier source in its training split, is removed.
        group_column: if a training row has an evaluation sentence, all rows with the same value here are removed.
    """

    name: str
    load: Callable[[str], Any]
    text_columns: tuple[str, ...] | None = None
    is_joined: bool = False
    evaluation_columns: tuple[str, ...] = ()
    group_column: str = ""


@dataclass
class RunData:
    """The datasets of a run.

    Attributes:
        training: training rows without evaluation sentences: `KIND` for a single source of a joined kind, else
            `KIND/SOURCE`.
        evaluation: the evaluation datasets.
        leakage: training dataset -> evaluation dataset -> number of training rows with one of its sentences; `removed`
            is the total.
    """

    training: dict[str, Dataset] = field(default_factory=dict)
    evaluation: EvaluationData = field(default_factory=dict)
    leakage: dict[str, dict[str, int]] = field(default_factory=dict)

    def of_kind(self, kind: str) -> dict[str, Dataset]:
        """Return the training datasets of a kind, by their names in `training`."""
        return {name: rows for name, rows in self.training.items() if name.partition("/")[0] == kind}

    def join_sources(self, kind: str) -> None:
        """Concatenate the training datasets of a kind, and add up their counts in `leakage`."""
        parts = self.of_kind(kind)
        if kind in parts or not parts:
            return
        counts: Counter[str] = Counter()
        for name in parts:
            del self.training[name]
            counts.update(self.leakage.pop(name, {}))
        self.training[kind] = concatenate_datasets(list(parts.values()))
        self.leakage[kind] = dict(counts)

    def named(self, kind: str) -> dict[str, Dataset]:
        """Return the separate training datasets of a kind: name of the source -> rows."""
        return {name.removeprefix(f"{kind}/"): rows for name, rows in self.of_kind(kind).items() if name != kind}


def _load_single_captions(source: str) -> dict[str, Dataset]:
    """Load captions, with one caption per row."""
    images = {split: rows.select_columns(["group", "captions"]) for split, rows in load_captions(source).items()}
    return {split: Dataset(one_caption_a_row(rows.with_format("arrow")[:])) for split, rows in images.items()}


# A task outside of the package may add its own kind.
DATASET_KINDS: dict[str, DatasetKind] = {
    kind.name: kind
    for kind in (
        DatasetKind("pairs", load_pairs, ("input", "response"), is_joined=True),
        DatasetKind("snli", load_nli, ("premise", "hypothesis"), True, evaluation_columns=("premise", "hypothesis")),
        DatasetKind("nli", load_nli, ("premise", "hypothesis")),
        DatasetKind("captions", _load_single_captions, ("caption",), group_column="group"),
        DatasetKind("paraphrases", load_paraphrases, ("sentence1", "sentence2")),
        DatasetKind("documents", lambda source: load_columns(source, ()), ()),
        DatasetKind("texts", lambda source: load_columns(source, ()), ()),
        DatasetKind("stsb", load_stsb, is_joined=True, evaluation_columns=("sentence1", "sentence2")),
        DatasetKind("cqa", load_cqa, is_joined=True, evaluation_columns=("query", "candidate")),
        DatasetKind("sts", load_sts_sets, is_joined=True, evaluation_columns=("sentence1", "sentence2")),
    )
}


def load_run_data(settings: Settings) -> RunData:
    """Load the datasets of a run, and remove every training row that contains an evaluation sentence.

    Several datasets of conversation pairs may overlap, such as those of one dump with different filters: each pair is
    used once.

    Raises:
        InputError: a dataset is missing or unreadable, or lacks the training split.
    """
    data = RunData()
    held_out: dict[str, dict[str, np.ndarray]] = {}
    for kind in DATASET_KINDS.values():
        sources = sources_of(vars(settings), kind.name)
        if not sources:
            continue
        parts = _load_sources(kind, sources)
        if kind.text_columns is not None:
            for (name, splits), source in zip(parts.items(), sources, strict=True):
                if "train" in splits:
                    data.training[name] = splits["train"]
                elif not kind.is_joined:
                    raise InputError(f"{kind.name}: {source} has no training split; it has {', '.join(splits)}")
        if kind.is_joined and len(parts) > 1:
            columns = kind.text_columns or kind.evaluation_columns
            held_out |= {
                name: {split: _hash_rows(rows, columns) for split, rows in splits.items() if split != "train"}
                for name, splits in parts.items()
            }
            data.evaluation[kind.name] = _join_splits(parts, held_out)
        elif kind.is_joined:
            splits = parts[kind.name]
            trained = "train" if kind.text_columns is not None else None
            data.evaluation[kind.name] = type(splits)(
                {split: splits[split] for split in sorted(splits) if split != trained}
            )
    _remove_leaked(data, held_out)
    if (share := settings.snli_share) < 1 and "snli" in data.training:
        rows = data.training["snli"]
        data.training["snli"] = rows.shuffle(seed=settings.seed).select(range(round(len(rows) * share)))
    return data


def load_evaluation_data(sources: Mapping[str, str]) -> EvaluationData:
    """Load evaluation datasets: name of a kind -> folder or Hub id.

    Raises:
        InputError: a dataset is missing or unreadable.
    """
    return {name: DATASET_KINDS[name].load(source) for name, source in sources.items()}


def training_text_columns(data: RunData) -> dict[str, list[str]]:
    """Return the text columns of every training dataset; those of lists, such as earlier turns, are not read."""
    columns = {}
    for name, rows in data.training.items():
        kind, _, source = name.partition("/")
        texts = [column for column, feature in rows.features.items() if "string" in getattr(feature, "dtype", "")]
        columns[name] = list(DATASET_KINDS[kind].text_columns or ()) or text_columns(texts, f"{kind}: {source}")
    return columns


def training_texts(data: RunData) -> Texts:
    """Return the texts of all training datasets except `texts`, which no task reads."""
    columns = training_text_columns(data).items()
    return Texts([data.training[name].select_columns(own) for name, own in columns if not name.startswith("texts/")])


def _load_sources(kind: DatasetKind, sources: list[str]) -> dict[str, Any]:
    """Return the splits of each source: `KIND/SOURCE` by its `source_name`, or `KIND` for one of a joined kind."""
    if kind.is_joined and len(sources) == 1:
        return {kind.name: kind.load(sources[0])}
    names = [source_name(source) for source in sources]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{kind.name} has two datasets named {repeated[0]}: rename one of the folders")
    return {f"{kind.name}/{name}": kind.load(source) for name, source in zip(names, sources, strict=True)}


def source_name(source: str) -> str:
    """Return the name of a source among several: the last part of its own, without a revision."""
    source = source.rstrip("/")
    if is_path(source):
        return source.rpartition("/")[2]
    repository, config, _ = parse_hub_name(source)
    name = repository.rpartition("/")[2]
    return f"{name}:{config}" if config else name


def _join_splits(parts: Mapping[str, Any], held_out: Mapping[str, Mapping[str, np.ndarray]]) -> DatasetDict:
    """Concatenate the splits of several sources that are not trained on, without rows that an earlier source has.

    Args:
        parts: the splits of each source.
        held_out: the hashes of the rows of each of these splits.
    """
    joined = {}
    for split in sorted({split for source in parts for split in held_out[source]}):
        rows, earlier, repeated = [], np.empty(0, np.uint64), 0
        for source in (source for source in parts if split in parts[source]):
            is_repeated = np.isin(held_out[source][split], earlier)
            rows.append(parts[source][split].select(np.flatnonzero(~is_repeated)))
            repeated += int(is_repeated.sum())
            earlier = np.concatenate([earlier, held_out[source][split]])
        if repeated:
            logger.warning("%s split: left out %d pairs that are also in an earlier dataset", split, repeated)
        joined[split] = concatenate_datasets(rows)
    return DatasetDict(joined)


def _hash_rows(rows: Dataset, columns: Iterable[str]) -> np.ndarray:
    """Return a hash of the texts of each row, which ignores case: uint64, (rows,)."""
    hashes = [np.empty(0, np.uint64)]
    for table in rows.select_columns(list(columns)).with_format("arrow").iter(HASHED_TOGETHER):
        texts = pc.utf8_lower(pc.binary_join_element_wise(*table.columns, "\t"))
        hashes.append(hash_array(texts.to_numpy(), categorize=False))
    return np.concatenate(hashes)


def _remove_leaked(data: RunData, held_out: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    """Remove the training rows with an evaluation sentence or held out by another source; count them in the leakage.

    Rows that are also in an earlier source are removed, too.
    """
    evaluation = _evaluation_sentences(data.evaluation)
    earlier: dict[str, np.ndarray] = {}  # hashes of the rows that are left
    for name, columns in training_text_columns(data).items():
        kind = name.partition("/")[0]
        rows, counts = data.training[name], Counter[str]()
        if name in held_out:
            hashes = _hash_rows(rows, columns)
            is_leaked = np.zeros(len(rows), bool)
            for split, others in ((s, h) for source in held_out if source != name for s, h in held_out[source].items()):
                leaks = np.isin(hashes, others)
                counts[_evaluation_name(kind, split)] += int(leaks.sum())
                is_leaked |= leaks
            counts["removed"] = int(is_leaked.sum())
            is_left = ~is_leaked
            for source, others in earlier.items():
                repeated = np.isin(hashes, others) & is_left
                if repeated.any():
                    logger.warning("%s: removed %d training pairs that are also in %s", name, repeated.sum(), source)
                is_left &= ~repeated
            rows, earlier[name] = rows.select(np.flatnonzero(is_left)), hashes[is_left]
        data.training[name], leaked = remove_leaked(rows, columns, evaluation, DATASET_KINDS[kind].group_column)
        counts.update(leaked)
        data.leakage[name] = dict(counts)
        if counts["removed"]:
            where = ", ".join(f"{count:,} {key}" for key, count in counts.items() if count and key != "removed")
            logger.warning(
                "%s: removed %d training rows that contain an evaluation sentence (%s)", name, counts["removed"], where
            )


def _evaluation_sentences(data: EvaluationData) -> dict[str, Iterable[str]]:
    """Return the sentences to remove from the training data, by evaluation dataset."""
    sentences: dict[str, Iterable[str]] = {}
    for name, splits in data.items():
        columns = DATASET_KINDS[name].evaluation_columns
        for split, rows in leaves(splits) if columns else ():
            if split != "train":
                sentences[_evaluation_name(name, split)] = [text for column in columns for text in rows[column]]
    return sentences


def leaves(splits: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Dataset]]:
    """Yield the name of each split and its rows; `sts` has a further level of names."""
    for name, rows in splits.items():
        if isinstance(rows, Mapping):
            yield from leaves(rows, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", rows


def _evaluation_name(name: str, split: str) -> str:
    return f"{name} {'dev' if split == 'validation' else split}"


# -- dev split of pairs -----------------------------------------------------------------------------------------------


def complete_dev_split(data: RunData, fewest: int = FEWEST) -> None:
    """Move training pairs to a dev split that is too small.

    The dev split gets a tenth of the pairs, at least `ENOUGH`, and at most a fifth. Threads are chosen by a hash of
    their names, and stay whole; without more than one thread, nothing is moved. Several datasets are split together,
    and their threads of the same name are one thread.

    Args:
        data: the datasets of a run that trains on pairs; their splits are changed.
        fewest: a dev split with fewer pairs is too small.
    """
    parts, dev = data.of_kind("pairs"), data.evaluation["pairs"].get("validation")
    present = len(dev) if dev else 0
    if present >= fewest:
        return
    train = concatenate_datasets(list(parts.values()))
    total = len(train) + present
    wanted = min(max(total // 10, ENOUGH), total // 5)
    is_moved = _select_threads(train, wanted - present)
    if not is_moved.any():
        return
    moved = train.select(np.flatnonzero(is_moved))
    logger.info(
        "pairs: the dev split has %d pairs, which is too few to select a checkpoint; moving %d of the %d training "
        "pairs to it, in whole threads",
        present, len(moved), len(train),
    )  # fmt: skip
    ends = np.cumsum([len(rows) for rows in parts.values()])
    for (name, rows), is_moved_part in zip(parts.items(), np.split(is_moved, ends[:-1]), strict=True):
        data.training[name] = rows.select(np.flatnonzero(~is_moved_part))
    completed = concatenate_datasets([dev, moved]) if dev else moved
    data.evaluation["pairs"] = DatasetDict({**data.evaluation["pairs"], "validation": completed})


def thread_numbers(pairs: Dataset) -> np.ndarray:
    """Number the threads in the order of a hash of their names: (rows,); a pair without a thread is one of its own."""
    names = [f"row {row}" if thread is None else f"thread {thread}" for row, thread in enumerate(pairs["thread"])]
    ordered = sorted(set(names), key=lambda name: hashlib.sha256(name.encode(errors="surrogatepass")).digest())
    number = {name: position for position, name in enumerate(ordered)}
    return np.array([number[name] for name in names], dtype=np.int64)


def _select_threads(pairs: Dataset, wanted: int) -> np.ndarray:
    """(rows,) whether a pair is in one of the first threads with `wanted` pairs in total; too long ones are left."""
    numbers = thread_numbers(pairs)
    sizes = np.bincount(numbers)
    selected, count = np.zeros(len(sizes), dtype=bool), 0
    for thread, size in enumerate(sizes):
        if count < wanted and count + size <= wanted + ENOUGH // 2 and size < len(pairs):
            selected[thread] = True
            count += size
    return selected[numbers]
