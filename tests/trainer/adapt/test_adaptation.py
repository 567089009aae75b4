"""The training run of an adaptation: numbers of steps, splits, and the base if adapting does not help."""

from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from safetensors.torch import load_file

from modeling_convsim.encoding import Encoder
from modeling_convsim.files.errors import InputError
from modeling_convsim.suggestion.ratings import Rating
from trainer.adapt import adaptation as module
from trainer.adapt.adaptation import adapt, add_sent, scale_schedule, split_pairs
from trainer.adapt.cross_validation import RATED
from trainer.data.datasets import RunData
from trainer.settings import PRESETS, build_settings, parse_settings
from trainer.training.loop import TrainingLoop


def arguments(**options: Any) -> Any:
    given = {"adapt": True, "initialize_from": "m", "pairs": ["p"], "tasks": {"response_prediction": 1}}
    return build_settings(**(given | options))


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
        ({"tasks": {"response_prediction": 0.9, "snli": 0.1}, "snli": "s"}, "adapt trains only on conversations"),
        ({"epochs": 3}, "epochs has no effect with adapt"),
        ({"best_metric": "last"}, "best_metric has no effect with adapt, which selects models by mean reciprocal rank"),
        ({"average_from": 0.5}, "adapt does not average weights: drop average_from"),
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


def test_replies_that_were_sent_are_trained_on_except_those_to_messages_that_measure():
    names = ("input", "response", "thread", "source")
    rows = [dict(zip(names, (f"m{row}", f"r{row}", f"t{row}", "log"), strict=True), context=["hi"]) for row in range(5)]
    dev, test = Dataset.from_list(rows[3:4]), Dataset.from_list(rows[4:])
    data = RunData({"pairs": Dataset.from_list(rows[:3])}, {"pairs": DatasetDict(validation=dev, test=test)})
    sent = [
        ("m0", "r0"),
        ("m1", "new"),
        ("m1", "r2"),
        ("m3", "new"),
        ("m4", "r4"),
        ("m4", "r0"),
        ("x", "r1"),
        ("y", "z"),
    ]
    ratings = [Rating("m0", "edited", "edit"), Rating("m2", "wrong", "no")]
    ratings += [Rating(*each, "send", ["before", "at first"], score=0.1, source="review") for each in sent]
    assert add_sent(data, ratings) == {"added": 4, "known": 1, "held out": 3}
    added = data.training["pairs"].to_list()[3:]
    assert [(row["input"], row["response"]) for row in added] == [("m1", "new"), ("m1", "r2"), ("x", "r1"), ("y", "z")]
    assert [row["thread"] for row in added[:2]] == ["t1", "t1"] and added[0]["context"] == ["before", "at first"]
    assert len({row["thread"] for row in added} | {"t0", "t2", "t3", "t4"}) == 7
    assert {row["source"] for row in added} == {RATED} and data.training["pairs"].to_list()[:3] == rows[:3]
    assert data.evaluation["pairs"]["test"].to_list() == rows[4:]


def test_a_stopped_adaptation_starts_again_and_has_the_same_result(base, adapted_pairs, tmp_path, monkeypatch):
    """The pairs have a dev split, whose halves choose and measure."""
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
        words += ["--output_dir", str(tmp_path / name), "--max_steps", "8", "--learning_rate", "0.01", *more]
        return adapt(parse_settings([str(PRESETS / "adapt.yaml"), *words]))

    expected = run("whole")
    with pytest.raises(KeyError):
        run("killed", last=7)
    with pytest.raises(InputError, match="resume has no effect with adapt, which writes no checkpoints: drop it"):
        run("killed", "--resume", "true")
    part, again = expected.results["adaptation"], run("killed").results["adaptation"]
    assert again == part and part["measured_by"] == "dev" == expected.measured_by
    assert part["queries"] == len(expected.pairs["validation"]) >= 20
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed")]
    assert all(value.equal(weights[1][name]) for name, value in weights[0].items())
    saved = Encoder.from_pretrained(tmp_path / "whole" / "model")
    assert expected.choice.encoder.digest() == saved.digest() and expected.choice.encoder.name == saved.name
    assert expected.base.name == base and expected.base.digest() == Encoder.from_pretrained(base).digest()
