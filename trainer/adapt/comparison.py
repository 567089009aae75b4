"""Response prediction of the adapted model and of other systems, on the same held-out queries."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from trainer.encoders.loading import installed_copy, load_encoder
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.bootstrap import INTERVAL, mean_interval
from trainer.evaluation.metrics.precision_at_n.precision_at_n import true_ranks
from trainer.evaluation.response_prediction import build_queries, score_candidates, summarize

PEER = "all-MiniLM-L6-v2"
METRIC = "p_at_1"
LABELS = {"base": "the base", "bm25": "BM25", "tfidf": "TF-IDF"}


@dataclass(frozen=True)
class Comparison:
    """The parts of results.json for each system; those of the others have the difference of P@1 to the adapted one."""

    adapted: dict[str, Any]
    baselines: dict[str, dict[str, Any]]


def compare(base: str, model: Path, pairs: Dataset | None) -> Comparison:
    """Rank the replies of held-out pairs with each system: the model, its base, BM25, TF-IDF, and a peer if installed.

    Each of the others has `gain`, P@1 of the model minus its own, with a paired bootstrap interval.
    """
    if pairs is None or len(set(pairs["response"])) < 2:
        return Comparison({}, {})
    queries = build_queries(pairs["input"][:], pairs["response"][:])
    encoders = {"base": base, **({PEER: PEER} if installed_copy(PEER) != PEER else {})}
    adapted = score_candidates(load_encoder(str(model)), queries)
    scores = {name: score_candidates(load_encoder(source), queries) for name, source in encoders.items()}
    scores |= {name: rank(queries.inputs, queries.responses, queries.candidates) for name, rank in BASELINES.items()}
    hits = _hits(adapted)
    baselines = {}
    for name, each in scores.items():
        gain = hits - _hits(each)
        baselines[name] = _summary(each) | {"gain": float(gain.mean()), f"gain{INTERVAL}": mean_interval(gain)}
    return Comparison(_summary(adapted), baselines)


def _summary(scores: np.ndarray) -> dict[str, Any]:
    return summarize(scores, "test", intervals=True)


def _hits(scores: np.ndarray) -> np.ndarray:
    """(queries,): 1 where the true reply, in column 0, is ranked first."""
    return (true_ranks(scores, np.zeros(len(scores), dtype=np.int64)) <= 1).astype(np.float64)


def format_comparison(comparison: Comparison) -> str:
    """A table with a row for each system."""
    adapted = comparison.adapted
    if not adapted:
        return "no comparison: no conversation was held out; add more logs"
    lines = [
        f"P@1 of {adapted['queries']:,} held-out messages, each with {adapted['candidates']} candidate replies",
        f"  {'':<18} {'P@1':>6}  {'95% interval':<16} adapted minus this",
        f"  {'adapted':<18} {_value(adapted, METRIC)}",
    ]
    for name, scores in comparison.baselines.items():
        lines.append(f"  {LABELS.get(name, name):<18} {_value(scores, METRIC)}  {_value(scores, 'gain', '+')}".rstrip())
    return "\n".join(lines)


def _value(scores: dict[str, Any], name: str, sign: str = "") -> str:
    low, high = scores[f"{name}{INTERVAL}"]
    return f"{scores[name]:{sign}6.3f}  [{low:{sign}.3f}, {high:{sign}.3f}]".ljust(24)
