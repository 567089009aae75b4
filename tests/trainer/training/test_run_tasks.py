"""Whole runs of each task: the data they read, the metrics they log, and that the loss falls."""

import shutil

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

from modeling_convsim.encoding import Encoder
from tests.trainer.training.tiny_runs import read_metrics, read_results, values_of, write

SIAMESE_LOSS = "neighbors/in_order/loss"


def test_positive_pairs_are_trained_together_with_conversations(run_trainer, preset, positive_pairs, tmp_path):
    weights = {"response_prediction": 1, "entailment": 1, "captions": 1, "paraphrases": 1, "ranking": 1}
    settings = positive_pairs | {"tasks": weights, "word_vectors": "skip_gram", "final_split": "dev"}
    assert run_trainer(preset(**settings, max_steps=60, eval_every=60)) == 0
    results = read_results(tmp_path / "run")
    assert results["run"]["rows"] == {
        "pairs": 240,
        "entailment/nli": 9 * 10,
        "captions/captions": 90 * 3 * 2,  # thirty images with a caption among the evaluation sentences are removed
        "paraphrases/rated": 48,
        "paraphrases/unrated": 48,
        "ranking/rated": 96,
        "ranking/nli": 270,
    }
    assert set(results["stsb"]) == {"dev"} and results["response_prediction"]["split"] == "dev"
    for task in ("captions/captions", "paraphrases/rated", "entailment/nli"):
        accuracies = values_of(f"{task}/accuracy", tmp_path / "run")
        assert accuracies[-1] > accuracies[0]


def test_matryoshka_embeddings_are_trained_at_every_size(run_trainer, preset, positive_pairs, tmp_path):
    weights = {"response_prediction": 1, "captions": 1, "snli": 1}
    assert run_trainer(preset(captions=positive_pairs["captions"], tasks=weights, matryoshka_dims=[8, 4])) == 0
    folder = tmp_path / "run"
    assert yaml.safe_load((folder / "config.yaml").read_text())["matryoshka_dims"] == [8, 4]
    names = set().union(*read_metrics(folder))
    for task in ("response_prediction", "captions/captions"):
        assert {f"{task}/accuracy", f"{task}/accuracy_8", f"{task}/accuracy_4"} <= names
    assert {name for name in names if name.startswith("snli/")} == {"snli/loss", "snli/accuracy"}


def test_a_teacher_encodes_its_texts_only_once(run_trainer, preset, positive_pairs, tmp_path, monkeypatch):
    assert run_trainer(preset(max_steps=1)) == 0
    teacher = str(tmp_path / "run" / "model")
    settings = dict(positive_pairs, tasks={"distillation": 1}, teacher=teacher, best_metric="stsb.dev.all.pearson")
    distilled = preset(**settings, output_dir=str(tmp_path / "distilled"), max_steps=60, eval_every=60)
    assert run_trainer(distilled) == 0
    losses = values_of("distillation/loss", tmp_path / "distilled")
    assert losses[-1] < 0.7 * losses[0]
    monkeypatch.setattr("trainer.data.teacher.load_encoder", lambda _: pytest.fail("the teacher was loaded again"))
    assert run_trainer(distilled, "--overwrite", "true") == 0


def test_a_student_of_two_teachers_learns_their_scores(run_trainer, refused, preset, positive_pairs, tmp_path):
    weights = {"response_prediction": 1, "captions": 1, "snli": 1}
    settings = {
        "captions": positive_pairs["captions"],
        "tasks": weights,
        "max_steps": 40,
        "eval_every": 40,
        "stsb": None,
    }
    for seed in (1, 2):
        assert run_trainer(preset(**settings, seed=seed, output_dir=str(tmp_path / f"teacher_{seed}"))) == 0
    teachers = [str(tmp_path / f"teacher_{seed}" / "model") for seed in (1, 2)]
    given = settings | {"score_teachers": teachers, "score_teacher_share": 1.0}
    given |= {"max_steps": 100, "eval_every": 100, "log_every": 10}
    student = preset(**given, tokenizer=teachers[0], vocab_size=None, output_dir=str(tmp_path / "student"))
    assert run_trainer(student) == 0
    for task in ("response_prediction", "captions/captions"):
        divergences = values_of(f"{task}/loss", tmp_path / "student")
        # At most 0.5 with ten seeds of the student.
        assert 0 < np.mean(divergences[-3:]) < 0.75 * divergences[0]
    shutil.copytree(teachers[0], teachers[1], dirs_exist_ok=True)
    assert "resume: score teacher 2 changed since" in refused(student, "--resume", "true")


