"""What an index suggests for held-out messages, by the reply, by the message that it answered, and by both.

The base, which has not seen four of the domains, suggests from the first pairs of a domain; the weights of messages and
of their consensus are chosen on two thirds and one third of these. Suggestions are compared with the real replies by
the Universal Sentence Encoder (multilingual, version 3), which is in no system. Earlier turns have the weights of the
base in every system.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.deduplication import canonical_form
from modeling_convsim.suggestion.estimate import Estimator
from tests.benchmarks import adapting
from tests.benchmarks.adapting import base_of, domain_folder, gain_interval, peer_of
from tests.benchmarks.material import Material
from tests.benchmarks.measuring import Benchmark, Contender, Values
from tests.benchmarks.models import UniversalSentenceEncoder
from trainer.adapt.context import TurnWeights, add_turns, score_by
from trainer.adapt.cross_validation import Trial
from trainer.adapt.suggestions import Weights, suggest_held_out
from trainer.data.datasets import thread_numbers
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.ranking import contexts_of

DOMAINS = (*adapting.DOMAINS, "schema_guided", "taskmaster")
PAIRS = 3_000
MESSAGES = 300
COSINE = "cosine"
OURS = {"replies": Weights(0.0, 0.0, 0.0), "messages": Weights(1e4, 0.0, 0.0)}  # of the messages alone


def measure(material: Material, system: str) -> Values:
    """The mean over the domains of the mean cosine of suggestions with the real replies."""
    outcomes = [_measure_domain(material, system, domain) for domain in _domains(material)]
    return {
        COSINE: float(np.mean([np.mean(each["values"]) for each in outcomes])),
        "queries": outcomes,
    }


def _measure_domain(material: Material, system: str, domain: str) -> dict[str, Any]:
    folder = domain_folder(material, domain)
    known = Dataset(pq.read_table(folder / "train.parquet").slice(0, min(PAIRS, material.adapt_pairs)))
    test = Dataset(pq.read_table(folder / "test.parquet"))
    threads = thread_numbers(test)
    rows = np.sort(np.random.default_rng(0).permutation(len(test))[: min(MESSAGES, material.adapt_queries)])
    unknown = test.select(rows)
    texts = _suggest(material, system, known, unknown)
    judge = UniversalSentenceEncoder() if material.real else Encoder.from_pretrained(base_of(material))
    cosines = (judge.encode(texts) * judge.encode(unknown["response"][:])).sum(axis=1)
    return {"values": cosines.tolist(), "threads": threads[rows].tolist()}


def _suggest(material: Material, system: str, known: Dataset, unknown: Dataset) -> list[str]:
    who, _, way = system.partition(", ")
    encoder = Encoder.from_pretrained(base_of(material))
    if who != "ours":
        rival = peer_of(material) if who == "minilm" else who
        return _suggest_by_rival(rival, way, known, unknown, tuple(encoder.model.config.context_weights))
    index = _build(encoder, known)
    weights = OURS[way] if way else _choose(encoder, known)
    index.settings = replace(index.settings, message_weight=weights.message, consensus_weight=weights.consensus)
    return [each.text for [each] in index.suggest_many(unknown["input"][:], 1, contexts_of(unknown))]


def _choose(encoder: Encoder, known: Dataset) -> Weights:
    is_held_out = thread_numbers(known) % 3 == 0
    rows = np.flatnonzero(~is_held_out)
    trial = Trial(rows, known.select(rows), known.select(np.flatnonzero(is_held_out)), [])
    return suggest_held_out([trial], [encoder], Estimator(encoder, known["response"][:])).weights


def _suggest_by_rival(
    system: SentenceEncoder | str, way: str, known: Dataset, unknown: Dataset, weights: TurnWeights
) -> list[str]:
    """The reply that scores highest for each message, or the reply to the most similar known message.

    None of them is the message itself or an earlier turn.
    """
    messages, contexts = unknown["input"][:], contexts_of(unknown)
    inputs, replies = known["input"][:], known["response"][:]
    if way == "replies":
        [scores] = add_turns(score_by(system, replies), messages, contexts, [weights])
    elif isinstance(system, str):
        scores = score_by(system, inputs)(messages)
    else:
        scores = system.encode(messages, side="input") @ system.encode(inputs, side="input").T
    said = [
        {canonical_form(turn) for turn in (message, *context)}
        for message, context in zip(messages, contexts, strict=True)
    ]
    forms = [canonical_form(reply) for reply in replies]
    is_said = np.array([[form in each for form in forms] for each in said])
    return [replies[row] for row in np.where(is_said, -np.inf, scores).argmax(axis=1)]


def _build(encoder: Encoder, known: Dataset) -> ReplyIndex:
    return ReplyIndex.build(encoder, known["response"][:], known["input"][:])


def _domains(material: Material) -> tuple[str, ...]:
    return DOMAINS if material.real else ("synthetic",)


def prepare(material: Material) -> Values:
    """Write the pairs of each domain once."""
    return adapting.prepare(material, DOMAINS)


def _benchmark(system: str) -> Benchmark:
    what = f"the best suggestion of {PAIRS:,} known replies, cosine with the real one by USE: mean of six domains"
    ours, peer = (Contender(name, measure, {"system": name}) for name in ("ours", system))
    return Benchmark(what, COSINE, 1, ours, peer, prepare=Contender("domains", prepare), interval=gain_interval)


BENCHMARKS = {
    f"suggest_answer_{PAIRS}_{system.replace(', ', '_')}": _benchmark(system)
    for system in ("ours, replies", "ours, messages", "minilm, replies", "minilm, messages", "bm25, messages")
}
