"""The card of a dataset of pairs, and its plots."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from datasets import Features
from huggingface_hub import DatasetCard, DatasetCardData, constants, metadata_load
from huggingface_hub.utils import close_session

from data_scripts.clean.masking import RECALL
from data_scripts.pairs import dataset as output
from data_scripts.pairs.card import draw_plots
from data_scripts.pairs.sorted_pairs import Counts
from data_scripts.schemas import PAIR_SCHEMA, features
from tests.data_scripts.pairs.test_dataset import draw_pairs, written
from tests.loopback_hub import LoopbackHub


def card(folder: Path) -> tuple[dict, str]:
    _, front, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_card_has_the_metadata_for_datasets_and_the_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "draw_plots", draw_plots)
    report = written(tmp_path / "out", draw_pairs(1_000), "--license", "cc-by-4.0")
    metadata, text = card(tmp_path / "out")
    assert metadata["license"] == "cc-by-4.0"
    assert Features._from_yaml_list(metadata["dataset_info"]["features"]) == features(PAIR_SCHEMA)
    assert {part["name"]: part["num_examples"] for part in metadata["dataset_info"]["splits"]} == report["splits"]
    files = (tmp_path / "out").glob("*.parquet")
    assert metadata["dataset_info"]["download_size"] == sum(file.stat().st_size for file in files)
    assert f"| train | {report['splits']['train']:,} |" in text and "NOT STATED" not in text
    for plot in ("characters", "replies"):
        assert f"(plots/{plot}.png)" in text
        assert (tmp_path / "out" / "plots" / f"{plot}.png").read_bytes().startswith(b"\x89PNG")


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
    assert found.data.task_categories == ["sentence-similarity"] and found.data.size_categories == ["n<1K"]
    assert not set(found.data.to_dict()) - {*vars(DatasetCardData()), "tags", "configs", "dataset_info"}


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
    recall = json.loads(RECALL.read_text())["recall"]["phone numbers"]
    assert f"| phone numbers | 0 | {recall['masked']} of {recall['forms']} (" in text


@pytest.mark.parametrize(
    ("lengths", "responses"),
    [
        ([1], [1]),
        ([5] * 4, [1] * 4),
        ([0, 2_000, 100_000], [3]),
        (list(range(1, 301)), [200, 50, *[1] * 50]),
    ],
)
def test_plots_are_pngs_with_the_same_bytes_each_time(tmp_path: Path, lengths: list[int], responses: list[int]) -> None:
    counts = Counts(input=Counter(lengths), response=Counter(lengths[:2]), responses=Counter(responses))
    plots = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        draw_plots(tmp_path / name, counts)
        plots.append({path.name: path.read_bytes() for path in (tmp_path / name / "plots").iterdir()})
    assert plots[0].keys() == {"characters.png", "replies.png"} and plots[0] == plots[1]
    assert all(data.startswith(b"\x89PNG") for data in plots[0].values())
