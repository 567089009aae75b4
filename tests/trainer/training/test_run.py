"""Whole runs, on a tiny corpus made here: `python trainer/run.py` as a user calls it, in this process."""

import json
import re
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from accelerate.state import AcceleratorState
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from modeling_convsim.encoding import Encoder
from trainer import hardware as machine
from trainer import run
from trainer.training.loop import _Run

THINGS = ["dog", "cat", "car", "house", "boat", "tree", "horse", "train", "garden", "kitchen", "piano", "bicycle"]
COLOURS = ["red", "green", "blue", "black", "white", "yellow", "brown", "grey", "pink", "purple"]


def write(folder: Path, split: str, rows: list[dict]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    Dataset.from_list(rows).to_parquet(folder / f"{split}-00000-of-00001.parquet")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory) -> Path:
    """Pairs in which a question about a coloured thing is answered by naming both; NLI and STS to match."""
    folder = tmp_path_factory.mktemp("corpora")
    generator = np.random.default_rng(0)
    pairs = [
        {"input": f"what colour is the {thing} of {name}", "response": f"the {thing} of {name} is {colour}"}
        | {"thread": f"{thing}/{name}", "source": "made"}
        for thing in THINGS
        for name in ("ann", "bob", "eve", "tom")
        for colour in COLOURS
    ]
    order = generator.permutation(len(pairs))
    for split, part in (("train", order[:240]), ("validation", order[240:360]), ("test", order[360:])):
        write(folder / "pairs", split, [pairs[index] for index in part])
    for split, names in (("train", THINGS[:9]), ("validation", THINGS[9:]), ("test", THINGS[9:])):
        rows = []
        for thing in names:
            for colour, other in zip(COLOURS, COLOURS[1:] + COLOURS[:1], strict=True):
                premise = f"a {colour} {thing} stands here"
                rows.append({"premise": premise, "hypothesis": f"there is a {thing}", "label": 0})
                rows.append({"premise": premise, "hypothesis": f"the {thing} is old", "label": 1})
                rows.append({"premise": premise, "hypothesis": f"the {thing} is {other}", "label": 2})
        write(folder / "nli", split, rows)
        sts = [
            {
                "sentence1": f"a {c} {t}",
                "sentence2": f"one {d} {t}",
                "score": 5.0 if c == d else 2.0,
                "genre": "captions",
            }
            for t in names
            for c, d in zip(COLOURS, COLOURS[:5] + COLOURS[:5], strict=True)
        ]
        write(folder / "sts", split, sts)
    return folder


@pytest.fixture(scope="module")
def similar(corpora) -> dict[str, list[str]]:
    """Captions by image, paraphrases judged or not, and inference, as options of a run."""
    captions = [
        {
            "group": f"{colour} {thing}",
            "captions": [f"a {colour} {thing}", f"one {thing}, {colour}", f"{colour} {thing}s"],
        }
        for colour in COLOURS
        for thing in THINGS
    ]
    write(corpora / "captions", "train", captions)
    pairs = [
        {"sentence1": f"where is the {thing} of {name}", "sentence2": f"in which place is the {other} of {name}"}
        | {"score": float(thing == other)}
        for name in ("ann", "bob", "eve", "tom")
        for thing, other in zip(THINGS * 2, THINGS + THINGS[1:] + THINGS[:1], strict=True)
    ]
    write(corpora / "judged", "train", pairs)
    write(corpora / "unjudged", "train", [pair | {"score": None} for pair in pairs if pair["score"]])
    return {
        "captions": [str(corpora / "captions")],
        "paraphrases": [str(corpora / "judged"), str(corpora / "unjudged")],
        "nli": [str(corpora / "nli")],
    }


