"""Adapting starts at the token weights and the lexical share that rank the replies of the pairs best."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import build
from trainer.evaluation.response_prediction import build_queries, score_candidates
from trainer.training import adaptation_start
from trainer.training.adaptation_start import _rank_shares, prepare_start

SHARES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
COLUMNS = [SimpleNamespace(ids=np.array([5, 6, 5]))]


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


def reciprocal_rank(model, tokenizer, pairs: Dataset) -> float:
    """The mean over the queries, one by one, of 1 / (1 + number of candidates that score as high or higher)."""
    queries = build_queries(pairs["input"][:], pairs["response"][:])
    ranks = [
        1 + sum(score >= row[0] for score in row[1:]) for row in score_candidates(Encoder(model, tokenizer), queries)
    ]
    return sum(1 / rank for rank in ranks) / len(ranks)


@pytest.mark.parametrize(("kind", "own"), [("dan_lexical", 0.25), ("dan_lexical", 0.0), ("dan_best", 0.0)])
def test_each_share_has_the_mean_reciprocal_rank_of_the_model_with_it(tiny_tokenizer, kind, own):
    model, pairs = model_of(kind, own).train(), pairs_of(tiny_tokenizer)
    ranked = _rank_shares(model, tiny_tokenizer, build_queries(pairs["input"][:], pairs["response"][:]))
    assert model.training and model.config.lexical_share == own
    assert list(ranked) == ([own, *(share for share in SHARES if share != own)] if kind == "dan_lexical" else [0.0])
    for share, value in ranked.items():
        model.config.lexical_share = share
        assert value == pytest.approx(reciprocal_rank(model, tiny_tokenizer, pairs), abs=1e-9)
    assert len(set(ranked.values())) > 1 or kind == "dan_best"


@pytest.mark.parametrize("best", [(False, 0.0), (False, 0.2), (True, 0.0), (True, 0.4)])
def test_the_best_start_is_chosen_and_the_base_is_known(monkeypatch, tiny_tokenizer, best):
    model = model_of("dan_lexical", 0.1)
    before = state(model)

    def rank(given, tokenizer, queries):
        assert len(queries.inputs) == 40 and tokenizer is tiny_tokenizer
        adjusted = not is_equal(before, state(given))
        return {share: 0.5 if (adjusted, share) == best else 0.2 for share in [0.1, 0.0, 0.2, 0.4]}

    monkeypatch.setattr(adaptation_start, "_rank_shares", rank)
    start = prepare_start(model, tiny_tokenizer, COLUMNS, pairs_of(tiny_tokenizer), {"p_at_1": 0.3})
    assert (start.adjusted, model.config.lexical_share) == best
    assert (start.base_share, start.base_ranking) == (0.1, {"p_at_1": 0.3})
    after = state(model)
    assert is_equal(before, after) == (not start.adjusted)
    start.base.apply(model, 0.0)
    assert is_equal(before, state(model))
    start.interpolation.apply(model, 0.0)
    assert is_equal(after, state(model))


def test_of_equal_starts_the_base_is_chosen(monkeypatch, tiny_tokenizer):
    model = model_of("dan_lexical", 0.3)
    monkeypatch.setattr(adaptation_start, "_rank_shares", lambda *_: {0.3: 0.2, 0.0: 0.2})
    start = prepare_start(model, tiny_tokenizer, COLUMNS, pairs_of(tiny_tokenizer), {})
    assert not start.adjusted and model.config.lexical_share == 0.3


def test_a_model_without_a_lexical_channel_starts_as_it_is(tiny_tokenizer):
    model = model_of("dan_best")
    before = state(model)
    start = prepare_start(model, tiny_tokenizer, COLUMNS, pairs_of(tiny_tokenizer), {})
    assert not start.adjusted and is_equal(before, state(model))


def test_the_queries_of_many_pairs_are_of_all_parts_of_them(monkeypatch, tiny_tokenizer):
    monkeypatch.setattr(adaptation_start, "CANDIDATE_PAIRS", 10)
    pairs, seen = pairs_of(tiny_tokenizer, 35), []
    monkeypatch.setattr(
        adaptation_start, "_rank_shares", lambda model, _, queries: seen.append(queries.inputs) or {0: 1}
    )
    prepare_start(model_of("dan_best"), tiny_tokenizer, COLUMNS, pairs, {})
    assert seen == [pairs["input"][::4]]
