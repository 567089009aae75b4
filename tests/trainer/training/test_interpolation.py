"""Weights between those of a base and those that were trained from it."""

import copy

import torch

from tests.modeling_convsim.tiny_models import build
from trainer.training.interpolation import Interpolation


def weights(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.named_parameters()}


def trained_from(base):
    model = copy.deepcopy(base)
    with torch.no_grad():
        for value in model.parameters():
            value += torch.randn_like(value)
    return model


def test_weights_are_base_plus_factor_times_the_change():
    base = build("dan_best")
    before, interpolation = weights(base), Interpolation(base)
    model = trained_from(base)
    after = weights(model)
    interpolation.apply(model, 0.25)
    for name, value in model.named_parameters():
        torch.testing.assert_close(value.data, before[name] + 0.25 * (after[name] - before[name]))


def test_the_ends_are_the_base_and_the_trained_weights_exactly():
    base = build("dan_best")
    for factor, expected in ((0.0, base), (1.0, None)):
        model = trained_from(base)
        expected = weights(expected or model)
        Interpolation(base).apply(model, factor)
        assert all(value.equal(expected[name]) for name, value in model.named_parameters())


def test_the_base_is_a_copy_that_training_does_not_change():
    model = build("dan_best")
    before, interpolation = weights(model), Interpolation(model)
    with torch.no_grad():
        for value in model.parameters():
            value.fill_(3.0)
    interpolation.apply(model, 0.0)
    assert all(value.equal(before[name]) for name, value in model.named_parameters())


def test_each_factor_is_evaluated_and_the_trained_weights_are_restored():
    base = build("dan_best")
    model, name = trained_from(base), "encoder.embed_tokens.weight"
    after, seen = weights(model), []
    start = base.get_parameter(name).data

    def evaluate() -> float:
        change, whole = model.get_parameter(name).data - start, after[name].data - start
        seen.append(change.norm() / whole.norm())
        return float(seen[-1])

    outcomes = Interpolation(base, (0.25, 1.0, 0.5)).evaluate(model, evaluate)
    torch.testing.assert_close(torch.tensor([score for score, _ in outcomes]), torch.tensor([0.25, 1.0, 0.5]))
    assert [factor for _, factor in outcomes] == [0.25, 1.0, 0.5]
    assert all(value.equal(after[key]) for key, value in model.named_parameters())


def test_the_weights_of_the_lexical_channel_are_interpolated():
    base = build("dan_lexical")
    base.lexical_channel.weights.fill_(0.5)
    interpolation, model = Interpolation(base), copy.deepcopy(base)
    model.lexical_channel.weights.fill_(0.9)
    interpolation.apply(model, 0.25)
    torch.testing.assert_close(model.lexical_channel.weights, torch.full((len(model.lexical_channel.weights),), 0.6))


def test_other_factors_have_the_same_base():
    base = build("dan_best")
    interpolation = Interpolation(base)
    assert interpolation.with_factors(0.5).factors == (0.5,) and interpolation.factors == (0.25, 0.5, 0.75, 1.0)
    model = trained_from(base)
    interpolation.with_factors(0.5).apply(model, 0.0)
    assert all(value.equal(weights(base)[name]) for name, value in model.named_parameters())
