"""Runs that are evaluated on dev, as those of a sweep, leave datasets out that are test sets."""

from typing import Any

import pytest

from modeling_convsim.encoding import Encoder
from tests.trainer.evaluation.invented_data import evaluation_data
from tests.trainer.publish.test_publish import make_model
from trainer.command_line import parse_arguments
from trainer.sweep.variations import expand_variations
from trainer.training import model_evaluator
from trainer.training.model_evaluator import ModelEvaluator, evaluators_to_skip

TASKS = {"response_prediction": 1.0}


@pytest.mark.parametrize(("final_split", "evaluated"), [("dev", False), ("both", True)])
def test_a_run_on_dev_does_not_evaluate_the_semeval_test_sets(tiny_tokenizer, final_split, evaluated):
    model = make_model("dan", len(tiny_tokenizer))
    skip = evaluators_to_skip(TASKS, final_split)
    evaluator = ModelEvaluator(model, tiny_tokenizer, evaluation_data(), skip)
    results = evaluator.evaluate("dev")
    assert ("sts" in results) == evaluated
    assert set(results["stsb"]) == {"dev"} and results["response_prediction"]["split"] == "dev"


@pytest.mark.parametrize("is_training", [True, False])
def test_an_evaluation_leaves_the_model_as_it_was(tiny_tokenizer, monkeypatch, is_training):
    model, seen = make_model("dan", len(tiny_tokenizer)).train(is_training), []

    def evaluate(encoder: Encoder, *arguments: Any, **options: Any) -> dict[str, Any]:
        assert encoder.model is model
        seen.append((model.training, arguments, options))
        return {"snli": {"accuracy": 1.0}}

    monkeypatch.setattr(model_evaluator, "evaluate_encoder", evaluate)
    evaluator = ModelEvaluator(model, tiny_tokenizer, {"stsb": 1, "snli": 2, "pairs": 3}, ["snli", "mine"])
    assert evaluator.evaluate("dev") == {"snli": {"accuracy": 1.0}}
    evaluator.evaluate("both", queries=7, intervals=True, matrices={"stsb_tuned": 1})
    data = {"stsb": 1, "pairs": 3}
    assert seen == [
        (False, (data, "dev", None), {"queries": None, "intervals": False, "matrices": None}),
        (False, (data, "both", None), {"queries": 7, "intervals": True, "matrices": {"stsb_tuned": 1}}),
    ]
    assert model.training == is_training


def test_evaluators_of_heads_that_are_not_trained_are_skipped():
    assert evaluators_to_skip(["snli"], "both") == {"response_prediction"}
    assert evaluators_to_skip(["response_prediction/x", "captions/y"], "both") == {"snli"}
    assert evaluators_to_skip(["snli", "response_prediction"], "dev") == {"sts"}


def test_the_runs_of_a_sweep_with_sts_skip_it(tmp_path):
    preset = tmp_path / "preset.yaml"
    preset.write_text("sts: data/sts\npairs: [data/pairs]\ntasks: {response_prediction: 1}\n")
    runs = expand_variations(str(preset), [], [("seed", ["0", "1"])], tmp_path / "sweep")
    assert runs and all("sts" in evaluators_to_skip(TASKS, run.arguments.final_split) for run in runs)
    assert "sts" not in evaluators_to_skip(TASKS, parse_arguments([str(preset)]).final_split)
