"""The scores in results.json, as model cards and the Hub show them."""

import dataclasses
import re
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trainer.evaluation.bootstrap import INTERVAL
from trainer.evaluation.evaluators import EVALUATORS, CardEntry
from trainer.publish.sources import LOCAL, hub_sources, public_name


class Score(NamedTuple):
    """One score of results.json.

    Attributes:
        part: the evaluator, a key of results.json.
        card: how cards name what was measured.
        split: the split of the dataset.
        subset: a genre or one of several datasets; "" for all.
        metric: its key in results.json.
        value: the score.
        interval: its 95% bootstrap interval, if it was computed.
    """

    part: str
    card: CardEntry
    split: str
    subset: str
    metric: str
    value: float
    interval: list[float] | None = None

    @property
    def metric_name(self) -> str:
        """The metric, for people."""
        return self.card.metrics[self.metric]


def read_scores(results: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[Score]:
    """The scores of results.json, in the order of the evaluators; a part that was not run has none.

    A dataset with another number of pairs than the public one is named as in the settings. Counts beside the scores
    (`candidates`, `queries`, `pairs`) are skipped.
    """
    for name in EVALUATORS:
        part = results.get(name, {})
        # A part of a single split has the split's name beside its scores; the others are {split: {subset: scores}} or
        # {split: scores}.
        splits = {part["split"]: part} if "split" in part else part
        for split, scores in splits.items():
            subsets = {key: value for key, value in scores.items() if isinstance(value, Mapping)} or {"": scores}
            card = _card_entry(name, split, subsets.get("all", scores).get("pairs"), settings, hub_sources(results))
            for subset, values in subsets.items():
                for metric, value in values.items():
                    if metric in card.metrics:
                        interval = values.get(f"{metric}{INTERVAL}")
                        yield Score(name, card, split, "" if subset == "all" else subset, metric, value, interval)


def _card_entry(
    name: str, split: str, pairs: int | None, settings: Mapping[str, Any], on_hub: Collection[str]
) -> CardEntry:
    """The evaluator's entry, with the dataset's name in the settings if its size is not that of the public dataset."""
    evaluator = EVALUATORS[name]
    if pairs is None or pairs == evaluator.card.public_sizes.get(split, pairs):
        return evaluator.card
    own_name = public_name(settings.get(evaluator.dataset) or LOCAL, on_hub)
    own_id = re.sub(r"[^\w.-]", "-", own_name)
    return dataclasses.replace(evaluator.card, dataset_id=own_id, dataset_name=own_name)


def score_row(score: Score) -> dict[str, str]:
    """A row of the card's table of results."""
    name = score.card.dataset_name
    return {
        "task": score.card.task_name,
        "data": f"{name} ({score.subset})" if score.subset else name,
        "split": score.split,
        "metric": score.metric_name,
        "value": f"{score.value:.4f}",
        "interval": " to ".join(f"{end:.3f}" for end in score.interval or ()),
    }


def seed_row(path: str, values: Sequence[float]) -> dict[str, str]:
    """A row of the card's table of seeds.

    Args:
        path: `PART.SPLIT.SUBSET.METRIC`, with or without split and subset.
        values: the score for each seed.
    """
    part, *where, metric = path.split(".")
    card = EVALUATORS[part].card if part in EVALUATORS else CardEntry("", part, part, part, metrics={})
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {
        "data": " ".join([card.dataset_name, *where]),
        "metric": card.metrics.get(metric, metric),
        "mean": f"{statistics.fmean(values):.4f}",
        "deviation": f"{deviation:.4f}",
    }
