"""Whole runs of `trainer/run.py` on tiny synthetic datasets: their files, data, tasks, evaluations, and refusals."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from modeling_convsim.encoding import Encoder
from tests.trainer.training.tiny_runs import COLORS, THINGS, read_metrics, read_results, values_of, write
from trainer import hardware, run
from trainer.evaluation.sts_matrix import has_route
from trainer.training import schedule
from trainer.training.loop import TrainingLoop
from trainer.training.run_folder import list_checkpoints
from trainer.training.trainable_model import TrainableModel

SIAMESE_LOSS = "neighbors/in_order/loss"


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_a_run_writes_all_documented_files(run_trainer, preset, datasets, tmp_path):
    assert run_trainer(preset(trackers=["tensorboard"], stsb=str(datasets / "sts"))) == 0
    folder = tmp_path / "run"
    results = read_results(folder)
    assert results["response_prediction"]["split"] == "test" and results["response_prediction"]["queries"] == 120
    assert set(results["snli"]) >= {"accuracy", "split"}
    assert set(results["stsb"]) == set(results["stsb_tuned"]) == {"dev", "test"}
    assert has_route(folder / "model")  # the matrix of stsb_tuned
    run = results["run"]
    best = run["best_step"]
    expected = {"steps": 12, "pairs": 12 * 16, "rows": {"pairs": 240, "snli": 270}, "seed": 0, "processes": 1}
    assert run == run | expected | {"device": "cpu"} and run["total_seconds"] > run["seconds"] > 0
    rows = read_metrics(folder)
    assert [row["step"] for row in rows if "dev" in row] == [0, 4, 8, 12]
    assert any(folder.glob("tensorboard/**/events*"))
    assert yaml.safe_load((folder / "config.yaml").read_text())["max_steps"] == 12
    assert {path.name for path in list_checkpoints(folder)} == {"checkpoint-12", f"checkpoint-{best}"}
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


@pytest.mark.parametrize("share", [0, 0.5])
def test_snli_share_is_the_share_of_the_training_pairs(run_trainer, preset, tmp_path, share):
    assert run_trainer(preset(snli_share=share, eval_every=100)) == 0
    results, rows = read_results(tmp_path / "run"), read_metrics(tmp_path / "run")
    assert results["run"]["rows"] == {"pairs": 240} | ({"snli": 270 // 2} if share else {})
    # An untrained head is not evaluated.
    assert ("snli" in results) == any("snli/loss" in row for row in rows) == bool(share)


def test_evaluation_sentences_are_removed_from_training(run_trainer, preset, positive_pairs, datasets, tmp_path):
    leaky = tmp_path / "leaky"
    shutil.copytree(datasets / "nli", leaky)
    rows = Dataset.from_parquet(str(leaky / "train-00000-of-00001.parquet")).to_list()
    rows += [{"premise": "A RED kitchen!", "hypothesis": "something else", "label": 1}] * 3
    write(leaky, "train", rows)
    data = {"captions": positive_pairs["captions"], "snli": str(leaky), "stsb": str(datasets / "sts")}
    assert (
        run_trainer(preset(**data, tasks={"captions": 1, "snli": 1}, pairs=None, best_metric="last", max_steps=1)) == 0
    )
    results = read_results(tmp_path / "run")
    assert results["leakage"]["snli"]["stsb test"] == 3
    assert results["run"]["rows"]["snli"] == len(rows) - results["leakage"]["snli"]["removed"]
    # Dev and test contain "a COLOR THING" of the last three things, and all captions of an image are removed.
    assert results["leakage"]["captions/captions"]["removed"] == 10 * 3 * 3
    assert results["run"]["rows"]["captions/captions"] == 90 * 3 * 2


def test_texts_are_used_for_the_word_vectors_only(run_trainer, preset, datasets, tmp_path, monkeypatch):
    sentences = [{"book": "one", "sentence": f"the quokka {number} of a red kitchen"} for number in range(50)]
    write(datasets / "books", "train", [*sentences, {"book": "one", "sentence": "A red kitchen"}])
    read = []

    def train(columns, rows, size, *_):
        read.extend(map(len, columns))
        return np.zeros((rows, size), np.float32)

    monkeypatch.setattr("trainer.data.skip_gram.cached_word_vectors", train)
    settings = {"texts": [str(datasets / "books")], "word_vectors": "skip_gram", "tasks": {"response_prediction": 1}}
    settings |= {"stsb": str(datasets / "sts")}
    assert run_trainer(preset(**settings, max_steps=1)) == 0
    results = read_results(tmp_path / "run")
    assert results["run"]["rows"] == {"pairs": 240} and results["leakage"]["texts/books"]["removed"] == 1
    assert read == [240, 240, 50]
    assert "quokka" not in AutoTokenizer.from_pretrained(tmp_path / "run" / "model").get_vocab()


def test_positive_pairs_are_trained_together_with_conversations(
    run_trainer, preset, positive_pairs, datasets, tmp_path
):
    weights = {"response_prediction": 1, "entailment": 1, "captions": 1, "paraphrases": 1, "ranking": 1}
    settings = positive_pairs | {"tasks": weights, "word_vectors": "skip_gram", "final_split": "dev"}
    settings |= {"stsb": str(datasets / "sts"), "matryoshka_dims": [8, 4]}
    assert run_trainer(preset(**settings, max_steps=60, eval_every=60)) == 0
    results, names = read_results(tmp_path / "run"), set().union(*read_metrics(tmp_path / "run"))
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
    for task in ("response_prediction", "captions/captions"):  # at every size
        assert {f"{task}/accuracy", f"{task}/accuracy_8", f"{task}/accuracy_4"} <= names


def test_a_teacher_encodes_its_texts_only_once(run_trainer, preset, positive_pairs, tmp_path, monkeypatch):
    assert run_trainer(preset(max_steps=1)) == 0
    teacher = str(tmp_path / "run" / "model")
    settings = dict(positive_pairs, tasks={"distillation": 1}, teacher=teacher, best_metric="last")
    distilled = preset(**settings, output_dir=str(tmp_path / "distilled"), max_steps=60, eval_every=60)
    assert run_trainer(distilled) == 0
    losses = values_of("distillation/loss", tmp_path / "distilled")
    assert losses[-1] < 0.7 * losses[0]
    monkeypatch.setattr("trainer.data.teacher.load_encoder", lambda _: pytest.fail("the teacher was loaded again"))
    assert run_trainer(distilled, "--overwrite", "true") == 0


def test_a_student_of_two_teachers_learns_their_scores(run_trainer, refused, preset, positive_pairs, tmp_path):
    weights = {"response_prediction": 1, "captions": 1, "snli": 1}
    settings = {"captions": positive_pairs["captions"], "tasks": weights, "max_steps": 40, "eval_every": 40}
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


@pytest.fixture
def siamese_cbow(datasets, tmp_path, run_trainer) -> Callable[..., dict]:
    """Trains a tiny Siamese CBOW on synthetic books, with more options; returns the run's results."""
    rows = [
        {"book": book, "position": position, "sentence": f"{THINGS[(position + shift) // 8]} {color}"}
        for book, shift in (("one", 0), ("two", 9), ("three", 20))
        for position in range(70)
        if position % 23 != 22  # a gap, like that of a removed sentence
        for color in [COLORS[position % len(COLORS)]]
    ]
    write(datasets / "in_order", "train", rows)

    def train(*options: str) -> dict:
        changes = {"documents": datasets / "in_order", "stsb": "none", "sts": "none", "cache_dir": datasets / "cache"}
        changes |= {"model_config": '{"embedding_size": 8}', "batch_size": 32, "learning_rate": 0.1, "eval_every": 9}
        changes |= {"log_every": 1, "trackers": "none", "device": "cpu", "output_dir": tmp_path / "run"}
        words = [word for key, value in changes.items() for word in (f"--{key}", str(value))]
        preset = Path(run.__file__).parent / "presets" / "siamese_cbow.yaml"
        assert run_trainer(str(preset), *words, *options) == 0
        return read_results(tmp_path / "run")

    return train


