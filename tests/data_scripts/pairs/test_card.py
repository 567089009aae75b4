"""The card of a dataset of pairs."""

import re
from pathlib import Path

import yaml
from huggingface_hub import DatasetCard, DatasetCardData, constants, metadata_load
from huggingface_hub.utils import close_session

from tests.data_scripts.pairs.test_dataset import draw_pairs, written
from tests.loopback_hub import LoopbackHub


def card(folder: Path) -> tuple[dict, str]:
    _, front, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_card_has_the_license_and_the_counts(tmp_path):
    report = written(tmp_path / "out", draw_pairs(1_000), "--license", "cc-by-4.0")
    metadata, text = card(tmp_path / "out")
    assert metadata["license"] == "cc-by-4.0"
    assert f"| train | {report['splits']['train']:,} |" in text and "NOT STATED" not in text


def test_a_card_without_a_license_says_that_it_is_missing(tmp_path):
    written(tmp_path / "out", draw_pairs(100))
    metadata, text = card(tmp_path / "out")
    assert metadata["license"] == "unknown" and "NOT STATED" in text


def test_the_hubs_validator_accepts_the_card_and_its_metadata_are_read_without_loss(tmp_path, monkeypatch):
    written(tmp_path / "out", draw_pairs(1_000), "--license", "cc-by-4.0")
    path = tmp_path / "out" / "README.md"
    with LoopbackHub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        close_session()
        found = DatasetCard.load(path)
        found.validate()
        assert hub.requests == ["POST /api/validate-yaml"]
    assert found.data.to_dict() == metadata_load(path) == card(tmp_path / "out")[0]
    assert found.data.task_categories == ["sentence-similarity"]
    assert not set(found.data.to_dict()) - {*vars(DatasetCardData()), "tags", "configs"}


def test_the_cards_example_runs_in_the_folder(tmp_path, monkeypatch):
    report = written(tmp_path / "out", draw_pairs(1_000))
    (block,) = re.findall(r"```python\n(.*?)```", card(tmp_path / "out")[1], flags=re.DOTALL)
    monkeypatch.chdir(tmp_path / "out")
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert {split: len(rows) for split, rows in names["pairs"].items()} == report["splits"]


def test_the_card_describes_the_treatment_of_language_and_personal_data(tmp_path):
    written(tmp_path / "plain", draw_pairs(100))
    metadata, text = card(tmp_path / "plain")
    assert "language" not in metadata and "- Language: not checked" in text and "data: not masked" in text
    written(tmp_path / "masked", draw_pairs(100), "--mask", settings={"language": "de"})
    metadata, text = card(tmp_path / "masked")
    assert (
        metadata["language"] == "de"
        and "another language than `de`" in text
        and "Names of people in the texts are not detected" in text
    )
    assert "| phone numbers | 0 |" in text
