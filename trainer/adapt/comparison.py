"""The adapted model beside other systems: how they rank the replies of the same held-out messages.

Where a log is small, these are the messages of cross-validation, each by the model of the other folds, because the test
split alone would say too little.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from modeling_convsim.encoding import Encoder
from trainer.adapt.context import TurnWeights, add_turns, choose_context, measure_context, score_by
from trainer.adapt.cross_validation import Choice
from trainer.adapt.selection import Measured
from trainer.data.dev_split import thread_numbers
from trainer.encoders.loading import installed_copy, load_encoder
from trainer.encoders.protocol import SentenceEncoder, Side
from trainer.evaluation.baselines import BASELINES, LABELS
from trainer.evaluation.bootstrap import INTERVAL
from trainer.evaluation.ranking import (
    FEWEST_REPLIES,
    Queries,
    Ranks,
    build_queries,
    rank,
    score,
    summarize,
    thread_interval,
)

PEER = "all-MiniLM-L6-v2"
ENOUGH = 300  # messages of the test split; with fewer, those of cross-validation are compared
METRIC = "p_at_1"
ALONE = "adapted, without earlier turns"
SYSTEMS = {"base": "the base", **LABELS}  # for people


@dataclass(frozen=True)
class Comparison:
    """The parts of results.json.

    Attributes:
        adapted: response prediction of the adapted model.
        baselines: that of the others, with the difference of P@1 to the adapted one.
    """

    adapted: dict[str, Any]
    baselines: dict[str, dict[str, Any]]


def compare(base: Encoder, encoder: Encoder, splits: DatasetDict, choice: Choice | None) -> Comparison:
    """Compare the adapted model with its base, BM25, TF-IDF, and a peer if it is installed.

    Each of the others has `gain`, P@1 of the model minus its own, with a paired bootstrap interval over conversations.

    Args:
        base: the base.
        encoder: the adapted model.
        splits: the pairs.
        choice: what cross-validation chose, if there is no dev split.
    """
    peers: dict[str, SentenceEncoder] = {}
    if installed_copy(PEER) not in (PEER, installed_copy(base.model.name_or_path)):
        peers[PEER] = _EncodedOnce(load_encoder(PEER))
    if choice and ("test" not in splits or len(splits["test"]) < ENOUGH):
        return _compare_folds(choice, splits["train"], peers)
    test, dev = splits.get("test"), splits.get("validation", splits["train"])
    if test is None or len(set(test["response"])) < FEWEST_REPLIES:
        return Comparison({}, {})
    threads = thread_numbers(test)
    queries = build_queries(test, threads)
    choosing = build_queries(dev, thread_numbers(dev))
    others = {ALONE: rank(queries, score(encoder, queries))} if encoder.uses_context else {}
    for name, system in _systems({"base": base, **peers}).items():
        weights = choose_context([_measure(system, choosing)]).weights
        [scores] = add_turns(score_by(system, queries.responses), queries.inputs, queries.contexts, [weights])
        others[name] = rank(queries, scores)
    messages = encoder.encode(queries.inputs, side="query", contexts=queries.contexts)
    ranks = rank(queries, messages @ encoder.encode(queries.responses, side="response").T)
    return _summarize(ranks, others, "test", queries.threads)


class _EncodedOnce:
    """An encoder that encodes a text once: each is in several folds, and the peer is slow."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._vectors = encoder, dict[tuple[Side, str], np.ndarray]()

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        texts = list(texts)
        if new := [text for text in dict.fromkeys(texts) if (side, text) not in self._vectors]:
            self._vectors.update(zip(((side, text) for text in new), self._encoder.encode(new, side), strict=True))
        return np.stack([self._vectors[side, text] for text in texts])


def _compare_folds(choice: Choice, pairs: Dataset, peers: dict[str, SentenceEncoder]) -> Comparison:
    threads = thread_numbers(pairs)
    queries = [build_queries(pairs.select(rows), threads[rows]) for rows in choice.held_out]
    others = {"base": choice.gain.base}
    for name, system in _systems(peers).items():
        others[name] = choose_context([_measure(system, each) for each in queries]).gain.adapted
    return _summarize(choice.gain.adapted, others, "cross-validation", choice.gain.threads)


def _systems(encoders: Mapping[str, SentenceEncoder]) -> dict[str, SentenceEncoder | str]:
    """The systems that ours is compared with: encoders, and the baselines by their names."""
    return {**encoders, **{name: name for name in BASELINES}}


def _measure(system: SentenceEncoder | str, queries: Queries) -> Measured[TurnWeights]:
    return measure_context(score_by(system, queries.responses), queries)


def _summarize(adapted: Ranks, others: dict[str, Ranks], split: str, threads: np.ndarray) -> Comparison:
    baselines = {
        name: summarize(each, split, threads) | _gain(adapted.precision() - each.precision(), threads)
        for name, each in others.items()
    }
    return Comparison(summarize(adapted, split, threads), baselines)


def _gain(differences: np.ndarray, threads: np.ndarray) -> dict[str, Any]:
    return {"gain": float(differences.mean()), f"gain{INTERVAL}": thread_interval(differences, threads)}


def format_comparison(comparison: Comparison) -> str:
    """A table of how systems rank replies."""
    adapted = comparison.adapted
    if not adapted:
        return "no comparison: no conversation was held out; add more logs"
    lines = [
        f"P@1: how often the real reply ranks first among {adapted['candidates']}, for {adapted['queries']:,} held-out "
        f"messages ({adapted['split']})",
        f"  {'':<30} {'P@1':>6}  {'95% interval':<16} adapted minus this",
        f"  {'adapted':<30} {_value(adapted, METRIC)}",
    ]
    for name, scores in comparison.baselines.items():
        lines.append(
            f"  {SYSTEMS.get(name, name):<30} {_value(scores, METRIC)}  {_value(scores, 'gain', '+')}".rstrip()
        )
    return "\n".join(lines)


def describe_gain(comparison: Comparison, is_adapted: bool, share: float | None = None) -> str:
    """Whether adapting helped, the share of a second model, and P@1 beside that of the others."""
    outcome = "adapted" if is_adapted else "the base as it is, because adapting did not help for certain"
    outcome += f"; joined with the project's own base, whose share in a score is {share:g}" if share else ""
    if not comparison.adapted:
        return outcome
    scores = {name: each[METRIC] for name, each in [("adapted", comparison.adapted), *comparison.baselines.items()]}
    chosen = scores.pop("adapted" if is_adapted or share else "base")
    others = [f"{value:.3f} ({SYSTEMS.get(name, name)})" for name, value in scores.items()]
    return f"{outcome}: P@1 {chosen:.3f}; {', '.join(others)}"


def _value(scores: dict[str, Any], name: str, sign: str = "") -> str:
    low, high = scores[f"{name}{INTERVAL}"]
    return f"{scores[name]:{sign}6.3f}  [{low:{sign}.3f}, {high:{sign}.3f}]".ljust(24)