@pytest.mark.parametrize("epochs", [1, 20])
def test_siamese_cbow_trains_for_epochs_and_keeps_its_last_step(siamese_cbow, tmp_path, epochs):
    results = siamese_cbow("--epochs", str(epochs))
    # Positions 22, 45 and 68 are missing: of each book's 67 sentences the last, at 69, has no neighbor.
    steps = -(-epochs * 3 * 66 // 32)
    assert results["run"]["rows"] == {"neighbors/in_order": 3 * 66}
    assert results["run"]["steps"] == results["run"]["best_step"] == steps
    losses = values_of(SIAMESE_LOSS, tmp_path / "run")
    assert len(losses) == steps and (epochs == 1 or np.mean(losses[-30:]) < losses[0] - 0.2)
    last, saved = (weights_of(tmp_path / "run" / name) for name in (f"checkpoint-{steps}", "model"))
    assert all(torch.equal(saved[name], last[name]) for name in saved)
    assert Encoder.from_pretrained(tmp_path / "run" / "model").encode(["the red dog"]).shape == (1, 8)


def test_evaluation_sentences_are_removed_from_books_and_separate_their_neighbors(siamese_cbow, datasets, tmp_path):
    sentences = ["the dog in the dog", "a red kitchen", "the cat in the dog", "the dog in the cat"] * 10
    rows = [{"book": "one", "position": position, "sentence": text} for position, text in enumerate(sentences)]
    write(tmp_path / "leaky", "train", rows)
    data = ["--documents", str(tmp_path / "leaky"), "--stsb", str(datasets / "sts"), "--batch_size", "16"]
    results = siamese_cbow(*data, "--epochs", "1")
    assert results["leakage"]["documents/leaky"]["removed"] == 10
    # The first sentence has no neighbor; nine groups of three sentences and one of two follow.
    assert results["run"]["rows"] == {"neighbors/leaky": 9 * 3 + 2}


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


def test_bfloat16_trains_and_the_model_is_saved_in_float32(run_trainer, preset, tiny_transformer, tmp_path):
    changes = {"model_type": "transformer", "model_config": tiny_transformer, "mixed_precision": "bf16"}
    assert run_trainer(preset(**changes, max_steps=2)) == 0
    weights = weights_of(tmp_path / "run" / "model")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert all(tensor.isfinite().all() for tensor in weights.values())


def test_half_precision_is_stored_evaluated_and_loaded_as_float32(run_trainer, preset, datasets, tmp_path):
    folder = tmp_path / "run"
    assert run_trainer(preset(half_precision=True, stsb=str(datasets / "sts"))) == 0
    stored = weights_of(folder / "model")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    heads = list((folder / "model" / "1_Router").glob("document_*/model.safetensors"))
    assert heads and {value.dtype for each in heads for value in load_file(each).values()} == {torch.float16}
    model = AutoModel.from_pretrained(folder / "model")
    assert model.dtype == torch.float32
    torch.testing.assert_close(model.embed_tokens.weight, stored["encoder.embed_tokens.weight"].float(), rtol=0, atol=0)
    results = read_results(folder)
    full, half = results["full_precision"]["stsb"]["test"]["all"]["pearson"], results["stsb"]["test"]["all"]["pearson"]
    assert half != full and half == pytest.approx(full, abs=0.01)
    # Tuning is not compared: it changes by more than the rounding of the weights.
    assert "stsb_tuned" in results and "stsb_tuned" not in results["full_precision"]
    checkpoint = weights_of(next(folder.glob("checkpoint-*")))
    assert {value.dtype for value in checkpoint.values()} == {torch.float32}


@pytest.mark.parametrize(
    ("launched", "is_fast", "expected"), [("no", True, "bf16"), ("no", False, "no"), ("bf16", False, "bf16")]
)
def test_precision_is_the_launchers_or_bfloat16_if_it_is_fast(
    run_trainer, launched, is_fast, expected, preset, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    monkeypatch.setattr(hardware, "has_fast_bfloat16", lambda device: (is_fast, "as this test says"))
    with caplog.at_level("INFO"):
        assert run_trainer(preset(max_steps=1)) == 0
    assert read_results(tmp_path / "run")["run"]["mixed_precision"] == expected
    assert ("as this test says" in caplog.text) == (launched == "no")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"captions": ["nowhere/at/all"], "tasks": {"captions": 1}, "pairs": None}, "nowhere/at/all"),
        ({"nli": ["a/nli", "b/nli"], "tasks": {"entailment": 1}, "pairs": None}, "nli has two datasets named nli"),
        ({"score_teachers": ["nowhere"]}, "nowhere: the model cannot be loaded"),
        ({"pairs": ["nowhere/at/all"]}, "nowhere/at/all"),
        ({"device": "cuda"}, "device is cuda, but torch finds no GPU: use --device cpu"),
        ({"sharded": True}, "sharded divides the layers among several processes, but the run has one: .* drop sharded"),
        ({"num_processes": 2}, "num_processes is 2, but the run has 1"),
        ({"mixed_precision": "fp16"}, "mixed_precision is fp16, which needs a GPU"),
        ({"model_config": {"embedding_size": -3}}, "model_config: .*embedding_size is -3"),
        ({"matryoshka_dims": [8, 16]}, r"matryoshka_dims is \[8, 16\]; expected sizes above 0 and below .* 16"),
        ({"best_metric": "snli.acuracy"}, "is not among the dev results of this run; did you mean 'snli.accuracy'"),
        ({"initialize_from": "nowhere/at/all", "vocab_size": None}, "initialize_from: nowhere/at/all cannot be loaded"),
        ({"resume": True}, "resume: .* has no config.yaml with a checkpoint-N"),
        ({"push_to_hub": True, "hub_model_id": "a/b/c"}, "invalid repository id 'a/b/c'"),
        ({"snli_share": 0.001}, "snli has 0 training pairs, expected 2 or more"),  # of 270 rows
        ({"batch_size": 1}, "batch_size is 1"),
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


