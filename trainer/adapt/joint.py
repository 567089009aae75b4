"""Combines two adapted models; the weight of the second one in the score is selected on held-out messages.

Models trained on different texts make different mistakes: the mean of their scores ranks replies better than either
model.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from modeling_convsim.encoding import Encoder, JointEncoder
from trainer.adapt.cross_validation import Choice, Trial
from trainer.adapt.selection import TO_KEEP, Gain, Measured, choose, cross_choose
from trainer.evaluation.ranking import Queries, rank, score

SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class Joint:
    """Two adapted models.

    Attributes:
        encoder: the combined encoder.
        choice: the choice of the first model, with the combined encoders and their gain.
        gain: the gain over the first model, on messages not used for model selection.
    """

    encoder: JointEncoder
    choice: Choice
    gain: Gain

    def summarize(self) -> dict[str, Any]:
        """The part "joint" of results.json."""
        return {"share": self.encoder.share, **self.gain.summarize()}


def join(first: Choice, second: Choice, trials: list[Trial]) -> Joint | None:
    """Combine two models that were adapted to the same pairs; None if this is not significantly better."""
    models = list(zip(first.trial_encoders, second.trial_encoders, strict=True))
    parts = [_measure(*both, queries) for both, trial in zip(models, trials, strict=True) for queries in trial.parts]
    share, gain = choose(parts), cross_choose(parts)
    if share is None or not gain.exceeds(TO_KEEP):
        return None
    encoder = JointEncoder(first.encoder, second.encoder, share)
    choice = replace(
        first,
        gain=Gain(gain.threads, first.gain.base, gain.adapted),
        encoder=cast(Encoder, encoder),
        trial_encoders=[cast(Encoder, JointEncoder(*both, share)) for both in models],
    )
    return Joint(encoder, choice, gain)


def _measure(one: Encoder, other: Encoder, queries: Queries) -> Measured[float]:
    """The ranks with each share of the second model, and, as the base, the ranks of the first one."""
    scores, others = (score(each, queries, each.model.config.context_weights) for each in (one, other))
    ranks = {share: rank(queries, (1 - share) * scores + share * others) for share in SHARES}
    return Measured(queries.threads, rank(queries, scores), ranks)
