"""The adapted model beside other systems, on the same held-out messages: how they rank replies, and what they suggest.

Where a log is small, its held-out messages are those of cross-validation, each by the model and the known replies of
the other folds, because the test split alone would say too little.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import Judge, text_cosines
from trainer.adapt.context import TurnWeights, add_turns, choose_context, measure_context, score_by
from trainer.adapt.cross_validation import Choice
from trainer.adapt.selection import Measured
from trainer.adapt.suggestions import (
    BY_MESSAGES,
    BY_REPLIES,
    RIGHT_COSINE,
    Suggested,
    Weights,
    rival_suggestions,
    suggest_by_weights,
    token_f1,
)
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
MOST = 2_000  # held-out messages, and known pairs, whose suggestions are compared
METRIC = "p_at_1"
OURS = {"replies": BY_REPLIES, "messages": BY_MESSAGES}
ALONE = "adapted, without earlier turns"
SYSTEMS = {"base": "the base", **LABELS}  # for people


@dataclass(frozen=True)
class Comparison:
    """The parts of results.json.

    Attributes:
        adapted: response prediction of the adapted model.
        baselines: that of the others, with the difference of P@1 to the adapted one.
        suggestions: of each way to suggest: the share that is right, token F1, and the difference to ours.
    """

    adapted: dict[str, Any]
    baselines: dict[str, dict[str, Any]]
    suggestions: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class _Part:
    """Held-out messages, and the pairs that are known where replies are suggested for them."""

    known: Dataset
    unknown: Dataset
    threads: np.ndarray  # (unknown,)


def compare(
    base: Encoder, encoder: Encoder, splits: DatasetDict, choice: Choice | None, weights: Weights, judge: Judge
) -> Comparison:
    """Compare the adapted model with its base, BM25, TF-IDF, and a peer if it is installed.

    Each of the others has `gain`, P@1 of the model (or the share of right suggestions) minus its own, with a paired
    bootstrap interval over conversations.

    Args:
        base: the base.
        encoder: the adapted model.
        splits: the pairs.
        choice: what cross-validation chose, if there is no dev split.
        weights: those of the index of replies.
        judge: compares suggestions with real replies.
    """
    peers: dict[str, SentenceEncoder] = {}
    if installed_copy(PEER) not in (PEER, installed_copy(base.model.name_or_path)):
        peers[PEER] = _EncodedOnce(load_encoder(PEER))
    if choice and ("test" not in splits or len(splits["test"]) < ENOUGH):
        return _compare_folds(choice, splits["train"], peers | {"base": base}, judge, weights)
    test, dev = splits.get("test"), splits.get("validation", splits["train"])
    if test is None or len(set(test["response"])) < FEWEST_REPLIES:
        return Comparison({}, {}, {})
    threads = thread_numbers(test)
    queries = build_queries(test, threads)
    choosing = build_queries(dev, thread_numbers(dev))
    others = {ALONE: rank(queries, score(encoder, queries))} if encoder.uses_context else {}
    turns = {}
    for name, system in _systems({"base": base, **peers}).items():
        weights_of_turns = choose_context([_measure(system, choosing)]).weights
        [scores] = add_turns(score_by(system, queries.responses), queries.inputs, queries.contexts, [weights_of_turns])
        others[name], turns[name] = rank(queries, scores), [weights_of_turns]
    messages = encoder.encode(queries.inputs, side="query", contexts=queries.contexts)
    ranks = rank(queries, messages @ encoder.encode(queries.responses, side="response").T)
    rankings = _summarize_ranks(ranks, others, "test", queries.threads)
    rows = np.sort(np.random.default_rng(0).permutation(len(test))[:MOST])
    known = np.sort(np.random.default_rng(0).permutation(len(splits["train"]))[:MOST])
    part = _Part(splits["train"].select(known), test.select(rows), threads[rows])
    index = ReplyIndex.build(encoder, part.known["response"][:], questions=part.known["input"][:])
    ours = suggest_by_weights(index, part.unknown, judge, [weights, *OURS.values()])
    return Comparison(*rankings, _summarize_suggestions(ours, weights, [part], peers | {"base": base}, judge, turns))


class _EncodedOnce:
    """An encoder that encodes a text once: each is in several folds, and the peer is slow."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._vectors = encoder, dict[tuple[Side, str], np.ndarray]()

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        texts = list(texts)
        if new := [text for text in dict.fromkeys(texts) if (side, text) not in self._vectors]:
            self._vectors.update(zip(((side, text) for text in new), self._encoder.encode(new, side), strict=True))
        return np.stack([self._vectors[side, text] for text in texts])


