"""A source, a task and an encoder outside of the package, each in one file: data, training, evaluation, publication."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import yaml

import modeling_convsim
from modeling_convsim import Encoder
from tests.trainer.training.tiny_runs import run_trainer
from trainer.data.datasets import DATASET_KINDS
from trainer.evaluation.__main__ import main as evaluate
from trainer.evaluation.evaluators import EVALUATORS
from trainer.publish.__main__ import main as publish
from trainer.tasks import TASKS

EXTENSIONS = Path(__file__).with_name("extensions")
ENDINGS = ["day", "night", "light", "way", "sight", "play"]
LINES = [
    (f"the {noun} went {where} to{ending}", f"a {other} came {where} by {ending}")
    for noun, other in (("cat", "dog"), ("man", "girl"), ("ship", "boat"), ("king", "queen"))
    for where in ("there", "home", "far")
    for ending in ENDINGS
]


@pytest.fixture(autouse=True)
def restored_registries(monkeypatch):
    """Restores the registries after the test."""
    registries = (TASKS, EVALUATORS, DATASET_KINDS, modeling_convsim.ENCODERS)
    before = [dict(registry) for registry in registries]
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)
    for name in [name for name in sys.modules if name.startswith("convsim_extension_")]:
        del sys.modules[name]


def test_every_command_accepts_extensions_in_three_files(tmp_path, monkeypatch, capsys):
    text = tmp_path / "rhymes.txt"
    text.write_text("".join(f"{first}\t{second}\n" for first, second in LINES))
    data, folder = tmp_path / "rhymes", tmp_path / "run"
    script = str(EXTENSIONS / "rhymes_source.py")
    monkeypatch.setattr(sys, "argv", [script, str(text), "--output", str(data)])
    runpy.run_path(script, run_name="__main__")
    assert "rhymes" in capsys.readouterr().out

    preset = tmp_path / "preset.yaml"
    options = {
        "extensions": [str(EXTENSIONS / "rhymes_task.py"), str(EXTENSIONS / "max_encoder.py")],
        "model_type": "max",
        "model_config": {"embedding_size": 8},
        "tasks": {"rhymes": 1},
        "task_options": {"rhymes": str(data), "rhyme_scale": 2.0},
        "learning_rate": 1.0,
        "max_steps": 30,
        "batch_size": 16,
        "eval_every": 15,
        "best_metric": "rhymes.dev.cosine",
        "trackers": ["none"],
        "output_dir": str(folder),
        "cache_dir": str(tmp_path / "cache"),
        "mixed_precision": "no",
    }
    preset.write_text(yaml.safe_dump(options))
    assert run_trainer(str(preset)) == 0
    results = json.loads((folder / "results.json").read_text())
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    cosines = [row["dev"]["rhymes"]["dev"]["cosine"] for row in rows if "dev" in row]
    assert cosines[-1] > cosines[0] + 0.01  # it has learned what its task teaches
    assert results["run"]["rows"] == {"rhymes": len(LINES) - 16} and results["leakage"]["rhymes"]["removed"] == 0
    assert type(Encoder.from_pretrained(folder / "model", "cpu").model.module).__name__ == "ConvSimMaxForMultitask"

    again = tmp_path / "again.json"
    words = [str(folder / "model"), "--tasks", "rhymes", "--rhymes", str(data), "--output", str(again)]
    assert evaluate(words) == 0
    measured = json.loads(again.read_text())["rhymes"]
    for split in ("dev", "test"):
        assert measured[split] == pytest.approx(results["rhymes"][split])

    assert publish([str(folder), "--hub_model_id", "me/rhymer", "--dry_run"]) == 0
    card = (folder / "model" / "README.md").read_text()
    assert "Rhymes: give two lines that rhyme similar embeddings" in card and "mean cosine" in card
    assert (folder / "model" / "max_encoder.py").is_file()
