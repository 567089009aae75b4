import json

import pytest

from data_scripts.errors import InputError
from trainer.evaluation.run_files import read_run_results

PEARSON, ACCURACY = {"pearson": 0.5, "pairs": 3}, {"accuracy": 1, "split": "dev"}


@pytest.mark.parametrize(
    "results",
    [
        {"stsb": {"dev": {"all": PEARSON, "long": PEARSON}}, "snli": ACCURACY, "other": 3},
        {"stsb": {"dev": PEARSON}, "baselines": {"BM25": {"p_at_1": None}}, "run": {"seconds": None}},
        {"snli": {**ACCURACY, "accuracy": float("nan")}, "sts": {"2012": {"MSRpar": {**PEARSON, "spearman": 0.5}}}},
    ],
)
def test_what_an_evaluation_writes_is_read(tmp_path, results):
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert str(read_run_results(tmp_path / "results.json")) == str(results)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("stsb", 3),
        ("stsb", {"dev": 3}),
        ("stsb", {"dev": {"all": {**PEARSON, "pearson": None}}}),
        ("stsb", {"dev": {**PEARSON, "pearson": "high"}}),
        ("snli", {**ACCURACY, "split": []}),
        ("snli", {**ACCURACY, "accuracy": []}),
        ("sts", {"2012": {}}),
        ("sts", {"2012": {"MSRpar": PEARSON}}),
        ("sts", {"2012": {"MSRpar": 3}}),
        ("baselines", {"BM25": 3}),
        ("run", []),
    ],
)
def test_a_part_of_another_form_is_named(tmp_path, name, part):
    (tmp_path / "results.json").write_text(json.dumps({"other": {}, name: part}))
    with pytest.raises(InputError, match=f"results.json: {name} has another form than the trainer writes; restore"):
        read_run_results(tmp_path / "results.json")
