"""The declaration of an evaluator.

`--help` lists the evaluators, so this module and those that declare evaluators import slow libraries only in the
functions that need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.baselines import ScoreTexts

if TYPE_CHECKING:
    from datasets import Dataset

    from trainer.data.datasets import EvaluationData

Split = Literal["dev", "test", "both"]
Baseline = Callable[[Sequence[str]], ScoreTexts]  # of `trainer.evaluation.baselines`: documents -> their scores


def dev_and_test(dataset: Mapping[str, Dataset], split: Split, test: str = "test") -> dict[str, Dataset]:
    """The requested splits that a dataset has, by their names in results.json, test last.

    Args:
        dataset: its splits, as the loaders of `data_scripts` name them.
        split: the requested split.
        test: the name of the test split.
    """
    keys = {"dev": {"dev": "validation"}, "test": {test: test}, "both": {"dev": "validation", test: test}}[split]
    return {name: dataset[key] for name, key in keys.items() if key in dataset}


@dataclass(frozen=True)
class EvaluationInputs:
    """The inputs of an evaluator besides the encoder.

    Attributes:
        dataset: the loaded dataset, with all its splits.
        splits: the requested splits that the dataset has, at least one; test last.
        queries: the largest number of queries to rank, or None for the evaluator's default.
        intervals: whether to add a 95% bootstrap interval to each score.
    """

    dataset: Any
    splits: Mapping[str, Dataset]
    queries: int | None = None
    intervals: bool = False

    def last_split(self) -> tuple[str, Dataset]:
        """Name and rows of the split to evaluate on, for evaluators that report a single split."""
        return list(self.splits.items())[-1]


@dataclass(frozen=True)
class CardEntry:
    """The names of an evaluator's task, dataset and metrics in model cards and on the Hub.

    Attributes:
        task_type: the Hub's id of the task.
        task_name: the task's readable name.
        dataset_id: a Hub id, or a plain name if the dataset is not on the Hub.
        dataset_name: the dataset's readable name.
        metrics: key in results.json -> the metric's readable name. Other keys, such as counts, are not scores.
        public_sizes: split -> number of pairs in the public dataset, to recognize it among others in its format.
    """

    task_type: str
    task_name: str
    dataset_id: str
    dataset_name: str
    metrics: Mapping[str, str]
    public_sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluator:
    """An evaluator: what it measures, on which data, and how its part of results.json appears in the model card.

    Attributes:
        name: its key in results.json, and its name in the option `--tasks`.
        dataset: the kind of its dataset, in `trainer.data.datasets.DATASET_KINDS`; also the name of its option.
        data_help: help text of that option.
        evaluate: measures an encoder; returns the part of results.json. Raises InputError.
        card: its entry in model cards.
        select_splits: returns the requested splits of the loaded dataset, by their names in results.json.
        evaluate_baseline: measures a baseline on the same queries, if the evaluator is a ranking.
        runs_on_dev: whether it runs by default on the dev split, as during training; False if it is slow.
        is_test_only: whether it has only test sets, which must not be used to select anything.
    """

    name: str
    dataset: str
    data_help: str
    evaluate: Callable[[SentenceEncoder, EvaluationInputs], dict[str, Any]]
    card: CardEntry
    select_splits: Callable[[Any, Split], dict[str, Dataset]] = dev_and_test
    evaluate_baseline: Callable[[Baseline, EvaluationInputs], dict[str, Any]] | None = None
    runs_on_dev: bool = True
    is_test_only: bool = False

    def splits_in(self, data: EvaluationData, split: Split) -> dict[str, Dataset]:
        """The requested splits that `data` has, by their names in results.json; empty without the dataset."""
        dataset = data.get(self.dataset)
        return {} if dataset is None else self.select_splits(dataset, split)
