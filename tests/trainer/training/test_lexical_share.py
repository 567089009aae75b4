"""The share of the lexical channel that is chosen on dev."""

from types import SimpleNamespace

import pytest

from tests.modeling_convsim.tiny_models import build
from tests.trainer.training.test_adaptation import arguments
from trainer.training.adaptation import Adaptation, Choice
from trainer.training.context import Progress
from trainer.training.interpolation import Interpolation
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


@pytest.mark.parametrize("adapted", [0.3, 0.1])
def test_adapting_chooses_the_share_on_dev_after_the_weights(adapted):
    """P@1 is highest with a share of .2, with the adapted weights as with the base's."""
    model = build("dan_lexical")
    model.config.lexical_share = 0.0
    seen = []

    def evaluate(split, queries, evaluators):
        assert (split, queries, evaluators) == ("dev", 2000, ["response_prediction"])
        seen.append(model.config.lexical_share)
        return {"response_prediction": {"p_at_1": 0.5 - abs(model.config.lexical_share - 0.2)}}

    evaluator = SimpleNamespace(model=model, evaluate=evaluate)
    rankings = {"base_ranking": {"p_at_1": 0.2}, "best_ranking": {"p_at_1": adapted}}
    progress = Progress(best_step=9, best_factor=0.5, **rankings)
    part = Adaptation(arguments(), Interpolation(model), 90).finish(evaluator, progress)
    assert seen == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert part["lexical_share"] == model.config.lexical_share == 0.2
    assert part["factor"] == (0.5 if adapted == 0.3 else 0) and (part["base_p_at_1"], part["p_at_1"]) == (0.2, 0.5)


def test_cross_validation_has_chosen_the_share():
    model = build("dan_lexical")
    choice = Choice(1, 0.0, 0.4, {"p_at_1": 0.2}, {"p_at_1": 0.3})
    evaluator = SimpleNamespace(model=model)
    part = Adaptation(arguments(), Interpolation(model), 90, choice).finish(evaluator, Progress(best_step=1))
    assert part == {
        "factor": 0.0, "lexical_share": 0.4, "selected_on": "5-fold cross-validation", "queries": 90,
        "base_p_at_1": 0.2, "p_at_1": 0.3,
    }  # fmt: skip
    assert model.config.lexical_share == 0.4