def test_an_image_with_a_caption_in_the_evaluation_data_is_removed(run_trainer, preset, positive_pairs, tmp_path):
    settings = {"captions": positive_pairs["captions"], "tasks": {"captions": 1}, "pairs": None}
    assert run_trainer(preset(**settings, best_metric="stsb.dev.all.pearson", max_steps=1)) == 0
    results = read_results(tmp_path / "run")
    # Dev and test contain "a COLOR THING" of the last three things.
    assert results["leakage"]["captions/captions"]["removed"] == 10 * 3 * 3
    assert results["run"]["rows"]["captions/captions"] == 90 * 3 * 2


def test_siamese_cbow_trains_for_one_epoch_and_keeps_its_last_step(siamese_cbow, tmp_path):
    results = siamese_cbow()
    # Positions 22, 45 and 68 are missing: of each book's 67 sentences the last, at 69, has no neighbor.
    rows = 3 * sum(
        any(other % 23 != 22 and 0 <= other < 70 for other in (position - 1, position + 1))
        for position in range(70)
        if position % 23 != 22
    )
    steps = -(-rows // 32)
    assert rows == 3 * 66 and steps == 7
    assert results["run"]["rows"] == {"neighbors/in_order": rows}
    assert results["run"]["steps"] == results["run"]["best_step"] == steps
    assert len(values_of(SIAMESE_LOSS, tmp_path / "run")) == steps
    last = load_file(tmp_path / "run" / f"checkpoint-{steps}" / "model.safetensors")
    saved = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert all(torch.equal(saved[name], last[name]) for name in saved)
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["epochs"] == 1
    assert Encoder.from_pretrained(tmp_path / "run" / "model").encode(["the red dog"]).shape == (1, 8)


def test_siamese_cbow_takes_the_steps_of_all_epochs_and_lowers_the_loss(siamese_cbow, tmp_path):
    results = siamese_cbow("--epochs", "20", "--eval_every", "1000", "--learning_rate", "0.1")
    assert results["run"]["steps"] == -(-20 * 3 * 66 // 32)
    losses = values_of(SIAMESE_LOSS, tmp_path / "run")
    assert np.mean(losses[-30:]) < losses[0] - 0.2


def test_siamese_cbow_trains_on_pairs_as_documents_of_two(siamese_cbow, datasets):
    results = siamese_cbow("--documents", str(datasets / "pairs"))
    # Every text of the 240 pairs has one neighbor, the other text of its pair.
    assert results["run"]["rows"] == {"neighbors/pairs": 480} and results["run"]["steps"] == 480 // 32


def test_evaluation_sentences_are_removed_from_books_and_separate_their_neighbors(siamese_cbow, datasets, tmp_path):
    sentences = ["the dog in the dog", "a red kitchen", "the cat in the dog", "the dog in the cat"] * 10
    rows = [{"book": "one", "position": position, "sentence": text} for position, text in enumerate(sentences)]
    write(tmp_path / "leaky", "train", rows)
    results = siamese_cbow(
        "--documents", str(tmp_path / "leaky"), "--stsb", str(datasets / "sts"), "--batch_size", "16"
    )
    assert results["leakage"]["documents/leaky"]["removed"] == 10
    # The first sentence has no neighbor; nine groups of three sentences and one of two follow.
    assert results["run"]["rows"] == {"neighbors/leaky": 9 * 3 + 2}
