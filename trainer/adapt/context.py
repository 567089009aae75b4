"""Selects the weights of the earlier turns of a conversation on held-out messages; they differ between logs.

The score of a reply is its score for the message plus weighted scores for the earlier turns (see
`modeling_convsim.encoding.context`). The weights of other systems are selected in the same way, on their own scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from modeling_convsim.encoding.context import select_turns
from trainer.adapt.selection import Gain, Measured, gain_of
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.baselines import BASELINES, ScoreTexts
from trainer.evaluation.ranking import Queries, rank

TurnWeights = tuple[float, ...]  # of the turns before a message, the newest first
WEIGHTS: tuple[TurnWeights, ...] = (
    (0.25,),
    (0.25, 0.25, 0.25),
    (0.5, 0.25, 0.25),
    (0.5, 0.5, 0.5),
    (0.75, 0.5, 0.25),
    (1.0, 0.5, 0.25),
)


@dataclass(frozen=True)
class ContextChoice:
    """The weights of earlier turns.

    Attributes:
        weights: the weights selected on all parts of the held-out messages; empty if earlier turns do not help.
        of_parts: for each part, the weights selected on the other parts.
        gain: the gain of `of_parts` over using only the message.
    """

    weights: TurnWeights
    of_parts: list[TurnWeights]
    gain: Gain


def score_by(system: SentenceEncoder | str, replies: list[str]) -> ScoreTexts:
    """The scores of an encoder, or of one of `BASELINES`."""
    if isinstance(system, str):
        return BASELINES[system](replies)
    vectors = system.encode(replies, side="response")
    return lambda texts: system.encode(texts, side="query") @ vectors.T


def add_turns(
    score: ScoreTexts, messages: Sequence[str], contexts: Sequence[Sequence[str]], choices: Sequence[TurnWeights]
) -> list[np.ndarray]:
    """For each of several weights, the scores (messages, replies) of messages with their earlier turns."""
    turns = select_turns(messages, contexts, max(map(len, choices), default=0))
    said = [[message, *each] for message, each in zip(messages, turns, strict=True)]
    number = {text: position for position, text in enumerate(dict.fromkeys(text for each in said for text in each))}
    scores, results = score(list(number)), []
    for weights in choices:
        total = scores[[number[message] for message in messages]].copy()
        for position, weight in enumerate(weights, start=1):
            rows = [row for row, each in enumerate(said) if len(each) > position]
            total[rows] += np.float32(weight) * scores[[number[said[row][position]] for row in rows]]
        results.append(total)
    return results


def measure_context(score: ScoreTexts, queries: Queries) -> Measured[TurnWeights]:
    """The ranks with each of `WEIGHTS`, and, as the base, the ranks with only the messages."""
    choices = [(), *(WEIGHTS if any(queries.contexts) else ())]
    scores = add_turns(score, queries.inputs, queries.contexts, choices)
    alone, *ranks = (rank(queries, each) for each in scores)
    return Measured(queries.threads, alone, dict(zip(choices[1:], ranks, strict=True)))


def choose_context(parts: Sequence[Measured[TurnWeights]]) -> ContextChoice:
    """Select the weights of earlier turns on the messages of all parts, and for each part on the other parts.

    The criterion is the mean reciprocal rank, and any gain is enough: earlier turns help in most conversations.
    """

    def chosen(some: Sequence[Measured[TurnWeights]]) -> TurnWeights:
        choices = dict.fromkeys([(), *chain.from_iterable(part.points for part in some)])
        return max(choices, key=lambda each: sum(part.ranks(each).reciprocal_rank().sum() for part in some))

    of_parts = [chosen([*parts[:number], *parts[number + 1 :]]) for number in range(len(parts))]
    return ContextChoice(chosen(parts), of_parts, gain_of(parts, [weights or None for weights in of_parts]))
