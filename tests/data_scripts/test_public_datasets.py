"""The catalog of public datasets is valid, and has every dataset that presets and plans name."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from data_scripts.commands import find_commands
from data_scripts.commands.download import names_in_preset
from data_scripts.public_datasets import PublicDataset, how_to_build, public_datasets, public_name
from modeling_convsim.files.hub import check_license, check_repository_id

ROOT = Path(__file__).parents[2]
DATASETS = list(public_datasets().values())
# Folders that other commands write, in presets and documents.
OWN = ("data/sample", "data/chats", "data/comments", "data/mine")


def test_every_dataset_has_a_command_and_one_kind_of_source() -> None:
    for dataset in DATASETS:
        assert dataset.command in find_commands(), dataset.name
        assert bool(dataset.hub) + bool(dataset.files) == (dataset.name != "sample"), dataset.name
        assert dataset.megabytes is None or dataset.megabytes > 0, dataset.name
        if dataset.license:
            check_license(dataset.name, dataset.license)


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
def test_every_address_is_well_formed(dataset: PublicDataset) -> None:
    for source in dataset.hub:
        name, _, _ = source.partition("@")
        check_repository_id(name.partition(":")[0])
    downloads = [(file.folder, file.local_name) for file in dataset.files]
    assert len(set(downloads)) == len(downloads)
    for file in dataset.files:
        address = urlsplit(file.address)
        assert address.scheme in ("http", "https") and address.netloc and address.path.strip("/"), file
        assert re.fullmatch("([0-9a-f]{64})?", file.sha256), file
        assert not file.members or file.local_name.endswith(".zip"), file
        assert not (file.name and len(file.members) > 1), file
        if address.netloc == "raw.githubusercontent.com":  # a branch would change
            assert re.match("/[^/]+/[^/]+/[0-9a-f]{40}/", address.path) and file.sha256, file


@pytest.mark.parametrize("path", sorted((ROOT / "trainer").glob("*/*.yaml")), ids=lambda path: path.stem)
def test_every_dataset_of_a_preset_or_plan_is_in_the_catalog(path: Path) -> None:
    folders = re.findall(r"\bdata/[\w./-]+", str(yaml.safe_load(path.read_text(encoding="utf-8"))))
    named = (ROOT / "model_cards" / "base" / "DATA.md").read_text() if path.stem.startswith("base") else ""
    unknown = [folder for folder in folders if not (public_name(folder) or folder.startswith(OWN))]
    assert [folder for folder in unknown if f"`{folder.removeprefix('data/')}`" not in named] == []


def test_download_builds_all_datasets_of_a_preset_that_extends_another() -> None:
    presets = ROOT / "trainer" / "presets"
    names = names_in_preset(presets / "best_transformer.yaml")
    assert names == names_in_preset(presets / "best_dan.yaml")
    preset = yaml.safe_load((presets / "best_dan.yaml").read_text(encoding="utf-8"))
    values = [each for value in preset.values() for each in (value if isinstance(value, list) else [value])]
    assert {f"data/{name}" for name in names} == {each for each in values if str(each).startswith("data/")}


def test_a_folder_in_data_is_a_public_dataset_by_its_name() -> None:
    assert public_name("data/snli") == public_name(Path("data/snli/")) == "snli"
    assert public_name("data/captions/coco") == "captions/coco"
    assert [public_name(path) for path in ("data", "snli", "mine/snli", "data/mine", "", "/data/snli")] == [None] * 6
    assert how_to_build("data/captions/coco") == "; build it: convsim data download captions/coco"
    assert how_to_build("data/mine") == ""
