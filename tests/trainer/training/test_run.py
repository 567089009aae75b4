"""Whole runs of `trainer/run.py` on tiny synthetic datasets: their files, training data and evaluations."""

import shutil

import numpy as np
import pytest
import torch
import yaml
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoTokenizer

from modeling_convsim.encoding import Encoder
from tests.trainer.training.tiny_runs import read_metrics, read_results, write
from trainer.data import skip_gram
from trainer.evaluation.sts_matrix import has_route


def test_a_run_writes_all_documented_files(run_trainer, preset, tmp_path):
    assert run_trainer(preset(trackers=["tensorboard"])) == 0
    folder = tmp_path / "run"
    results = read_results(folder)
    assert results["response_prediction"]["split"] == "test" and results["response_prediction"]["queries"] == 120
    assert set(results["snli"]) >= {"accuracy", "split"}
    assert set(results["stsb"]) == set(results["stsb_tuned"]) == {"dev", "test"}
    assert has_route(folder / "model")  # the matrix of stsb_tuned
    assert results["run"]["steps"] == 12 and results["run"]["pairs"] == 12 * 16
    rows = read_metrics(folder)
    assert [row["step"] for row in rows if "dev" in row] == [0, 4, 8, 12]
    assert any(folder.glob("tensorboard/**/events*"))
    assert yaml.safe_load((folder / "config.yaml").read_text())["max_steps"] == 12
    checkpoints = {int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*")}
    assert checkpoints == {12, results["run"]["best_step"]}
    assert Encoder.from_pretrained(folder / "model").encode(["the red dog"]).shape == (1, 16)


def test_training_improves_the_metrics_of_both_tasks(run_trainer, preset, tmp_path):
    assert run_trainer(preset(max_steps=300, eval_every=300, batch_size=32)) == 0
    results = read_results(tmp_path / "run")
    # Ten replies fit each question: P@1 of a random model is 0.01, of a model that knows thing and owner 0.1.
    assert results["response_prediction"]["p_at_10"] > 0.8
    assert results["snli"]["accuracy"] > 0.55


def test_initialize_from_starts_from_a_saved_model(run_trainer, preset, tmp_path):
    first = tmp_path / "reddit"
    assert run_trainer(preset(output_dir=str(first), tasks={"response_prediction": 1}, max_steps=4)) == 0
    frozen = preset(
        initialize_from=str(first / "model"), model_config=None, learning_rate=1e-9, max_steps=1, vocab_size=None
    )
    assert run_trainer(frozen) == 0
    before, after = (load_file(folder / "model" / "model.safetensors") for folder in (first, tmp_path / "run"))
    for name in before:
        torch.testing.assert_close(before[name], after[name], atol=1e-6, rtol=0)


def test_an_untrained_head_is_not_evaluated(run_trainer, preset, tmp_path):
    assert run_trainer(preset(tasks={"response_prediction": 1}, max_steps=1)) == 0
    results = read_results(tmp_path / "run")
    assert "snli" not in results and "response_prediction" in results and "stsb" in results


def test_evaluation_sentences_are_removed_from_training(run_trainer, preset, datasets, tmp_path):
    leaky = tmp_path / "leaky"
    shutil.copytree(datasets / "nli", leaky)
    rows = Dataset.from_parquet(str(leaky / "train-00000-of-00001.parquet")).to_list()
    rows += [{"premise": "A RED kitchen!", "hypothesis": "something else", "label": 1}] * 3
    write(leaky, "train", rows)
    assert run_trainer(preset(snli=str(leaky), max_steps=2, eval_every=2)) == 0
    results = read_results(tmp_path / "run")
    assert results["leakage"]["snli"]["stsb test"] == 3
    assert results["run"]["rows"]["snli"] == len(rows) - results["leakage"]["snli"]["removed"]


@pytest.mark.parametrize("share", [0, 0.5])
def test_snli_share_is_the_share_of_the_training_pairs(run_trainer, preset, tmp_path, share):
    assert run_trainer(preset(snli_share=share, eval_every=100)) == 0
    results = read_results(tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    assert results["run"]["rows"] == {"pairs": 240} | ({"snli": 270 // 2} if share else {})
    assert ("snli" in results) == any("snli/loss" in row for row in rows) == bool(share)


def test_runs_on_the_same_texts_share_word_vectors(run_trainer, preset, tmp_path, monkeypatch):
    train, trained = skip_gram.train_word_vectors, []
    monkeypatch.setattr(skip_gram, "train_word_vectors", lambda *options: trained.append(1) or train(*options))
    for seed in (0, 1):
        changes = {"word_vectors": "skip_gram", "seed": seed, "max_steps": 1}
        assert run_trainer(preset(output_dir=str(tmp_path / f"run_{seed}"), **changes, stsb=None)) == 0
    assert trained == [1]


def test_texts_are_used_for_the_word_vectors_only(run_trainer, preset, datasets, tmp_path, monkeypatch):
    sentences = [{"book": "one", "sentence": f"the quokka {number} of a red kitchen"} for number in range(50)]
    write(datasets / "books", "train", [*sentences, {"book": "one", "sentence": "A red kitchen"}])
    read = []
    monkeypatch.setattr(
        "trainer.data.skip_gram.cached_word_vectors",
        lambda columns, rows, size, *_: read.extend(map(len, columns)) or np.zeros((rows, size), np.float32),
    )
    settings = {"texts": [str(datasets / "books")], "word_vectors": "skip_gram", "tasks": {"response_prediction": 1}}
    assert run_trainer(preset(**settings, max_steps=1)) == 0
    results = read_results(tmp_path / "run")
    assert results["run"]["rows"] == {"pairs": 240} and results["leakage"]["texts/books"]["removed"] == 1
    assert read == [240, 240, 50]
    assert "quokka" not in AutoTokenizer.from_pretrained(tmp_path / "run" / "model").get_vocab()
