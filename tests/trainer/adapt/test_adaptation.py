"""The training run of an adaptation: numbers of steps, splits, and the base if adapting does not help."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from safetensors.torch import load_file

from data_scripts.errors import InputError
from tests.modeling_convsim.tiny_models import build
from trainer.adapt import adaptation as module
from trainer.adapt.adaptation import TASK, Adaptation, adapt, scale_schedule, split_pairs
from trainer.adapt.cross_validation import Choice
from trainer.adapt.interpolation import Interpolation
from trainer.adapt.start import Start
from trainer.command_line import build_arguments, parse_arguments
from trainer.data.datasets import RunData
from trainer.preset_files import PRESETS
from trainer.training.context import Progress
from trainer.training.loop import TrainingLoop


def arguments(**options: Any) -> Any:
    given = {"adapt": True, "initialize_from": "m", "pairs": ["p"], "tasks": {"response_prediction": 1}}
    return build_arguments(**(given | options))


@pytest.mark.parametrize(
    ("pairs", "batch_size", "steps"),
    [(100, 128, 150), (12_800, 128, 150), (20_000, 128, 235), (20_001, 512, 150), (1_000_000, 512, 2930)],
)
def test_batch_size_and_steps_follow_from_the_number_of_pairs(pairs, batch_size, steps):
    scaled = scale_schedule(arguments(), pairs)
    assert (scaled.batch_size, scaled.max_steps, scaled.eval_every) == (batch_size, steps, -(-steps // 4))
    assert scale_schedule(arguments(max_steps=30), pairs).max_steps == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": {"response_prediction": 0.9, "snli": 0.1}, "snli": "s"}, "adapt trains on conversations alone"),
        ({"epochs": 3}, "epochs has no effect with adapt"),
        ({"average_from": 0.5}, "adapt interpolates whole models: drop sharded and average_from"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        arguments(**options)


@pytest.mark.parametrize(
    ("train", "dev", "expected"),
    [(3999, 0, None), (3800, 199, None), (4000, 0, 400), (4350, 150, 450), (4300, 200, 200)],
)
def test_a_few_pairs_have_no_dev_split_and_more_a_tenth_of_at_least_200(train, dev, expected):
    rows = [{"input": f"{row}", "response": "r", "thread": f"{row}", "source": "s"} for row in range(train + dev)]
    splits = {"test": Dataset.from_list(rows[:9])} | ({"validation": Dataset.from_list(rows[train:])} if dev else {})
    parts = {"pairs/a": Dataset.from_list(rows[:300]), "pairs/b": Dataset.from_list(rows[300:train])}
    data = RunData(parts, {"pairs": DatasetDict(splits)})
    split_pairs(data)
    held_out = data.evaluation["pairs"].get("validation")
    assert (held_out and len(held_out)) == expected and len(data.evaluation["pairs"]["test"]) == 9
    (trained,) = data.training.values()
    texts = [*trained["input"], *(held_out["input"] if held_out else [])]
    assert sorted(texts, key=int) == [row["input"] for row in rows]


def ranking(p_at_1: float, p_at_3: float = 0.5) -> dict[str, float]:
    return {"p_at_1": p_at_1, "p_at_3": p_at_3}


WEIGHTS = "encoder.embed_tokens.weight"


def adaptation_of(model, base_ranking, choice=None, adjusted=False, queries=90) -> Adaptation:
    """An adaptation whose start has the model's weights plus 10, and whose trained weights are 1 more."""
    adaptation, base = Adaptation(), Interpolation(model)
    with torch.no_grad():
        model.get_parameter(WEIGHTS).add_(10.0)
        adaptation._start = Start(base, 0.1, Interpolation(model), adjusted)
        model.get_parameter(WEIGHTS).add_(1)
    adaptation._base_ranking, adaptation._choice = base_ranking, choice
    adaptation.pairs = DatasetDict() if choice else {"validation": range(queries)}  # type: ignore[assignment]
    return adaptation


def write_log(folder: Path, start: dict, trained: dict, factor: float = 0.5) -> Any:
    """Write the log of a run whose best step is 9; returns its context."""
    rows = [{"step": 0, "dev": {TASK: start}}, {"step": 9, "loss": 1.0}]
    rows += [{"step": 9, "dev": {TASK: trained, "interpolation": {"factor": factor}}}]
    rows += [{"step": 12, "dev": {TASK: ranking(0.0), "interpolation": {"factor": 1.0}}}]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return SimpleNamespace(folder=folder)


@pytest.mark.parametrize(
    ("start", "trained", "factor", "p_at_1", "change"),
    [
        (ranking(0.2), ranking(0.3), 0.5, 0.3, 10.5),
        (ranking(0.25, 0.6), ranking(0.24, 0.7), 0.5, 0.24, 10.5),  # better on average, and at P@1 than the base
        (ranking(0.3), ranking(0.25), 0.0, 0.3, 10),
        (ranking(0.3), ranking(0.19, 0.9), 0.0, 0.3, 10),  # better on average, but not at P@1
        (ranking(0.2), ranking(0.1), 0.0, 0.2, 0),
        (ranking(0.19, 0.9), ranking(0.19, 0.8), 0.0, 0.2, 0),
    ],
)
def test_the_result_is_trained_or_the_start_or_the_base(tmp_path, start, trained, factor, p_at_1, change):
    model = build("dan_lexical")
    before = model.get_parameter(WEIGHTS).detach().clone()
    adaptation = adaptation_of(model, ranking(0.2), adjusted=True)
    context = write_log(tmp_path, start, trained)
    part = adaptation.finish(context, SimpleNamespace(model=model), Progress(best_step=9))["adaptation"]
    assert part == {
        "factor": factor, "token_weights_adjusted": change > 0, "lexical_share": 0.3 if change else 0.1,
        "selected_on": "dev", "queries": 90, "base_p_at_1": 0.2, "p_at_1": p_at_1,
    }  # fmt: skip
    assert model.config.lexical_share == part["lexical_share"]
    torch.testing.assert_close(model.get_parameter(WEIGHTS).data, before + change)


