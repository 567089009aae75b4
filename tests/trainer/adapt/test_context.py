"""The weights of earlier turns: scores against a loop, and who chooses them."""

import numpy as np
import pytest
from datasets import Dataset

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.adapt.context import WEIGHTS, ContextChoice, add_turns, choose_context, measure_context, score_by
from trainer.evaluation.ranking import build_queries, rank, score

TOPICS = [f"topic{number}" for number in range(60)]


def pairs_of(*, helps: bool) -> Dataset:
    """The message says nothing; the turn before it has the word of the reply, or one of another reply."""
    rows = []
    for number, topic in enumerate(TOPICS):
        said = topic if helps else TOPICS[(number + 7) % 60]
        context = [f"hm {said}", "hello"]
        rows.append({"input": f"well {number}", "response": f"about {topic}", "thread": topic, "context": context})
    return Dataset.from_list(rows)


def queries_of(pairs: Dataset, fold: int, folds: int = 3):
    rows = np.arange(len(pairs)) % folds == fold
    return build_queries(pairs.select(np.flatnonzero(rows)), np.flatnonzero(rows))


def test_scores_are_those_of_the_message_and_its_turns():
    rng = np.random.default_rng(0)
    vectors: dict[str, np.ndarray] = {}

    def score_texts(texts: list[str]) -> np.ndarray:
        assert len(set(texts)) == len(texts)
        return np.stack([vectors.setdefault(text, rng.standard_normal(9)) for text in texts])

    messages, contexts = ["a", "b", "a", "c"], [["x", "y"], [], ["", "b"], ["z", "x", "y"]]
    found = add_turns(score_texts, messages, contexts, [(), (0.5,), (1.0, 0.25, 2.0)])
    turns = [["x", "y"], [], ["b"], ["z", "x", "y"]]
    for weights, scores in zip([(), (0.5,), (1.0, 0.25, 2.0)], found, strict=True):
        for message, context, row in zip(messages, turns, scores, strict=True):
            expected = vectors[message] + sum(
                (weight * vectors[turn] for weight, turn in zip(weights, context, strict=False)), np.zeros(9)
            )
            np.testing.assert_allclose(row, expected, rtol=1e-6)


def test_the_ranks_with_weights_are_those_of_vectors_with_the_same_weights():
    queries, encoder = queries_of(pairs_of(helps=True), 0), FakeEncoder(size=16)
    measured = measure_context(score_by(encoder, queries.responses), queries)
    assert tuple(measured.points) == WEIGHTS
    for weights, ranks in {(): measured.base, **measured.points}.items():
        expected = rank(queries, score(encoder, queries, weights))
        np.testing.assert_array_equal(ranks.beaten_by, expected.beaten_by)


def choice_for(pairs: Dataset) -> ContextChoice:
    folds = [queries_of(pairs, fold) for fold in range(3)]
    return choose_context([measure_context(score_by("bm25", queries.responses), queries) for queries in folds])


def test_weights_are_chosen_where_earlier_turns_help_for_certain():
    choice = choice_for(pairs_of(helps=True))
    assert choice.weights in WEIGHTS and set(choice.of_parts) <= set(WEIGHTS) and len(choice.of_parts) == 3
    assert choice.gain.base.precision().mean() < 0.2 and choice.gain.adapted.precision().mean() > 0.9
    choice = choice_for(pairs_of(helps=False))
    assert choice.weights == () and choice.gain.summarize()["gain"] == 0
    choice = choice_for(pairs_of(helps=True).remove_columns("context"))
    assert choice.weights == () and choice.of_parts == [(), (), ()] and len(choice.gain.threads) == 60


@pytest.mark.parametrize("without", [{0}, {1, 2}, {0, 1, 2}])
def test_a_part_without_earlier_turns_has_the_ranks_of_its_messages_alone(without):
    pairs = pairs_of(helps=True).map(lambda row, number: {"context": [] if number % 3 in without else row["context"]},
                                     with_indices=True)  # fmt: skip
    choice, rows = choice_for(pairs), np.arange(60)
    assert bool(choice.weights) == (without != {0, 1, 2})
    changed = rows[choice.gain.adapted.beaten_by != choice.gain.base.beaten_by]
    assert not set(choice.gain.threads[changed] % 3) & without
    others = len(without) == 1  # the part that is chosen for; another one with turns must be left to choose
    assert (choice.gain.adapted.precision().mean() > choice.gain.base.precision().mean()) == others


def test_an_earlier_turn_is_no_candidate():
    pairs = pairs_of(helps=True)
    said = ["about topic3", "about topic4"]
    pairs = pairs.map(lambda row: row | {"context": said if row["thread"] == "topic9" else row["context"]})
    queries = build_queries(pairs, np.arange(60))
    others = {queries.responses[place] for place in np.flatnonzero(queries.is_other()[9])}
    assert others == set(pairs["response"]) - {"about topic9", *said}
    assert queries.is_other()[8].sum() == 59 and queries.contexts[9] == said
