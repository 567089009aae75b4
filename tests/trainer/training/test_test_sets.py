"""Runs that are evaluated on dev, as those of a sweep, leave datasets out that are test sets."""

import pytest
import torch

from tests.trainer.evaluation.invented_data import evaluation_data
from tests.trainer.publish.test_publish import make_model
from trainer.command_line import parse_arguments
from trainer.sweep.variations import expand_variations
from trainer.training.model_evaluator import ModelEvaluator, evaluators_to_skip

TASKS = {"response_prediction": 1.0}


@pytest.mark.parametrize(("final_split", "evaluated"), [("dev", False), ("both", True)])
def test_a_run_on_dev_does_not_evaluate_the_semeval_test_sets(tiny_tokenizer, final_split, evaluated):
    model = make_model("dan", len(tiny_tokenizer))
    skip = evaluators_to_skip(TASKS, final_split)
    evaluator = ModelEvaluator(model, tiny_tokenizer, evaluation_data(), skip, torch.get_num_threads())
    results = evaluator.evaluate("dev")
    assert ("sts" in results) == evaluated
    assert set(results["stsb"]) == {"dev"} and results["response_prediction"]["split"] == "dev"


def test_the_runs_of_a_sweep_with_sts_skip_it(tmp_path):
    preset = tmp_path / "preset.yaml"
    preset.write_text("sts: data/sts\npairs: [data/pairs]\ntasks: {response_prediction: 1}\n")
    runs = expand_variations(str(preset), [], [("seed", ["0", "1"])], tmp_path / "sweep")
    assert runs and all("sts" in evaluators_to_skip(TASKS, run.arguments.final_split) for run in runs)
    assert "sts" not in evaluators_to_skip(TASKS, parse_arguments([str(preset)]).final_split)
