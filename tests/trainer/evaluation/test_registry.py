"""An evaluator that one file outside of the package registers is evaluated, offered by the command, and in the card."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset, DatasetDict
from huggingface_hub import ModelCard

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.publish.test_model_card import SETTINGS, SomeConfig
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation import __main__ as command
from trainer.evaluation.evaluators import (
    EVALUATORS,
    CardEntry,
    EvaluationDataset,
    EvaluationInputs,
    Evaluator,
    evaluate_encoder,
    register_evaluator,
)
from trainer.publish.model_card import write_card


def load_lengths(source: str) -> DatasetDict:
    texts = Path(source, "texts.txt").read_text().split()
    return DatasetDict(
        {"validation": Dataset.from_dict({"text": texts}), "test": Dataset.from_dict({"text": texts[:2]})}
    )


def evaluate_lengths(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    return {
        split: {"f1": len(encoder.encode(rows["text"][:])) / 10, "texts": len(rows)}
        for split, rows in inputs.splits.items()
    }


@pytest.fixture
def lengths() -> Iterator[Evaluator]:
    evaluator = Evaluator(
        name="lengths",
        data=EvaluationDataset("toy", load_lengths, "folder of toy texts"),
        evaluate=evaluate_lengths,
        card=CardEntry("text-classification", "toy task", "someone/toy", "Toy Set", metrics={"f1": "F1"}),
    )
    yield register_evaluator(evaluator)
    del EVALUATORS["lengths"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "texts.txt").write_text("one two three")
    return tmp_path


def test_it_is_evaluated_if_its_data_is_given(lengths: Evaluator, folder: Path) -> None:
    data = {"toy": load_lengths(str(folder / "toy"))}
    assert evaluate_encoder(FakeEncoder(), data, "both") == {
        "lengths": {"dev": {"f1": 0.3, "texts": 3}, "test": {"f1": 0.2, "texts": 2}}
    }
    assert evaluate_encoder(FakeEncoder(), {}, "both") == {}


def test_the_command_has_its_option_and_loads_its_data(
    lengths: Evaluator, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trainer.encoders.loading.load_encoder", lambda model: FakeEncoder())
    output = folder / "results.json"
    for options in (["--data", str(folder)], ["--toy", str(folder / "toy")]):
        assert command.main(["model", "--tasks", "lengths", *options, "--output", str(output)]) == 0
        assert json.loads(output.read_text())["lengths"]["test"] == {"f1": 0.2, "texts": 2}
    assert command.main(["model", "--tasks", "lengths", "--baselines", "bm25", "--data", str(folder)]) == 2
    assert "none of --tasks is a ranking" in capsys.readouterr().err


def test_the_card_shows_its_scores(lengths: Evaluator, folder: Path) -> None:
    results = {"lengths": {"test": {"f1": 0.25, "texts": 2}}, "seeds": {"lengths.test.f1": [0.25, 0.35]}}
    write_card(folder, results, SETTINGS, SomeConfig(), "someone/talker")
    card = ModelCard.load(folder / "README.md")
    assert "| toy task | Toy Set | test | F1 | 0.2500 |" in card.text
    assert "| toy task | Toy Set test | F1 | 0.3000 |" in card.text
    assert (folder / ".eval_results" / "lengths.yaml").is_file()


def test_two_evaluators_cannot_have_one_name(lengths: Evaluator) -> None:
    assert register_evaluator(lengths) is lengths
    with pytest.raises(ValueError, match="two evaluators named lengths"):
        register_evaluator(Evaluator("lengths", lengths.data, evaluate_lengths, lengths.card))
