"""The folders of the commands for public datasets have a card that states the license."""

from pathlib import Path

import pytest
from datasets import Dataset, load_dataset
from huggingface_hub import DatasetCard

from data_scripts.__main__ import main
from data_scripts.dataset_folders import write_dataset_card
from modeling_convsim.files.hub import read_licenses

# Command -> a file's name, its text, and the rows of its splits.
DATASETS = {
    "nli": ("train.tsv", "premise\thypothesis\tlabel\nA cat.\tAn animal.\te\nA cat.\tA dog.\tc\n", {"train": 2}),
    "captions": ("dev.csv", "image_id,caption\n1,A dog.\n1,A hound.\n2,A cat.\n", {"validation": 2}),
    "paraphrases": ("test.tsv", "a\tb\nOne.\t1.\nTwo.\t2.\nThree.\t3.\n", {"test": 3}),
    "books": ("tale.txt", "Once.\n\nThen.\n", {"train": 2}),
    "cqa": ("train.tsv", "query\tcandidate\trelevant\nWhy?\tHow so?\ttrue\nWhy?\tWho?\tfalse\n", {"train": 2}),
}


def write(folder: Path, command: str) -> tuple[Path, dict[str, int]]:
    name, text, rows = DATASETS[command]
    (folder / name).write_text(text)
    return folder / name, rows


@pytest.mark.parametrize("command", DATASETS)
def test_the_card_states_the_license_and_the_folder_still_loads(tmp_path: Path, command: str) -> None:
    source, rows = write(tmp_path, command)
    assert main([command, str(source), "-o", str(tmp_path / "out"), "--license", "cc-by-sa-4.0"]) == 0
    card = DatasetCard.load(tmp_path / "out" / "README.md", ignore_metadata_errors=False)
    assert set(card.data.to_dict()) == {"license", "configs"} and card.data.license == "cc-by-sa-4.0"
    assert f"# {source.name}" in card.text and str(tmp_path) not in card.text
    assert all(f"| {split} | {count} |" in card.text for split, count in rows.items())
    loaded = load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {split: len(loaded[split]) for split in loaded} == rows


@pytest.mark.parametrize(("command", "license"), [("paraphrases", "CC BY 4.0"), ("conversations", "mit\n")])
def test_an_invalid_license_is_refused_before_anything_is_written(
    tmp_path: Path, command: str, license: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, _ = write(tmp_path, "paraphrases")
    assert main([command, str(source), "-o", str(tmp_path / "out"), f"--license={license}"]) == 2
    shown = license.replace("\n", " ")  # a message is one line
    assert f"--license is '{shown}'; expected a license id of the Hub" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def test_files_of_one_split_are_counted_together(tmp_path: Path) -> None:
    for number, texts in enumerate((["One.", "Two."], ["Three."])):
        Dataset.from_dict({"text": texts}).to_parquet(tmp_path / f"train-0000{number}-of-00002.parquet")
    write_dataset_card(tmp_path, ["mit", "cc0-1.0"], "somebody/texts")
    card = DatasetCard.load(tmp_path / "README.md")
    assert "| train | 3 |" in card.text and card.data.license == ["mit", "cc0-1.0"] == read_licenses(
        tmp_path / "README.md"
    )


@pytest.mark.parametrize(
    "names", [("train", "validation_matched", "validation_mismatched"), ("test2016", "test2017", "train", "validation")]
)
def test_load_dataset_gives_the_splits_that_the_files_are_named_after(tmp_path: Path, names: tuple[str, ...]) -> None:
    for rows, split in enumerate(names, start=1):
        Dataset.from_dict({"text": ["A."] * rows}).to_parquet(tmp_path / f"{split}-00000-of-00001.parquet")
    write_dataset_card(tmp_path, [], "somebody/texts")
    loaded = load_dataset(str(tmp_path), cache_dir=str(tmp_path / "cache"))
    assert {split: len(loaded[split]) for split in loaded} == {split: rows for rows, split in enumerate(names, start=1)}
