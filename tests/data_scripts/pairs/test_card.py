"""The card of a dataset of pairs."""

import re
from pathlib import Path

import yaml

from tests.data_scripts.pairs.test_dataset import draw_pairs, written


def card(folder: Path) -> tuple[dict, str]:
    _, front, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_card_has_the_license_or_says_that_it_is_missing_and_the_counts(tmp_path):
    report = written(tmp_path / "out", draw_pairs(1_000), "--license", "cc-by-4.0", settings={"language": "de"})
    metadata, text = card(tmp_path / "out")
    assert metadata["license"] == "cc-by-4.0" and metadata["language"] == "de"
    assert f"| train | {report['splits']['train']:,} |" in text and "NOT STATED" not in text
    written(tmp_path / "without", draw_pairs(100))
    metadata, text = card(tmp_path / "without")
    assert metadata["license"] == "unknown" and "language" not in metadata and "NOT STATED" in text


def test_the_cards_example_runs_in_the_folder(tmp_path, monkeypatch):
    report = written(tmp_path / "out", draw_pairs(1_000))
    (block,) = re.findall(r"```python\n(.*?)```", card(tmp_path / "out")[1], flags=re.DOTALL)
    monkeypatch.chdir(tmp_path / "out")
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert {split: len(rows) for split, rows in names["pairs"].items()} == report["splits"]
