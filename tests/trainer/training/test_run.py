"""Whole runs of `trainer/run.py` on tiny synthetic datasets: their files, data, tasks, evaluations, and refusals."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from modeling_convsim.encoding import Encoder
from tests.trainer.tiny_datasets import write
from tests.trainer.training.tiny_runs import read_metrics, read_results, values_of
from trainer import processes
from trainer.data.datasets import load_evaluation_data
from trainer.evaluation.evaluators import evaluate_encoder
from trainer.runs import Run
from trainer.training import schedule
from trainer.training.loop import TrainingLoop


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_a_run_writes_all_documented_files(run_trainer, preset, datasets, tmp_path):
    assert run_trainer(preset(trackers=["tensorboard"], stsb=str(datasets / "stsb"))) == 0
    folder = tmp_path / "run"
    results = read_results(folder)
    assert results["response_prediction"]["split"] == "test" and results["response_prediction"]["queries"] == 120
    assert set(results["snli"]) >= {"accuracy", "split"}
    assert set(results["stsb"]) == set(results["stsb_tuned"]) == {"dev", "test"}
    run = results["run"]
    best = run["best_step"]
    expected = {"steps": 12, "pairs": 12 * 16, "rows": {"pairs": 240, "snli": 240}, "seed": 0, "processes": 1}
    assert run == run | expected | {"device": "cpu"} and run["total_seconds"] > run["seconds"] > 0
    rows = read_metrics(folder)
    assert [row["step"] for row in rows if "dev" in row] == [0, 4, 8, 12]
    assert any(folder.glob("tensorboard/**/events*"))
    assert yaml.safe_load((folder / "config.yaml").read_text())["max_steps"] == 12
    assert {path.name for path in Run(folder).checkpoints} == {"checkpoint-12", f"checkpoint-{best}"}
    published, saved = weights_of(folder / "model"), weights_of(folder / f"checkpoint-{best}")
    assert run["parameters"] == sum(value.numel() for value in saved.values())
    assert all(published[name].equal(value) for name, value in saved.items() if name in published)
    assert Encoder.from_pretrained(folder / "model").encode(["the red dog"]).shape == (1, 16)


def test_training_improves_the_metrics_of_both_tasks(run_trainer, preset, tmp_path):
    assert run_trainer(preset(max_steps=300, eval_every=300, batch_size=32)) == 0
    results = read_results(tmp_path / "run")
    # Ten replies fit each question: P@1 of a random model is 0.01, of a model that knows thing and owner 0.1.
    assert results["response_prediction"]["p_at_10"] > 0.8
    assert results["snli"]["accuracy"] > 0.55


def test_texts_are_used_for_the_word_vectors_only(run_trainer, preset, datasets, tmp_path, monkeypatch):
    sentences = [{"book": "one", "sentence": f"the quokka {number} of a red kitchen"} for number in range(50)]
    write(datasets / "books", "train", [*sentences, {"book": "one", "sentence": "Validation: a red car"}])
    read = []

    def train(columns, rows, size, *_):
        read.extend(map(len, columns))
        return np.zeros((rows, size), np.float32)

    monkeypatch.setattr("trainer.training.model.cached_word_vectors", train)
    settings = {"texts": [str(datasets / "books")], "word_vectors": "skip_gram", "tasks": {"response_prediction": 1}}
    settings |= {"stsb": str(datasets / "stsb")}
    assert run_trainer(preset(**settings, max_steps=1)) == 0
    results = read_results(tmp_path / "run")
    assert results["run"]["rows"] == {"pairs": 240} and results["leakage"]["texts/books"]["removed"] == 1
    assert read == [240, 240, 50]
    assert "quokka" not in AutoTokenizer.from_pretrained(tmp_path / "run" / "model").get_vocab()


def test_positive_pairs_are_trained_together_with_conversations(run_trainer, preset, datasets, tmp_path):
    weights = {"response_prediction": 1, "entailment": 1, "captions": 1, "paraphrases": 1}
    settings = {kind: [str(datasets / kind)] for kind in ("nli", "captions", "paraphrases")}
    settings |= {"tasks": weights, "word_vectors": "skip_gram", "final_split": "dev"}
    settings |= {"stsb": str(datasets / "stsb")}
    assert run_trainer(preset(**settings, max_steps=120, eval_every=120)) == 0
    results, names = read_results(tmp_path / "run"), set().union(*read_metrics(tmp_path / "run"))
    assert results["run"]["rows"] == {
        "pairs": 240,
        "entailment/nli": 8 * 10,
        "captions/captions": 4 * 10 * 3 * 2,
        "paraphrases/paraphrases": 48,
    }
    assert set(results["stsb"]) == {"dev"} and results["response_prediction"]["split"] == "dev"
    for task in ("captions/captions", "paraphrases/paraphrases", "entailment/nli"):
        losses = values_of(f"{task}/loss", tmp_path / "run")
        assert np.mean(losses[-3:]) < losses[0]
    assert {"response_prediction/accuracy", "captions/captions/accuracy"} <= names


@pytest.fixture
def recorded(monkeypatch) -> list[dict[str, torch.Tensor]]:
    """The trained weights after each step, in float64; weights of every second step are averaged."""
    weights: list[dict[str, torch.Tensor]] = []
    take_step = TrainingLoop.step

    def step(self: TrainingLoop, index: int) -> None:
        take_step(self, index)
        weights.append({name: value.double() for name, value in self._model.wrapped.state_dict().items()})

    monkeypatch.setattr(TrainingLoop, "step", step)
    monkeypatch.setattr(schedule, "AVERAGED", 2)
    return weights


def test_the_result_is_the_mean_of_the_weights_of_some_steps(run_trainer, preset, recorded, tmp_path):
    changes = {"best_metric": "last", "mixed_precision": "no"}
    assert run_trainer(preset(**changes, average_from=0.6)) == 0
    model, last = (weights_of(tmp_path / "run" / name) for name in ("model", "checkpoint-12"))
    assert len(model) > 5
    for name, value in model.items():
        mean = torch.stack([recorded[step][name] for step in (9, 11)]).mean(0)
        torch.testing.assert_close(value.double(), mean, atol=1e-6, rtol=0)
    assert any((value - last[name]).abs().max() > 1e-4 for name, value in model.items())
    # Dev is evaluated with the average, and before there is one with the weights.
    assert run_trainer(preset(**changes, output_dir=str(tmp_path / "plain"))) == 0
    of_mean, of_plain = ([row["dev"] for row in read_metrics(tmp_path / n) if "dev" in row] for n in ("run", "plain"))
    assert of_plain[:3] == of_mean[:3] and of_plain[3] != of_mean[3]


def test_half_precision_is_stored_evaluated_and_loaded_as_float32(run_trainer, preset, datasets, tmp_path):
    folder = tmp_path / "run"
    assert run_trainer(preset(half_precision=True, stsb=str(datasets / "stsb"))) == 0
    stored = weights_of(folder / "model")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    heads = list((folder / "model" / "1_Router").glob("document_*/model.safetensors"))
    assert heads and {value.dtype for each in heads for value in load_file(each).values()} == {torch.float16}
    model = AutoModel.from_pretrained(folder / "model")
    assert model.dtype == torch.float32
    torch.testing.assert_close(model.embed_tokens.weight, stored["encoder.embed_tokens.weight"].float(), rtol=0, atol=0)
    encoder, data = Encoder.from_pretrained(folder / "model"), load_evaluation_data({"stsb": str(datasets / "stsb")})
    again = evaluate_encoder(encoder, data, "dev")["stsb"]["dev"]["all"]["pearson"]
    assert read_results(folder)["stsb"]["dev"]["all"]["pearson"] == pytest.approx(again, abs=1e-6)
    checkpoint = weights_of(next(folder.glob("checkpoint-*")))
    assert {value.dtype for value in checkpoint.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("launched", "is_fast", "expected"), [("no", True, "bf16"), ("no", False, "no"), ("bf16", False, "bf16")]
)
def test_precision_is_the_launchers_or_bfloat16_if_it_is_fast(
    run_trainer, launched, is_fast, expected, preset, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    monkeypatch.setattr(processes, "has_fast_bfloat16", lambda device: is_fast)
    with caplog.at_level("INFO"):
        assert run_trainer(preset(max_steps=1)) == 0
    assert read_results(tmp_path / "run")["run"]["mixed_precision"] == expected
    assert f"thread, {'float32' if expected == 'no' else 'bfloat16'}" in caplog.text.replace("threads", "thread")
    assert f", test: P@1 {read_results(tmp_path / 'run')['response_prediction']['p_at_1']:.3f}" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"captions": ["nowhere/at/all"], "tasks": {"captions": 1}, "pairs": None}, "nowhere/at/all"),
        ({"score_teachers": ["nowhere"]}, "nowhere: the model cannot be loaded"),
        ({"pairs": ["nowhere/at/all"]}, "nowhere/at/all"),
        ({"mixed_precision": "fp16"}, "mixed_precision is .fp16.: .*; expected one of auto, no, bf16"),
        ({"model_config": {"embedding_size": -3}}, "model_config: .*embedding_size is -3"),
        ({"best_metric": "snli.accurate"}, "is not among the dev results of this run; did you mean 'snli.accuracy'"),
        ({"initialize_from": "nowhere/at/all", "vocab_size": None}, "initialize_from: nowhere/at/all cannot be loaded"),
        ({"resume": True}, "resume: .* has no config.yaml with a checkpoint-N"),
        ({"push_to_hub": True, "hub_model_id": "a/b/c"}, "invalid repository id 'a/b/c'"),
    ],
)
def test_settings_that_cannot_be_trained_are_refused_in_one_line(refused, preset, monkeypatch, changes, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search(message, refused(preset(**changes)))


def test_a_mistake_deletes_nothing_and_an_earlier_run_is_overwritten_only_on_request(
    run_trainer, refused, preset, tmp_path
):
    folder, options = tmp_path / "run", {"max_steps": 1, "tasks": {"response_prediction": 1}, "snli": None}
    assert "best_metric" in refused(preset(**options, best_metric="cqa.dev.map"))
    assert run_trainer(preset(**options)) == 0  # the failed run had no checkpoint
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert "is not empty: resume the run with --resume true" in refused(preset(**options))
    changed = preset(**options | {"max_steps": 2})
    assert "settings differ from those of the interrupted run (max_steps was 1, is 2)" in refused(
        changed, "--resume", "true"
    )
    for changes in ({"pairs": ["nowhere/at/all"]}, {"best_metric": "stsb.dev.all.pearsn"}):
        refused(preset(**options | {"vocab_size": 20} | changes), "--overwrite", "true")
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run_trainer(preset(**options | {"vocab_size": 20}), "--overwrite", "true") == 0
    tokenizer = folder / "tokenizer" / "tokenizer.json"
    assert tokenizer.stat().st_size < len(before[tokenizer])


def test_a_diverging_run_leaves_no_checkpoint_that_is_not_finite(refused, preset, tmp_path):
    changes = {"optimizer": "sgd", "learning_rate": 1e38, "max_grad_norm": None, "best_metric": "last"}
    message = refused(preset(**changes, eval_every=1, log_every=100, mixed_precision="no"))
    assert "is not finite at step 3" in message and "the checkpoint of an earlier step, checkpoint-2" in message
    for checkpoint in Run(tmp_path / "run").checkpoints:
        assert all(value.isfinite().all() for value in weights_of(checkpoint).values())
