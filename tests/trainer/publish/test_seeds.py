import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from modeling_convsim.files.errors import InputError
from trainer.publish import __main__ as publish
from trainer.publish.seeds import add_seeds


def finished(folder: Path, seed: int, pearson: float, **settings) -> Path:
    (folder / "model").mkdir(parents=True)
    stsb = {"all": {"pearson": pearson, "spearman": 0.5, "pairs": 1379}, "news": {"pearson": pearson - 0.1}}
    results = {
        "response_prediction": {"p_at_1": pearson / 2, "p_at_3": 0.6, "queries": 9, "split": "test"},
        "stsb": {"dev": stsb, "test": stsb},
        "cqa": {"test2017": {"map": 0.4}},
    }
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "config.yaml").write_text(yaml.safe_dump({"seed": seed, "output_dir": str(folder), **settings}))
    return folder


def scores_of(run: Path) -> dict[str, list[float]]:
    return json.loads((run / "results.json").read_text())["seeds"]


def test_publishing_adds_the_scores_of_the_other_runs(tmp_path, monkeypatch):
    runs = [finished(tmp_path / name, seed, r) for name, seed, r in (("a", 0, 0.7), ("b", 1, 0.8), ("c", 2, 0.6))]
    published = {}
    monkeypatch.setattr("trainer.publish.upload.publish", lambda run, *_, **__: published.update(scores_of(run)) or "")
    argv = [str(runs[0]), "--hub_model_id", "ORG/name", "--dry_run", "--seeds", *map(str, runs[1:])]
    assert publish.main(argv) == 0
    results = json.loads((runs[0] / "results.json").read_text())
    assert results["stsb"]["test"]["all"]["pairs"] == 1379
    assert (
        results["seeds"]
        == published
        == {
            "response_prediction.p_at_1": [0.35, 0.4, 0.3],
            "stsb.test.all.pearson": [0.7, 0.8, 0.6],
            "stsb.test.news.pearson": [pytest.approx(0.6), pytest.approx(0.7), pytest.approx(0.5)],
            "cqa.test2017.map": [0.4, 0.4, 0.4],
        }
    )
    assert "seeds" not in json.loads((runs[1] / "results.json").read_text())


@pytest.mark.parametrize(
    ("seed", "settings", "message"),
    [(1, {"batch_size": 7}, "differs from .* in batch_size"), (0, {}, "have the same seed")],
)
def test_runs_with_other_differences_than_the_seed_are_refused(tmp_path, seed, settings, message):
    runs = [finished(tmp_path / "a", 0, 0.7), finished(tmp_path / "b", seed, 0.7, **settings)]
    with pytest.raises(InputError, match=message):
        add_seeds(runs)


@pytest.mark.parametrize(("tokenizer", "is_same"), [("{}", True), ("{ }", False), (None, False)])
def test_a_run_with_the_tokenizer_of_another_differs_in_the_seed_alone(tmp_path, tokenizer, is_same):
    runs = [
        finished(tmp_path / "a", 0, 0.7, tokenizer_kind="wordpiece", vocab_size=9),
        finished(tmp_path / "b", 1, 0.7, tokenizer="a/model"),
    ]
    for run, content in zip(runs, ("{}", tokenizer), strict=True):
        if content is not None:
            (run / "model" / "tokenizer.json").write_text(content)
    with nullcontext() if is_same else pytest.raises(InputError, match=r"differs from .* in tokenizer;"):
        add_seeds(runs)
        assert scores_of(runs[0])["stsb.test.all.pearson"] == [0.7, 0.7]