def _compare_folds(
    choice: Choice, pairs: Dataset, encoders: dict[str, SentenceEncoder], judge: Judge, weights: Weights
) -> Comparison:
    threads, everything = thread_numbers(pairs), np.arange(len(pairs))
    parts = [
        _Part(pairs.select(np.setdiff1d(everything, rows)), pairs.select(rows), threads[rows])
        for rows in choice.held_out
    ]
    queries = [build_queries(part.unknown, part.threads) for part in parts]
    others, turns = {"base": choice.gain.base}, {"base": choice.context.of_parts}
    for name, system in _systems({name: each for name, each in encoders.items() if name != "base"}).items():
        chosen = choose_context([_measure(system, each) for each in queries])
        others[name], turns[name] = chosen.gain.adapted, chosen.of_parts
    rankings = _summarize_ranks(choice.gain.adapted, others, "cross-validation", choice.gain.threads)
    suggestions = _summarize_suggestions(choice.suggested, weights, parts, encoders, judge, turns)
    return Comparison(*rankings, suggestions)


def _systems(encoders: Mapping[str, SentenceEncoder]) -> dict[str, SentenceEncoder | str]:
    """The systems that ours is compared with: encoders, and the baselines by their names."""
    return {**encoders, **{name: name for name in BASELINES}}


def _measure(system: SentenceEncoder | str, queries: Queries) -> Measured[TurnWeights]:
    return measure_context(score_by(system, queries.responses), queries)


def _summarize_ranks(
    adapted: Ranks, others: dict[str, Ranks], split: str, threads: np.ndarray
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    baselines = {
        name: summarize(each, split, threads) | _gain(adapted.precision() - each.precision(), threads)
        for name, each in others.items()
    }
    return summarize(adapted, split, threads), baselines


def _summarize_suggestions(
    ours: dict[Weights, Suggested],
    weights: Weights,
    parts: Sequence[_Part],
    encoders: dict[str, SentenceEncoder],
    judge: Judge,
    turns: Mapping[str, Sequence[TurnWeights]],
) -> dict[str, dict[str, Any]]:
    """Of each way to suggest; the first one is that of the index."""
    others = [
        rival_suggestions(encoders, part.known, part.unknown, {name: each[number] for name, each in turns.items()})
        for number, part in enumerate(parts)
    ]
    texts = {"adapted": ours[weights].texts} | {f"adapted, {name}": ours[each].texts for name, each in OURS.items()}
    texts |= {name: [text for each in others for text in each[name]] for name in others[0]}
    threads = np.concatenate([part.threads for part in parts])
    real = [text for part in parts for text in part.unknown["response"]]
    right = {name: text_cosines(judge, each, real) >= RIGHT_COSINE for name, each in texts.items()}
    return {
        name: {
            "right": float(right[name].mean()),
            f"right{INTERVAL}": thread_interval(right[name].astype(float), threads),
            "token_f1": float(token_f1(each, real).mean()),
            **_gain(right["adapted"].astype(float) - right[name], threads),
        }
        for name, each in texts.items()
    }


def _gain(differences: np.ndarray, threads: np.ndarray) -> dict[str, Any]:
    return {"gain": float(differences.mean()), f"gain{INTERVAL}": thread_interval(differences, threads)}


def format_comparison(comparison: Comparison) -> str:
    """A table of how systems rank replies, and one of what they suggest."""
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
    lines += [
        "",
        "right: how often the best suggestion of the known replies answers to the same effect as the real",
        "one (cosine of .6 by the base); F1: of their words. By replies: the reply that fits the message best;",
        "by messages: the reply to the most similar known message. The index of the adapted model uses both.",
        f"  {'':<30} {'right':>6}  {'95% interval':<16} {'F1':>5}  adapted minus this (right)",
    ]
    for name, scores in comparison.suggestions.items():
        system, _, way = name.partition(", ")
        label = SYSTEMS.get(system, system) + (f", by {way}" if way else "")
        gain = "" if name == "adapted" else _value(scores, "gain", "+")
        lines.append(f"  {label:<30} {_value(scores, 'right')} {scores['token_f1']:5.3f}  {gain}".rstrip())
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
