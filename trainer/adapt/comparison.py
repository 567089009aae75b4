"""Response prediction of the adapted model and of other systems, on the same held-out messages."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from trainer.adapt.ranking import FEWEST_REPLIES, build_queries, rank, score, summarize, thread_interval
from trainer.data.dev_split import thread_numbers
from trainer.encoders.loading import installed_copy, load_encoder
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.bootstrap import INTERVAL

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

    Each of the others has `gain`, P@1 of the model minus its own, with a paired bootstrap interval over conversations.
    """
    if pairs is None or len(set(pairs["response"])) < FEWEST_REPLIES:
        return Comparison({}, {})
    queries = build_queries(pairs, thread_numbers(pairs))
    encoders = {"base": base, **({PEER: PEER} if installed_copy(PEER) != PEER else {})}
    adapted = rank(queries, score(load_encoder(str(model)), queries))
    ranks = {name: rank(queries, score(load_encoder(source), queries)) for name, source in encoders.items()}
    everything = np.broadcast_to(np.arange(len(queries.responses)), queries.is_other.shape)
    ranks |= {name: rank(queries, by(queries.inputs, queries.responses, everything)) for name, by in BASELINES.items()}
    baselines = {}
    for name, each in ranks.items():
        gain = adapted.precision() - each.precision()
        baselines[name] = summarize(each, "test", queries.threads) | {
            "gain": float(gain.mean()),
            f"gain{INTERVAL}": thread_interval(gain, queries.threads),
        }
    return Comparison(summarize(adapted, "test", queries.threads), baselines)


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
