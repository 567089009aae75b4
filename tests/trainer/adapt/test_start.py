"""Adapting starts at the token weights and the lexical share that rank best, and ends between start and result."""

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer
from tests.modeling_convsim.tiny_models import build
from trainer.adapt import start as module
from trainer.adapt.start import Interpolation, adjust_token_weights, prepare_start, rank_shares, shares_of
from trainer.data.token_weights import rarity_of
from trainer.evaluation.ranking import Ranks, build_queries, score

SHARES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def columns(*ids: list[int]) -> list[SimpleNamespace]:
    return [SimpleNamespace(ids=np.array(each)) for each in ids]


def pairs_of(tokenizer, number: int = 40) -> Dataset:
    words = [word for word in tokenizer.get_vocab() if word.isalpha() and len(word) > 2]
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(words, 4)) for _ in range(2 * number)]
    return Dataset.from_dict({"input": texts[::2], "response": texts[1::2]})


def model_of(kind: str, share: float = 0.0):
    model = build(kind)
    model.config.lexical_share = share
    return model


def state(model) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def is_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(value.equal(other[name]) for name, value in one.items())


@pytest.mark.parametrize(("kind", "own"), [("dan_lexical", 0.25), ("dan_lexical", 0.0), ("dan_best", 0.0)])
def test_each_share_has_the_ranks_of_the_model_with_it(tiny_tokenizer, kind, own):
    model, pairs = model_of(kind, own).train(), pairs_of(tiny_tokenizer)
    pairs = pairs.add_column("context", [[text] for text in [*pairs["input"][1:], "yes"]])
    queries, shares = build_queries(pairs, np.arange(len(pairs))), shares_of(model)
    assert shares == ([own, *(share for share in SHARES if share != own)] if kind == "dan_lexical" else [0.0])
    ranked = rank_shares(model, BatchTokenizer.from_transformers(tiny_tokenizer, None), queries, shares, [0.5])
    assert model.training and model.config.lexical_share == own
    for share, ranks in ranked.items():
        model.config.lexical_share = share
        scores = score(Encoder(model, tiny_tokenizer), queries, [0.5])
        lowest, highest = (
            [
                sum(value >= row[true] + margin for place, value in enumerate(row) if other[place])
                for row, true, other in zip(scores, queries.true, queries.is_other(), strict=True)
            ]
            for margin in (1e-4, -1e-4)  # two ways of summing give slightly different scores
        )
        assert (ranks.beaten_by >= lowest).all() and (ranks.beaten_by <= highest).all()
        assert np.equal(lowest, highest).mean() > 0.8
    assert len({tuple(ranks.beaten_by) for ranks in ranked.values()}) > 1 or kind == "dan_best"


@pytest.mark.parametrize("best", [(False, 0.1), (False, 0.2), (True, 0.4)])
def test_the_best_start_is_chosen_and_the_base_is_known(monkeypatch, tiny_tokenizer, best):
    model = model_of("dan_lexical", 0.1)
    before = state(model)

    def rank(given, tokenizer, queries, shares):
        assert len(queries) == 40 and shares == [0.1, 0.0, *SHARES[2:]]
        adjusted = not is_equal(before, state(given))
        # Of equal starts, the base is chosen.
        is_best = {share: (adjusted, share) == best or best == (False, 0.1) for share in shares}
        return {share: Ranks(np.array([2 - yes] * 40), np.full(40, 39)) for share, yes in is_best.items()}

    monkeypatch.setattr(module, "rank_shares", rank)
    base = Interpolation(model)
    start, adjusted = prepare_start(model, tiny_tokenizer, columns([5, 6, 5]), pairs_of(tiny_tokenizer))
    assert (adjusted, model.config.lexical_share) == best
    after = state(model)
    assert is_equal(before, after) == (not adjusted)
    base.apply(model, 0.0)
    assert is_equal(before, state(model))
    start.apply(model, 0.0)
    assert is_equal(after, state(model))


def test_token_weights_follow_from_the_mean_of_both_frequencies():
    model = build("dan_lexical")
    size = model.config.vocab_size
    old = np.arange(size) / (size * (size - 1) / 2)
    model.lexical_channel.weights.copy_(torch.from_numpy(np.where(old > 0, rarity_of(old), 0)))
    before = model.encoder.token_weights.weight.detach().clone()
    assert adjust_token_weights(model, columns([0, 5, 5, 6], [0, 5, 0, 0]))
    new = [share / 2 + {0: 4, 5: 3, 6: 1}.get(token, 0) / 8 / 2 for token, share in enumerate(old)]
    rarity = [(math.log(share) / math.log(min(new))) ** 2 for share in new]
    rarity[0] = 0  # a token that the tokenizer adds to every text stays without weight
    torch.testing.assert_close(model.lexical_channel.weights, torch.tensor(rarity), rtol=1e-5, atol=0)
    factors = [math.sqrt((0.001 + before) / (0.001 + after)) for before, after in zip(old, new, strict=True)]
    expected = before * torch.tensor(factors).unsqueeze(1)
    torch.testing.assert_close(model.encoder.token_weights.weight.data, expected, rtol=1e-5, atol=0)
    assert factors[5] < 0.5 and factors[7] > 1  # a token of these texts says less in them, any other one more


def test_token_weights_need_a_lexical_channel_but_not_those_of_an_encoder():
    model = build("dan_best")
    before = state(model)
    assert not adjust_token_weights(model, columns([5])) and is_equal(before, state(model))
    model = build("dan_lexical")
    model.encoder.token_weights = None
    model.lexical_channel.weights.fill_(1.0)
    assert adjust_token_weights(model, columns([5])) and model.lexical_channel.weights[5] < 0.1


def test_each_factor_is_evaluated_between_base_and_trained_weights_which_are_restored():
    base = build("dan_lexical")
    interpolation, before, model = Interpolation(base), state(base), copy.deepcopy(base)
    with torch.no_grad():
        for value in (*model.parameters(), model.lexical_channel.weights, *base.parameters()):  # a copy of the base
            value += torch.randn_like(value)
    after = state(model)
    outcomes = {}
    interpolation.evaluate(model, lambda factor: outcomes.update({factor: state(model)}))
    assert list(outcomes) == [0.25, 0.5, 0.75, 1.0] and is_equal(after, state(model))
    assert is_equal(after, outcomes[1.0])
    expected = {name: before[name] + 0.25 * (after[name] - before[name]) for name in before}
    torch.testing.assert_close(outcomes[0.25], expected)
    interpolation.apply(model, 0.25)
    torch.testing.assert_close(state(model), expected)
    interpolation.apply(model, 0.0)
    assert is_equal(before, state(model))
