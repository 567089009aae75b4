"""The adapted model beside other systems: how they rank the replies of the same held-out messages.

Where a log is small, these are the messages of cross-validation, each by the model of the other folds, because the test
split alone would say too little.
"""

from typing import Any

import numpy as np
from datasets import Dataset

from trainer.adapt.adaptation import Adapted
from trainer.adapt.context import TurnWeights, add_turns, choose_context, measure_context, score_by
from trainer.adapt.selection import Measured
from trainer.data.datasets import thread_numbers
from trainer.encoders.loading import installed_copy, load_encoder
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.baselines import BASELINES, LABELS
from trainer.evaluation.bootstrap import INTERVAL
from trainer.evaluation.ranking import (
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
ADAPTED = "adapted"
SYSTEMS = {"base": "the base", **LABELS}  # for people


def compare(adapted: Adapted) -> dict[str, dict[str, Any]]:
    """Compare an adapted model with its base, BM25, TF-IDF, and a peer if it is installed.

    Returns:
        Response prediction of "adapted", and after it that of each other system, which also has `gain`: P@1 of the
        adapted model minus its own, with a paired bootstrap interval over conversations.
    """
    base, choice, splits = adapted.base, adapted.choice, adapted.pairs
    systems: dict[str, SentenceEncoder | str] = {}
    if installed_copy(PEER) not in (PEER, installed_copy(base.name)):
        systems[PEER] = load_encoder(PEER)
    systems |= {name: name for name in BASELINES}
    if "test" not in splits or len(splits["test"]) < ENOUGH:
        parts = [queries for trial in adapted.trials for queries in trial.parts]
        others = {"base": choice.gain.base}
        for name, system in systems.items():
            others[name] = choose_context([_measure(system, each) for each in parts]).gain.adapted
        return _summarize(choice.gain.adapted, others, adapted.measured_by, choice.gain.threads)
    queries = _queries(splits["test"])
    choosing = _queries(splits.get("validation", splits["train"]))
    others = {ALONE: rank(queries, score(choice.encoder, queries))} if choice.encoder.uses_context else {}
    for name, system in {"base": base, **systems}.items():
        weights = choose_context([_measure(system, choosing)]).weights
        [scores] = add_turns(score_by(system, queries.responses), queries.inputs, queries.contexts, [weights])
        others[name] = rank(queries, scores)
    messages = choice.encoder.encode(queries.inputs, side="query", contexts=queries.contexts)
    ranks = rank(queries, messages @ choice.encoder.encode(queries.responses, side="response").T)
    return _summarize(ranks, others, "test", queries.threads)


def _queries(pairs: Dataset) -> Queries:
    return build_queries(pairs, thread_numbers(pairs))


def _measure(system: SentenceEncoder | str, queries: Queries) -> Measured[TurnWeights]:
    return measure_context(score_by(system, queries.responses), queries)


def _summarize(adapted: Ranks, others: dict[str, Ranks], split: str, threads: np.ndarray) -> dict[str, dict[str, Any]]:
    parts = {name: summarize(each, split, threads) for name, each in {ADAPTED: adapted, **others}.items()}
    for name, each in others.items():
        differences = adapted.precision() - each.precision()
        parts[name] |= {"gain": float(differences.mean()), f"gain{INTERVAL}": thread_interval(differences, threads)}
    return parts


def format_comparison(comparison: dict[str, dict[str, Any]]) -> str:
    """A table of how systems rank replies."""
    adapted = comparison[ADAPTED]
    lines = [
        f"P@1: how often the real reply ranks first among {adapted['candidates']}, for {adapted['queries']:,} held-out "
        f"messages ({adapted['split']})",
        f"  {'':<30} {'P@1':>6}  {'95% interval':<16} adapted minus this",
    ]
    for name, scores in comparison.items():
        gain = _value(scores, "gain", "+") if "gain" in scores else ""
        lines.append(f"  {SYSTEMS.get(name, name):<30} {_value(scores, METRIC)}  {gain}".rstrip())
    return "\n".join(lines)


def describe_gain(comparison: dict[str, dict[str, Any]], is_adapted: bool, share: float | None = None) -> str:
    """Whether adapting helped, the share of a second model, and P@1 beside that of the others."""
    outcome = "adapted" if is_adapted else "the base as it is, because adapting did not help for certain"
    outcome += f"; joined with the project's own base, whose share in a score is {share:g}" if share else ""
    scores = {name: each[METRIC] for name, each in comparison.items()}
    chosen = scores.pop(ADAPTED if is_adapted or share else "base")
    others = [f"{value:.3f} ({SYSTEMS.get(name, name)})" for name, value in scores.items()]
    return f"{outcome}: P@1 {chosen:.3f}; {', '.join(others)}"


def _value(scores: dict[str, Any], name: str, sign: str = "") -> str:
    low, high = scores[f"{name}{INTERVAL}"]
    return f"{scores[name]:{sign}6.3f}  [{low:{sign}.3f}, {high:{sign}.3f}]".ljust(24)
