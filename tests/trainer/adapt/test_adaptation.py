"""The training run of an adaptation: numbers of steps, splits, and the base if adapting does not help."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from safetensors.torch import load_file

from data_scripts.files.errors import InputError
from tests.modeling_convsim.tiny_models import build
from trainer.adapt import adaptation as module
from trainer.adapt.adaptation import Adaptation, adapt, scale_schedule, split_pairs
from trainer.adapt.context import ContextChoice
from trainer.adapt.cross_validation import Choice
from trainer.adapt.selection import TO_KEEP, Gain, Point
from trainer.adapt.start import Interpolation, Start
from trainer.adapt.suggestions import Weights
from trainer.command_line import build_arguments, parse_arguments
from trainer.data.datasets import RunData
from trainer.evaluation.ranking import Ranks
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
        ({"average_from": 0.5}, "adapt interpolates whole models: drop average_from"),
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


WEIGHTS = "encoder.embed_tokens.weight"


def ranks(beaten_by: int, messages: int = 40) -> Ranks:
    """The ranks of messages of which a few have another rank than the others."""
    return Ranks(np.where(np.arange(messages) % 10, beaten_by, 50), np.full(messages, 99))


def adaptation_of(model, tokenizer) -> Adaptation:
    """An adaptation whose start has the model's weights plus 10, and whose trained weights are 1 more."""
    adaptation = Adaptation()
    adaptation._base, adaptation._base_share = Interpolation(model), 0.1
    with torch.no_grad():
        model.get_parameter(WEIGHTS).add_(10.0)
        adaptation._start = Start(Interpolation(model), 0.3, True)
        model.get_parameter(WEIGHTS).add_(1)
    return adaptation


@pytest.mark.parametrize(
    ("point", "adapted", "change"),
    [
        (Point(9, 0.5, 0.4), 1, 10.5),
        (Point(0, 0.0, 0.2), 1, 10.0),
        (Point(9, 0.5, 0.4), 2, 0.0),  # no better than the base
        (None, 2, 0.0),
    ],
)
def test_cross_validation_has_chosen_and_decided(tiny_tokenizer, point, adapted, change):
    model = build("dan_lexical")
    before = model.get_parameter(WEIGHTS).detach().clone()
    adaptation = adaptation_of(model, tiny_tokenizer)
    gain = Gain(np.arange(40), ranks(2), ranks(adapted))
    chosen = point if gain.exceeds(TO_KEEP) else None  # as `CrossValidation.run` does
    context = ContextChoice((0.5, 0.25), [], gain)
    adaptation.choice = Choice(adaptation._start, chosen, gain, [], {}, Weights(0, 0), context)
    adaptation.context = context
    assert adaptation.evaluate(SimpleNamespace(model=model), 9) == {}
    part = adaptation.finish(None, SimpleNamespace(model=model), Progress(best_step=9))["adaptation"]
    share = point.share if change and point else 0.1
    expected = {"adapted": change > 0, "lexical_share": share, "token_weights_adjusted": change > 0, "queries": 40}
    assert part == part | expected | {"measured_by": "3-fold cross-validation"}
    assert (part["step"], part["factor"]) == ((point.step, point.factor) if change else (0, 0.0))
    assert model.config.lexical_share == share and model.config.context_weights == [0.5, 0.25]
    assert part["context_weights"] == [0.5, 0.25] and part["context_gain"]["queries"] == 40
    torch.testing.assert_close(model.get_parameter(WEIGHTS).data, before + change)


@pytest.mark.parametrize(("measured", "change"), [(1, 10.5), (2, 0.0), (3, 0.0)])
def test_one_half_of_dev_chooses_and_the_other_decides(tmp_path, monkeypatch, tiny_tokenizer, measured, change):
    model = build("dan_lexical")
    model.config.lexical_share = 0.1
    texts = [f"text {number}" for number in range(80)]
    pairs = Dataset.from_dict({"input": texts, "response": texts[1:] + texts[:1], "thread": texts})
    # The base, the weights that `adaptation_of` gives, and those that an evaluation of a factor has.
    first, asked = model.get_parameter(WEIGHTS)[0, 0].item(), []

    def rank(encoder, queries, shares, turns):
        assert turns == ()  # the pairs have no earlier turns
        moved = round(encoder.model.get_parameter(WEIGHTS)[0, 0].item() - first, 2)
        is_choosing = queries is adaptation._dev.choosing if hasattr(adaptation, "_dev") else False
        asked.append((is_choosing, moved, len(queries)))
        if not is_choosing:
            return {share: ranks(2 if moved == 0 else measured, len(queries)) for share in shares}
        best = {10.5: 0.4}.get(moved)
        return {share: ranks(1 if share == best else 2, len(queries)) for share in shares}

    adaptation = Adaptation()
    monkeypatch.setattr(module, "rank_shares", rank)
    dev = module._Dev(model, tiny_tokenizer, pairs)
    adaptation = adaptation_of(model, tiny_tokenizer)
    adaptation._dev, adaptation.context = dev, dev.context
    before = model.get_parameter(WEIGHTS).detach().clone() - 11
    evaluator = SimpleNamespace(model=model)
    rows = [{"step": step, "dev": adaptation.evaluate(evaluator, step)} for step in (0, 9)]
    assert rows[1]["dev"]["point"] == {"step": 9, "factor": 0.5, "share": 0.4}
    assert rows[0]["dev"]["point"]["factor"] == 0 and {moved for _, moved, _ in asked[2:]} == {10.25, 10.5, 10.75, 11}
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"step": 12, "loss": 1.0}])))
    part = adaptation.finish(SimpleNamespace(folder=tmp_path), evaluator, Progress(best_step=9))["adaptation"]
    assert part == part | {"adapted": change > 0, "measured_by": "dev", "lexical_share": 0.4 if change else 0.1}
    assert part["queries"] == asked[0][2] == asked[-1][2] and not asked[-1][0]
    assert 20 <= part["queries"] <= 60 and part["queries"] + len(dev.choosing) == 80
    torch.testing.assert_close(model.get_parameter(WEIGHTS).data, before + change)


def test_the_halves_of_dev_have_whole_conversations(tiny_tokenizer):
    texts = [f"text {number}" for number in range(60)]
    threads = [f"thread {number // 3}" for number in range(60)]
    pairs = Dataset.from_dict({"input": texts, "response": texts[::-1], "thread": threads})
    dev = module._Dev(build("dan_lexical"), tiny_tokenizer, pairs)
    assert not set(dev.choosing.threads) & set(dev._measuring.threads)
    assert len(dev.choosing) + len(dev._measuring) == 60 and len(dev.choosing) in range(20, 41)


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
        return adapt(parse_arguments([str(PRESETS / "adapt.yaml"), *words])).results

    expected = run("whole")
    with pytest.raises(KeyError):
        run("killed", last=7)
    resumed = run("killed", "--resume", "true")
    assert resumed["adaptation"] == expected["adaptation"] and expected["adaptation"]["measured_by"] == "dev"
    assert expected["adaptation"]["queries"] >= 10
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed")]
    assert all(value.equal(weights[1][name]) for name, value in weights[0].items())