@pytest.fixture
def preset(corpora, tmp_path):
    """Writes a preset of the tiny run, with some options changed or dropped (None)."""

    def write_preset(**changes) -> str:
        sizes = {"embedding_size": 16, "response_hidden_sizes": [16], "nli_hidden_size": 16}
        options = {
            "model_type": "dan",
            "model_config": {
                "word_embedding_size": 16,
                "bigram_buckets": 64,
                "hidden_sizes": [16],
                "token_dropout": 0.1,
            }
            | sizes,
            "vocab_size": 100,
            "pairs": [str(corpora / "pairs")],
            "snli": str(corpora / "nli"),
            "stsb": str(corpora / "sts"),
            "tasks": {"response_prediction": 0.7, "snli": 0.3},
            "optimizer": "adamw",
            "learning_rate": 0.01,
            "max_grad_norm": 1.0,
            "max_steps": 12,
            "batch_size": 16,
            "eval_every": 4,
            "log_every": 2,
            "trackers": ["none"],
            "output_dir": str(tmp_path / "run"),
            "cache_dir": str(corpora / "cache"),
            "device": "cpu",
        } | changes
        path = tmp_path / "preset.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in options.items() if value is not None}))
        return str(path)

    return write_preset


def call(monkeypatch, *argv: str) -> int:
    """Exit code of `python trainer/run.py …`."""
    monkeypatch.setattr(sys, "argv", ["trainer/run.py", *argv])
    AcceleratorState._reset_state(reset_partial_state=True)  # as in a new process
    try:
        run.main()
    except SystemExit as stopped:
        return int(stopped.code or 0)
    return 0


def refused(monkeypatch, capsys, *argv: str) -> str:
    """The message of a run that is refused, which must be all there is: one line, exit code 2."""
    assert call(monkeypatch, *argv) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    return lines[0]


