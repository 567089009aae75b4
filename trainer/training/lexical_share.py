"""The share of a model's lexical channel, chosen on dev."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.training.model_evaluator import mean_precision

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def rank_with_shares(
    model: ConvSimForMultitask, rank: Callable[[], Mapping[str, Any]], shares: Sequence[float] = SHARES
) -> dict[float, Mapping[str, Any]]:
    """Evaluate response prediction with each share and with the model's own, which comes first and is restored.

    Args:
        model: a model; without a lexical channel, only its own share, 0, is evaluated.
        rank: returns the part "response_prediction" of the results.
        shares: other shares.
    """
    own = model.config.lexical_share
    rankings = {}
    for share in dict.fromkeys([own, *shares] if model.lexical_channel is not None else [own]):
        model.config.lexical_share = share
        rankings[share] = rank()
    model.config.lexical_share = own
    return rankings


def best_share(rankings: Mapping[float, Mapping[str, Any]]) -> float:
    """The share of the highest mean precision among those whose P@1 is at least the first one's; the first if equal."""
    first = next(iter(rankings.values()))
    candidates = [share for share, ranking in rankings.items() if ranking["p_at_1"] >= first["p_at_1"]]
    return max(candidates, key=lambda share: mean_precision(rankings[share]))