@pytest.mark.parametrize(
    ("adapted", "factor", "p_at_1", "change"),
    [(ranking(0.3), 0.5, 0.3, 10.5), (ranking(0.3), 0.0, 0.3, 10), (ranking(0.19, 0.9), 0.5, 0.2, 0)],
)
def test_cross_validation_has_chosen_the_factor(adapted, factor, p_at_1, change):
    model = build("dan_best")
    before = model.get_parameter(WEIGHTS).detach().clone()
    adaptation = adaptation_of(model, ranking(0.2), Choice(9, factor, 1500, adapted, ranking(0.2)))
    part = adaptation.finish(None, SimpleNamespace(model=model), Progress(best_step=9))["adaptation"]
    chosen = {"factor": factor if change else 0.0, "selected_on": "3-fold cross-validation", "queries": 1500}
    assert part == part | chosen | {"base_p_at_1": 0.2, "p_at_1": p_at_1}
    torch.testing.assert_close(model.get_parameter(WEIGHTS).data, before + change)


@pytest.mark.parametrize(
    ("queries", "highest", "share", "p_at_1"),
    [
        (999, 0.2, 0.3, 0.4),  # too few queries: the start's
        (1000, 0.2, 0.2, 0.5),
        (1000, 0.3, 0.3, 0.5),
        (1000, None, 0.3, 0.5),  # of equal ones the start's
    ],
)
def test_many_dev_queries_choose_the_share_once_more(tmp_path, queries, highest, share, p_at_1):
    model, seen = build("dan_lexical"), []

    def evaluate(split, queries, evaluators):
        assert (split, queries, evaluators) == ("dev", 2000, ["response_prediction"])
        own = model.config.lexical_share
        seen.append(own)
        # A higher mean does not make up for a lower P@1 than the start's.
        p_at_3 = 9.0 if highest == 0.3 and own != 0.3 else 0.5
        return {TASK: ranking(0.5 - abs(own - highest), p_at_3) if highest else ranking(0.5)}

    adaptation = adaptation_of(model, ranking(0.2), queries=queries)
    context = write_log(tmp_path, ranking(0.1), ranking(0.4))
    evaluator = SimpleNamespace(model=model, evaluate=evaluate)
    part = adaptation.finish(context, evaluator, Progress(best_step=9))["adaptation"]
    assert seen == ([0.3, 0.0, 0.1, 0.2, 0.4, 0.5] if queries == 1000 else [])
    assert part["lexical_share"] == model.config.lexical_share == share and part["p_at_1"] == p_at_1


@pytest.mark.parametrize("chosen", [None, 0.75])
def test_an_evaluation_has_the_best_factor_and_the_lowest_of_equal_ones(chosen):
    model = build("dan_best")
    choice = chosen and Choice(9, chosen, 90, {}, {})
    adaptation, seen = adaptation_of(model, {}, choice), []
    start = model.get_parameter(WEIGHTS)[0, 0].item() - 1

    def evaluate(split, queries):
        factor = round(model.get_parameter(WEIGHTS)[0, 0].item() - start, 2)
        seen.append(factor)
        return {"score": {0.25: 0.1, 0.5: 0.4, 0.75: 0.4, 1.0: 0.2}[factor]}

    evaluator = SimpleNamespace(model=model, evaluate=evaluate)
    best = {"score": 0.4, "interpolation": {"factor": chosen or 0.5}}
    assert adaptation.evaluate(evaluator, 3, lambda results: results["score"]) == best
    assert seen == ([chosen] if chosen else [0.25, 0.5, 0.75, 1.0])
    assert adaptation.evaluate(evaluator, 0, lambda results: results["score"]) == {"score": 0.2}  # before training


def test_a_resumed_adaptation_has_the_same_result(base, adapted_pairs, tmp_path, monkeypatch):
    """The pairs have a dev split; a resumed run knows the evaluations before it was killed."""
    monkeypatch.setattr(module, "SMALL", 100)
    monkeypatch.setattr(module, "ENOUGH", 20)
    take_step = TrainingLoop.step

    def run(name: str, *more: str, last: int = 8) -> Any:
        def step(self: TrainingLoop, index: int) -> None:
            if index == last:
                raise KeyError
            take_step(self, index)

        monkeypatch.setattr(TrainingLoop, "step", step)
        words = ["--initialize_from", base, "--pairs", str(adapted_pairs), "--cache_dir", str(tmp_path / "cache")]
        words += ["--output_dir", str(tmp_path / name), "--max_steps", "8", "--learning_rate", ".01", *more]
        return adapt(parse_arguments([str(PRESETS / "adapt.yaml"), *words]))[0]

    expected = run("whole")
    with pytest.raises(KeyError):
        run("killed", last=7)
    resumed = run("killed", "--resume", "true")
    assert resumed["adaptation"] == expected["adaptation"] and expected["adaptation"]["selected_on"] == "dev"
    assert expected["adaptation"]["queries"] >= 20
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed")]
    assert all(value.equal(weights[1][name]) for name, value in weights[0].items())