def test_a_run_leaves_all_that_is_promised(preset, tmp_path, monkeypatch):
    assert call(monkeypatch, preset(trackers=["tensorboard"])) == 0
    folder = tmp_path / "run"
    results = json.loads((folder / "results.json").read_text())
    assert results["response_prediction"]["split"] == "test" and results["response_prediction"]["queries"] == 120
    assert set(results["snli"]) >= {"accuracy", "split"}
    assert set(results["stsb"]) == set(results["stsb_tuned"]) == {"dev", "test"}
    assert results["run"]["steps"] == 12 and results["run"]["pairs"] == 12 * 16
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "dev" in row] == [0, 4, 8, 12]
    assert any(folder.glob("tensorboard/**/events*"))
    assert yaml.safe_load((folder / "config.yaml").read_text())["max_steps"] == 12
    checkpoints = {int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*")}
    assert checkpoints == {12, results["run"]["best_step"]}
    assert Encoder.from_pretrained(folder / "model").encode(["the red dog"]).shape == (1, 16)


def test_training_learns_what_the_pairs_teach(preset, tmp_path, monkeypatch):
    assert call(monkeypatch, preset(max_steps=300, eval_every=300, batch_size=32)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    # Ten replies fit each question equally well: chance is 0.01, and to know the thing and its owner gives 0.1 or more.
    assert results["response_prediction"]["p_at_10"] > 0.8
    assert results["snli"]["accuracy"] > 0.55


@pytest.mark.parametrize("model_type", ["dan", "transformer"])
def test_bfloat16_trains_and_the_model_is_saved_in_float32(preset, tmp_path, monkeypatch, model_type):
    sizes = {"embedding_size": 16, "response_hidden_sizes": [16], "nli_hidden_size": 16}
    layers = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    changes = {"model_type": model_type, "mixed_precision": "bf16", "stsb": None, "max_steps": 2}
    if model_type == "transformer":
        changes["model_config"] = sizes | layers
    assert call(monkeypatch, preset(**changes)) == 0
    weights = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert all(tensor.isfinite().all() for tensor in weights.values())


@pytest.mark.parametrize("model_type", ["dan", "transformer"])
def test_a_resumed_run_ends_with_the_same_weights_bit_for_bit(preset, tmp_path, monkeypatch, model_type):
    changes: dict = {"model_type": model_type, "stsb": None}
    if model_type == "transformer":
        layers = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
        heads = {"embedding_size": 16, "response_hidden_sizes": [16], "nli_hidden_size": 16}
        changes["model_config"] = {**layers, **heads, "hidden_dropout": 0.2}
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert call(monkeypatch, preset(output_dir=str(whole), **changes)) == 0

    original = _Run._step

    def stop(self, step):
        if step == 6:
            raise KeyboardInterrupt
        original(self, step)

    with monkeypatch.context() as patch:
        patch.setattr("trainer.training.loop._Run._step", stop)
        with pytest.raises(KeyboardInterrupt):
            call(monkeypatch, preset(output_dir=str(stopped), **changes))
    assert [path.name for path in stopped.glob("checkpoint-*")] == ["checkpoint-4"]
    assert call(monkeypatch, preset(output_dir=str(stopped), **changes), "--resume", "true") == 0
    expected, found = (load_file(folder / "checkpoint-12" / "model.safetensors") for folder in (whole, stopped))
    assert expected.keys() == found.keys()
    for name in expected:
        assert torch.equal(expected[name], found[name]), name
    assert (whole / "metrics.jsonl").read_text() == (stopped / "metrics.jsonl").read_text()


def test_multitask_starts_from_a_reddit_model(preset, corpora, tmp_path, monkeypatch):
    first = tmp_path / "reddit"
    assert call(monkeypatch, preset(output_dir=str(first), tasks={"response_prediction": 1}, max_steps=4)) == 0
    frozen = preset(
        initialise_from=str(first / "model"), model_config=None, learning_rate=1e-9, max_steps=1, vocab_size=50
    )
    assert call(monkeypatch, frozen) == 0
    before, after = (load_file(folder / "model" / "model.safetensors") for folder in (first, tmp_path / "run"))
    for name in before:
        torch.testing.assert_close(before[name], after[name], atol=1e-6, rtol=0)


def test_a_head_that_was_not_trained_is_not_judged(preset, tmp_path, monkeypatch):
    assert call(monkeypatch, preset(tasks={"response_prediction": 1}, max_steps=1)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert "snli" not in results and "response_prediction" in results and "stsb" in results


def test_vectors_that_may_be_cut_are_trained_at_every_size(preset, similar, tmp_path, monkeypatch):
    odds = {"response_prediction": 1, "captions": 1, "snli": 1}
    assert call(monkeypatch, preset(**similar, tasks=odds, matryoshka_dims=[8, 4])) == 0
    folder = tmp_path / "run"
    assert yaml.safe_load((folder / "config.yaml").read_text())["matryoshka_dims"] == [8, 4]
    names = set().union(*map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()))
    for task in ("response_prediction", "captions/captions"):
        assert {f"{task}/accuracy", f"{task}/accuracy_8", f"{task}/accuracy_4"} <= names
    assert {name for name in names if name.startswith("snli/")} == {"snli/loss", "snli/accuracy"}


def test_a_run_of_before_an_option_was_there_is_resumed_with_its_default(preset, tmp_path, monkeypatch, capsys):
    assert call(monkeypatch, preset(max_steps=4)) == 0
    config = tmp_path / "run" / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({key: value for key, value in settings.items() if key != "matryoshka_dims"}))
    message = refused(monkeypatch, capsys, preset(max_steps=4, matryoshka_dims=[8]), "--resume", "true")
    assert "matryoshka_dims was [], is [8]" in message
    assert call(monkeypatch, preset(max_steps=4), "--resume", "true") == 0


def test_texts_that_say_the_same_are_trained_beside_the_conversations(preset, similar, tmp_path, monkeypatch):
    odds = {"response_prediction": 1, "entailment": 1, "captions": 1, "paraphrases": 1, "ranking": 1}
    settings = dict(similar, tasks=odds, word_vectors="skip_gram", max_steps=60, eval_every=60, final_split="dev")
    assert call(monkeypatch, preset(**settings)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["run"]["rows"] == {
        "pairs": 240,
        "entailment/nli": 9 * 10,
        "captions/captions": 90 * 3 * 2 + 30 * 2 * 1,  # thirty images lose a caption to the evaluation sentences
        "paraphrases/judged": 48,
        "paraphrases/unjudged": 48,
        "ranking/judged": 96,
        "ranking/nli": 270,
    }
    assert set(results["stsb"]) == {"dev"} and results["response_prediction"]["split"] == "dev"
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    for task in ("captions/captions", "paraphrases/judged", "entailment/nli"):
        accuracies = [row[f"{task}/accuracy"] for row in rows if f"{task}/accuracy" in row]
        assert accuracies[-1] > accuracies[0]


def test_further_texts_are_for_the_word_vectors_alone(preset, corpora, tmp_path, monkeypatch):
    sentences = [{"book": "one", "sentence": f"the quokka {number} of a red kitchen"} for number in range(50)]
    write(corpora / "books", "train", [*sentences, {"book": "one", "sentence": "A red kitchen"}])
    read = []
    monkeypatch.setattr(
        "trainer.training.setup.cached_word_vectors",
        lambda columns, rows, size, *_: read.extend(map(len, columns)) or np.zeros((rows, size), np.float32),
    )
    settings = {"texts": [str(corpora / "books")], "word_vectors": "skip_gram", "tasks": {"response_prediction": 1}}
    assert call(monkeypatch, preset(**settings, max_steps=1)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["run"]["rows"] == {"pairs": 240} and results["leakage"]["texts/books"]["removed"] == 1
    assert read == [240, 240, 50]
    assert "quokka" not in AutoTokenizer.from_pretrained(tmp_path / "run" / "model").get_vocab()


def test_half_precision_is_stored_judged_and_loaded_as_float32(preset, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    assert call(monkeypatch, preset(half_precision=True)) == 0
    stored = load_file(folder / "model" / "model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    model = AutoModel.from_pretrained(folder / "model")
    assert model.dtype == torch.float32
    torch.testing.assert_close(model.embed_tokens.weight, stored["encoder.embed_tokens.weight"].float(), rtol=0, atol=0)
    results = json.loads((folder / "results.json").read_text())
    full, half = results["full_precision"]["stsb"]["test"]["all"]["pearson"], results["stsb"]["test"]["all"]["pearson"]
    assert half != full and half == pytest.approx(full, abs=0.01)
    checkpoint = load_file(next(folder.glob("checkpoint-*")) / "model.safetensors")
    assert {value.dtype for value in checkpoint.values()} == {torch.float32}


def test_the_second_part_of_a_run_may_have_other_tasks(preset, similar, tmp_path, monkeypatch):
    late = {"late_from": 0.5, "late_tasks": {"captions": 1}}
    assert call(monkeypatch, preset(**similar, **late, tasks={"response_prediction": 1})) == 0
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [{key for key in row if key.endswith("/loss")} for row in rows if "dev" not in row]
    assert losses == [{"response_prediction/loss"}] * 3 + [{"captions/captions/loss"}] * 3


def test_a_teacher_is_asked_once(preset, similar, corpora, tmp_path, monkeypatch):
    assert call(monkeypatch, preset(max_steps=1)) == 0
    teacher = str(tmp_path / "run" / "model")
    settings = dict(similar, tasks={"distillation": 1}, teacher=teacher, best_metric="stsb.dev.all.pearson")
    distilled = preset(**settings, output_dir=str(tmp_path / "distilled"), max_steps=60, eval_every=60)
    assert call(monkeypatch, distilled) == 0
    rows = [json.loads(line) for line in (tmp_path / "distilled" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["distillation/loss"] for row in rows if "distillation/loss" in row]
    assert losses[-1] < 0.7 * losses[0]
    monkeypatch.setattr("trainer.data.teacher.load_encoder", lambda _: pytest.fail("asked again"))
    assert call(monkeypatch, distilled, "--overwrite", "true") == 0


def test_a_caption_that_is_an_evaluation_sentence_goes_and_its_image_stays(preset, similar, tmp_path, monkeypatch):
    settings = dict(similar, tasks={"captions": 1}, best_metric="stsb.dev.all.pearson", max_steps=1)
    assert call(monkeypatch, preset(**settings)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    # Dev and test hold "a COLOUR THING" of the last three things.
    assert results["leakage"]["captions/captions"]["removed"] == 10 * 3
    assert results["run"]["rows"]["captions/captions"] == 90 * 3 * 2 + 30 * 2 * 1


def test_evaluation_sentences_are_taken_out_of_training(preset, corpora, tmp_path, monkeypatch):
    leaky = tmp_path / "leaky"
    shutil.copytree(corpora / "nli", leaky)
    rows = Dataset.from_parquet(str(leaky / "train-00000-of-00001.parquet")).to_list()
    rows += [{"premise": "A RED kitchen!", "hypothesis": "something else", "label": 1}] * 3
    write(leaky, "train", rows)
    assert call(monkeypatch, preset(snli=str(leaky), max_steps=2, eval_every=2)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["leakage"]["snli"]["stsb test"] == 3
    assert results["run"]["rows"]["snli"] == len(rows) - results["leakage"]["snli"]["removed"]


@pytest.fixture
def siamese(corpora, tmp_path, monkeypatch):
    """Runs the preset of Siamese CBOW on made-up books, tiny, with further options; returns the run's results."""
    rows = [
        {"book": book, "position": position, "sentence": f"{THINGS[(position + shift) // 8]} {colour}"}
        for book, shift in (("one", 0), ("two", 9), ("three", 20))
        for position in range(70)
        if position % 23 != 22  # a gap, as where a sentence was removed
        for colour in [COLOURS[position % len(COLOURS)]]
    ]
    write(corpora / "in_order", "train", rows)

    def train(*options: str, name: str = "run") -> dict:
        own = {"documents": corpora / "in_order", "stsb": "none", "sts": "none", "cache_dir": corpora / "cache"}
        own |= {"model_config": '{"embedding_size": 8}', "batch_size": 32, "learning_rate": 1, "eval_every": 2}
        own |= {"log_every": 1, "trackers": "none", "device": "cpu", "output_dir": tmp_path / name}
        words = [word for key, value in own.items() for word in (f"--{key}", str(value))]
        preset = Path(run.__file__).parent / "presets" / "siamese_cbow.yaml"
        assert call(monkeypatch, str(preset), *words, *options) == 0
        return json.loads((tmp_path / name / "results.json").read_text())

    return train


def losses(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["neighbours/in_order/loss"] for row in rows if "neighbours/in_order/loss" in row]


def test_siamese_cbow_trains_for_one_epoch_and_keeps_its_last_step(siamese, tmp_path):
    results = siamese()
    # Positions 22, 45 and 68 are not there: of each book's 67 sentences the last, at 69, stands alone.
    rows = 3 * sum(
        any(other % 23 != 22 and 0 <= other < 70 for other in (position - 1, position + 1))
        for position in range(70)
        if position % 23 != 22
    )
    steps = -(-rows // 32)
    assert rows == 3 * 66 and steps == 7
    assert results["run"]["rows"] == {"neighbours/in_order": rows}
    assert results["run"]["steps"] == results["run"]["best_step"] == steps
    assert len(losses(tmp_path / "run")) == steps
    last = load_file(tmp_path / "run" / f"checkpoint-{steps}" / "model.safetensors")
    saved = load_file(tmp_path / "run" / "model" / "model.safetensors")
    assert all(torch.equal(saved[name], last[name]) for name in saved)
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["epochs"] == 1
    assert Encoder.from_pretrained(tmp_path / "run" / "model").encode(["the red dog"]).shape == (1, 8)


def test_more_epochs_of_siamese_cbow_are_as_many_steps_and_lower_the_loss(siamese, tmp_path):
    assert siamese("--epochs", "20", "--eval_every", "1000", "--learning_rate", "0.1")["run"]["steps"] == -(
        -20 * 3 * 66 // 32
    )
    found = losses(tmp_path / "run")
    assert np.mean(found[-30:]) < found[0] - 0.2


def test_siamese_cbow_resumes_to_the_same_weights_bit_for_bit(siamese, tmp_path, monkeypatch):
    siamese(name="whole")
    original = _Run._step

    def stop(self, step):
        if step == 5:
            raise KeyboardInterrupt
        original(self, step)

    with monkeypatch.context() as patch:
        patch.setattr("trainer.training.loop._Run._step", stop)
        with pytest.raises(KeyboardInterrupt):
            siamese(name="stopped")
    assert [path.name for path in (tmp_path / "stopped").glob("checkpoint-*")] == ["checkpoint-4"]
    siamese("--resume", "true", name="stopped")
    expected, found = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "stopped"))
    assert expected.keys() == found.keys() and all(torch.equal(expected[name], found[name]) for name in expected)
    assert losses(tmp_path / "whole") == losses(tmp_path / "stopped")


def test_siamese_cbow_trains_on_pairs_as_documents_of_two(siamese, corpora):
    results = siamese("--documents", str(corpora / "pairs"))
    # Every text of the 240 pairs has one neighbour, the other text of its pair.
    assert results["run"]["rows"] == {"neighbours/pairs": 480} and results["run"]["steps"] == 480 // 32


def test_evaluation_sentences_are_taken_out_of_books_and_part_those_around_them(siamese, corpora, tmp_path):
    sentences = ["the dog in the dog", "a red kitchen", "the cat in the dog", "the dog in the cat"] * 10
    rows = [{"book": "one", "position": place, "sentence": text} for place, text in enumerate(sentences)]
    write(tmp_path / "leaky", "train", rows)
    results = siamese("--documents", str(tmp_path / "leaky"), "--stsb", str(corpora / "sts"), "--batch_size", "16")
    assert results["leakage"]["documents/leaky"]["removed"] == 10
    # What is left is the first sentence, alone, and nine times three in a row; at the end two.
    assert results["run"]["rows"] == {"neighbours/leaky": 9 * 3 + 2}


def test_a_task_that_no_row_is_left_of_is_refused(preset, monkeypatch, capsys):
    message = refused(monkeypatch, capsys, preset(snli_share=0.001))  # of 270 rows
    assert "snli has 0 training pairs, fewer than a batch of 16" in message


@pytest.mark.parametrize("share", [0, 0.5])
def test_snli_is_trained_on_by_its_share_and_with_none_not_at_all(preset, tmp_path, monkeypatch, share):
    assert call(monkeypatch, preset(snli_share=share, eval_every=100)) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert results["run"]["rows"] == {"pairs": 240} | ({"snli": 270 // 2} if share else {})
    assert ("snli" in results) == any("snli/loss" in row for row in rows) == bool(share)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"captions": ["nowhere/at/all"]}, "nowhere/at/all"),
        ({"nli": ["a/nli", "b/nli"]}, "nli has two sets named nli"),
        ({"tasks": {"captions": 1}}, "tasks trains on 'captions', so captions is needed"),
        ({"late_tasks": {"distillation": 1}}, "late_tasks trains on 'distillation', so teacher is needed"),
        ({"late_tasks": {"snly": 1}}, "late_tasks has 'snly'; expected one of response_prediction"),
        ({"tasks": {"neighbours": 1}}, "tasks trains on 'neighbours', so documents is needed"),
        ({"tasks": {"snli": 1}, "snli_share": 0}, "snli_share is 0, but the tasks train on snli alone"),
        ({"batch_size": 500}, "response_prediction has 240 training pairs, fewer than a batch of 500"),
        ({"pairs": ["nowhere/at/all"]}, "nowhere/at/all"),
        ({"device": "cuda"}, "device is cuda, but torch finds no GPU here"),
        ({"num_processes": 2}, "num_processes is 2, but 1 are running"),
        ({"mixed_precision": "fp16"}, "mixed_precision is fp16, which needs a GPU"),
        ({"model_config": {"embedding_siz": 3}}, "model_config has embedding_siz; expected some of"),
        ({"model_config": {"embedding_size": -3}}, "model_config: .*embedding_size is -3"),
        ({"matryoshka_dims": [8, 0]}, r"matryoshka_dims is \[8, 0\]; expected sizes above 0 and below .* 16"),
        ({"matryoshka_dims": [16]}, r"matryoshka_dims is \[16\]; expected sizes above 0 and below .* 16"),
        ({"matryoshka_dims": [8], "tasks": {"snli": 1}}, "matryoshka_dims is for the tasks response_prediction, "),
        ({"best_metric": "stsb.dev.all.pearsn"}, "best_metric 'stsb.dev.all.pearsn' is not measured"),
        ({"initialise_from": "nowhere/at/all"}, "initialise_from: nowhere/at/all|tokenizer: nowhere/at/all"),
        ({"resume": True}, "resume: no config.yaml and checkpoint-N in"),
        ({"push_to_hub": True, "hub_model_id": "a/b/c"}, "'a/b/c' cannot be a repository's name"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(preset, monkeypatch, capsys, changes, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert re.search(message, refused(monkeypatch, capsys, preset(**changes)))


def test_an_earlier_run_is_not_overwritten_unasked(preset, tmp_path, monkeypatch, capsys):
    assert call(monkeypatch, preset(max_steps=1)) == 0
    before = (tmp_path / "run" / "results.json").read_bytes()
    assert "is not empty: continue with --resume true" in refused(monkeypatch, capsys, preset(max_steps=1))
    assert "settings differ from those the run began with (max_steps was 1, is 2)" in refused(
        monkeypatch, capsys, preset(max_steps=2), "--resume", "true"
    )
    assert (tmp_path / "run" / "results.json").read_bytes() == before


def test_a_run_that_failed_before_its_first_checkpoint_may_simply_be_started_again(preset, monkeypatch, capsys):
    assert "fewer than a batch" in refused(monkeypatch, capsys, preset(batch_size=500))
    assert call(monkeypatch, preset(max_steps=1)) == 0


def test_a_vocabulary_that_does_not_match_the_model_is_refused(preset, tmp_path, monkeypatch, capsys):
    first = tmp_path / "small"
    assert call(monkeypatch, preset(output_dir=str(first), vocab_size=20, max_steps=1)) == 0
    second = tmp_path / "large"
    assert call(monkeypatch, preset(output_dir=str(second), max_steps=1)) == 0
    mixed = preset(initialise_from=str(first / "model"), tokenizer=str(second / "model"), model_config=None)
    assert "use the tokenizer that the model was trained with" in refused(monkeypatch, capsys, mixed)


def test_a_diverging_run_says_so(preset, monkeypatch, capsys):
    message = refused(monkeypatch, capsys, preset(optimizer="sgd", learning_rate=1e38, max_grad_norm=None))
    assert "the loss is not finite" in message and "lower learning_rate" in message


def test_threads_that_are_fastest_are_found_and_used(preset, tmp_path, monkeypatch):
    used = []
    backward, step = _Run._backward, _Run._step

    def slow_with_many(self, number):
        time.sleep({4: 0.6, 2: 0.0, 1: 0.3}[torch.get_num_threads()])
        backward(self, number)

    def watched(self, number):
        used.append(torch.get_num_threads())
        monkeypatch.setattr(_Run, "_backward", backward)
        step(self, number)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        monkeypatch.setattr(_Run, "_backward", slow_with_many)
        monkeypatch.setattr(_Run, "_step", watched)
        assert call(monkeypatch, preset()) == 0
        assert set(used) == {2} and torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert json.loads((tmp_path / "run" / "results.json").read_text())["run"]["threads"] == 2


def test_finding_threads_moves_no_weight(preset, tmp_path, monkeypatch):
    weights = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        folder = tmp_path / str(threads)
        assert call(monkeypatch, preset(mixed_precision="no"), "--output_dir", str(folder)) == 0
        weights.append(load_file(folder / "model" / "model.safetensors"))
    torch.set_num_threads(before)
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, rtol=1e-3, atol=1e-4)


def test_a_resumed_run_keeps_its_precision_on_another_processor(preset, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "has_fast_bfloat16", lambda device: (True, "as this test says"))
    assert call(monkeypatch, preset(max_steps=4)) == 0
    monkeypatch.setattr(machine, "has_fast_bfloat16", lambda device: (False, "as this test says"))
    assert call(monkeypatch, preset(max_steps=4), "--resume", "true") == 0
    assert json.loads((tmp_path / "run" / "results.json").read_text())["run"]["mixed_precision"] == "bf16"


@pytest.mark.parametrize(
    ("launched", "is_fast", "expected"), [("no", True, "bf16"), ("no", False, "no"), ("bf16", False, "bf16")]
)
def test_precision_is_the_launchers_or_bfloat16_where_the_device_has_it(
    launched, is_fast, expected, preset, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", launched)
    monkeypatch.setattr(machine, "has_fast_bfloat16", lambda device: (is_fast, "as this test says"))
    with caplog.at_level("INFO"):
        assert call(monkeypatch, preset()) == 0
    assert json.loads((tmp_path / "run" / "results.json").read_text())["run"]["mixed_precision"] == expected
    assert ("as this test says" in caplog.text) == (launched == "no")
