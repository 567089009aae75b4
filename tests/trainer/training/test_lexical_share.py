"""The share of the lexical channel that is chosen on dev."""

import pytest

from tests.modeling_convsim.tiny_models import build
from trainer.training.lexical_share import best_share, rank_with_shares


def rankings_of(**p_at: tuple[float, float]) -> dict[float, dict[str, float]]:
    return {float(share.removeprefix("s")) / 10: {"p_at_1": a, "p_at_3": b} for share, (a, b) in p_at.items()}


@pytest.mark.parametrize(
    ("rankings", "share"),
    [
        (rankings_of(s0=(0.3, 0.5), s1=(0.3, 0.6), s2=(0.4, 0.55)), 0.2),
        (rankings_of(s0=(0.3, 0.5), s1=(0.4, 0.5), s2=(0.4, 0.5)), 0.1),  # the first of equal ones
        (rankings_of(s0=(0.3, 0.5), s1=(0.29, 0.9)), 0.0),  # P@1 may not become worse
        (rankings_of(s3=(0.3, 0.5), s0=(0.3, 0.5), s1=(0.2, 0.5)), 0.3),  # the model's own, unless another is better
    ],
)
def test_the_best_share_has_the_highest_mean_precision_without_a_loss_of_p_at_1(rankings, share):
    assert best_share(rankings) == share


@pytest.mark.parametrize(
    ("kind", "own", "shares"),
    [("dan_lexical", 0.3, [0.3, 0.0, 0.1]), ("dan_lexical", 0.0, [0.0, 0.1]), ("dan_best", 0.0, [0.0])],
)
def test_a_model_is_ranked_with_every_share_and_keeps_its_own(kind, own, shares):
    model = build(kind)
    model.config.lexical_share = own
    rankings = rank_with_shares(model, lambda: {"share": model.config.lexical_share}, [0.0, 0.1])
    assert rankings == {share: {"share": share} for share in shares} and list(rankings) == shares
    assert model.config.lexical_share == own