def test_initialize_from_starts_from_a_saved_model_and_its_tokenizer(run_trainer, refused, preset, tmp_path):
    first, other = tmp_path / "first", tmp_path / "other"
    assert run_trainer(preset(output_dir=str(first), max_steps=4)) == 0
    assert run_trainer(preset(output_dir=str(other), vocab_size=20, max_steps=1)) == 0
    options = {"initialize_from": str(first / "model"), "model_config": None, "vocab_size": None}
    assert run_trainer(preset(**options, learning_rate=1e-9, max_steps=1)) == 0
    before, after = (weights_of(folder / "model") for folder in (first, tmp_path / "run"))
    torch.testing.assert_close(before, after, atol=1e-6, rtol=0)
    mixed = preset(**options, tokenizer=str(other / "model"), output_dir=str(tmp_path / "mixed"))
    assert "use the tokenizer that the model was trained with" in refused(mixed)


def test_a_diverging_run_leaves_no_checkpoint_that_is_not_finite(refused, preset, tmp_path):
    changes = {"optimizer": "sgd", "learning_rate": 1e38, "max_grad_norm": None, "best_metric": "last"}
    message = refused(preset(**changes, eval_every=1, log_every=100, mixed_precision="no"))
    assert "is not finite at step 3" in message and "the checkpoint of an earlier step, checkpoint-2" in message
    for checkpoint in list_checkpoints(tmp_path / "run"):
        assert all(value.isfinite().all() for value in weights_of(checkpoint).values())


def test_weights_that_are_not_finite_are_found_before_their_first_loss(refused, preset, tmp_path, monkeypatch):
    def diverge(self: TrainableModel) -> None:
        self.full.embedding_tables()[-1].data[-1, -1] = torch.nan  # a row that few batches have

    monkeypatch.setattr(TrainableModel, "apply_gradients", diverge)
    message = refused(preset(eval_every=1, best_metric="last"))
    assert "the weights are not finite after step 1: lower" in message and "has no checkpoint" in message
    assert not list_checkpoints(tmp_path / "run")
