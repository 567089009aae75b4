"""All evaluations of one encoder have the shape of results.json and use the right splits."""

from typing import Any

import numpy as np
import pytest

from modeling_convsim.files.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder, Multitask
from tests.trainer.evaluation.invented_data import evaluation_data
from trainer.evaluation import sts_tuning
from trainer.evaluation.cqa import evaluate_cqa
from trainer.evaluation.evaluators import EVALUATORS, evaluate_baseline, evaluate_encoder
from trainer.evaluation.registry import EvaluationInputs
from trainer.evaluation.results import flatten
from trainer.evaluation.similarity import angular, cosine
from trainer.evaluation.sts_tuning import EmbeddedPairs
from trainer.evaluation.stsb import correlation_by_genre, evaluate_stsb

GENRES = ["all", "captions", "forums", "news"]


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return evaluation_data()


def test_all_evaluators_on_both_splits_have_the_shape_of_results_json(data: dict[str, Any]) -> None:
    results = evaluate_encoder(Multitask(), data, "both")
    assert list(results) == list(EVALUATORS)
    assert list(results["response_prediction"]) == ["p_at_1", "p_at_3", "p_at_10", "candidates", "queries", "split"]
    assert results["response_prediction"]["queries"] == 130
    assert results["response_prediction"]["split"] == "test"
    assert results["snli"] == {"accuracy": pytest.approx(2 / 3), "pairs": 30, "split": "test"}
    for task in ("stsb", "stsb_tuned"):
        assert {name: list(part) for name, part in results[task].items()} == {"dev": GENRES, "test": GENRES}
        assert set(results[task]["test"]["all"]) == {"pearson", "spearman", "pairs"}
    assert {name: list(part) for name, part in results["cqa"].items()} == {"dev": ["map"], "test2017": ["map"]}
    assert {year: list(sets) for year, sets in results["sts"].items()} == {"2012": ["MSRpar", "OnWN"], "2014": ["OnWN"]}
    assert list(results["sts"]["2014"]["OnWN"]) == ["pearson", "spearman", "pairs"]


def test_each_split_is_reported_under_its_own_name(data: dict[str, Any]) -> None:
    both = evaluate_encoder(FakeEncoder(), data, "both", ["stsb", "cqa"])
    for task, evaluate, names in (
        ("stsb", evaluate_stsb, {"dev": "validation", "test": "test"}),
        ("cqa", evaluate_cqa, {"dev": "validation", "test2017": "test2017"}),
    ):
        expected = {
            name: evaluate(FakeEncoder(), EvaluationInputs(None, {"": data[task][split]}))[""]
            for name, split in names.items()
        }
        assert both[task] == expected and len({str(part) for part in expected.values()}) == 2
        for split in ("dev", "test"):
            (name,) = [name for name in names if name.startswith(split)]
            assert evaluate_encoder(FakeEncoder(), data, split, [task])[task] == {name: expected[name]}
    assert both["stsb"]["dev"]["all"]["pairs"] == 30


def test_the_tuned_matrix_is_fitted_to_train_and_selected_on_dev(data, monkeypatch):
    given, matrix = [], np.diag(np.arange(1, 9)).astype(np.float32)

    def tune(train: EmbeddedPairs, dev: EmbeddedPairs) -> np.ndarray:
        given.extend([train, dev])
        return matrix

    monkeypatch.setattr(sts_tuning, "tune", tune)
    results = evaluate_encoder(FakeEncoder(), data, "both", ["stsb_tuned"])["stsb_tuned"]
    for pairs, split in zip(given, ("train", "validation"), strict=True):
        assert (pairs.first == FakeEncoder().encode(data["stsb"][split]["sentence1"])).all()
        assert (pairs.second == FakeEncoder().encode(data["stsb"][split]["sentence2"])).all()
        assert pairs.gold.tolist() == data["stsb"][split]["score"]
    for name, split in (("dev", "validation"), ("test", "test")):
        rows = data["stsb"][split]
        u, v = (FakeEncoder().encode(rows[side]) @ matrix.T for side in ("sentence1", "sentence2"))
        assert results[name] == correlation_by_genre(angular(cosine(u, v)), rows)


def test_intervals_are_added_to_unchanged_scores(data: dict[str, Any]) -> None:
    tasks = ["response_prediction", "snli", "stsb", "stsb_tuned", "cqa", "sts"]
    numbers = flatten(evaluate_encoder(Multitask(), data, "both", tasks))
    found = flatten(evaluate_encoder(Multitask(), data, "both", tasks, intervals=True))
    assert {name: value for name, value in found.items() if not name.endswith("_interval")} == numbers
    measured = [
        name for name in numbers if name.endswith(("p_at_1", "p_at_3", "p_at_10", "accuracy", "pearson", "map"))
    ]
    assert {f"{name}_interval" for name in measured} == found.keys() - numbers.keys()
    for name in measured:
        low, high = found[f"{name}_interval"]
        assert low <= numbers[name] <= high and low < high


def test_dev_skips_tuning_and_never_reads_test(data: dict[str, Any]) -> None:
    encoder = Multitask()
    results = evaluate_encoder(encoder, data, "dev")
    assert list(results) == ["response_prediction", "snli", "stsb", "cqa", "sts"]
    assert results["response_prediction"]["split"] == results["snli"]["split"] == "dev"
    assert list(results["stsb"]) == list(results["cqa"]) == ["dev"]
    assert not [text for _, texts in encoder.calls for text in texts if text.startswith("test")]


def test_a_missing_dataset_is_skipped_unless_its_evaluator_is_named(data: dict[str, Any]) -> None:
    only = {"stsb": data["stsb"]}
    assert list(evaluate_encoder(FakeEncoder(), only, "dev")) == ["stsb"]
    with pytest.raises(InputError, match="task cqa: cqa has no dev split to evaluate on"):
        evaluate_encoder(FakeEncoder(), only, "dev", ["cqa"])
    with pytest.raises(InputError, match="task cqa: cqa has no dev or test split to evaluate on"):
        evaluate_encoder(FakeEncoder(), only, "both", ["cqa"])


def test_a_baseline_is_measured_by_the_rankings_on_the_queries_of_the_encoder(data: dict[str, Any]) -> None:
    results = evaluate_baseline("bm25", data, "test", list(EVALUATORS))
    assert list(results) == ["response_prediction", "cqa"]
    precisions = {f"p_at_{n}": 1 for n in (1, 3, 10)}  # by the number in both texts
    assert results["response_prediction"] == {**precisions, "candidates": 100, "queries": 130, "split": "test"}
    assert list(results["cqa"]) == ["test2017"]
