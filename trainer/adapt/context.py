"""How much the earlier turns of a conversation count, which differs from log to log and is chosen on held-out messages.

The score of a reply is then that for the message, plus weighted ones for the turns before it: see
`modeling_convsim.encoding.context`. Other systems get the same: their own scores, with weights chosen in the same way.
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
        weights: chosen on all parts of the held-out messages; empty if earlier turns do not help.
        of_parts: for the messages of each part, chosen on the others.
        gain: what the latter gain over the message alone.
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
    """The ranks with each of `WEIGHTS`, and, as the base, those of the messages alone."""
    choices = [(), *(WEIGHTS if any(queries.contexts) else ())]
    scores = add_turns(score, queries.inputs, queries.contexts, choices)
    alone, *ranks = (rank(queries, each) for each in scores)
    return Measured(queries.threads, alone, dict(zip(choices[1:], ranks, strict=True)))


def choose_context(parts: Sequence[Measured[TurnWeights]]) -> ContextChoice:
    """Choose the weights of earlier turns on the messages of several parts, and for each part on the others.

    The mean reciprocal rank decides, and any gain is enough: earlier turns help in most kinds of conversation.
    """

    def chosen(some: Sequence[Measured[TurnWeights]]) -> TurnWeights:
        choices = dict.fromkeys([(), *chain.from_iterable(part.points for part in some)])
        return max(choices, key=lambda each: sum(part.ranks(each).reciprocal_rank().sum() for part in some))

    of_parts = [chosen([*parts[:number], *parts[number + 1 :]]) for number in range(len(parts))]
    return ContextChoice(chosen(parts), of_parts, gain_of(parts, [weights or None for weights in of_parts]))
