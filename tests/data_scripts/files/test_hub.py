import errno
from types import SimpleNamespace

import datasets
import pytest
from datasets import Dataset, DatasetDict
from huggingface_hub.errors import HfHubHTTPError

from data_scripts.files.datasets import load_columns
from data_scripts.files.errors import InputError
from data_scripts.files.hub import assign_splits, rename_splits
from data_scripts.files.hub_errors import hub_errors
from data_scripts.files.hub_names import HubName, is_hub_name, parse_hub_name


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("me/chats", HubName("me/chats", "", "")),
        ("me/chats:en", HubName("me/chats", "en", "")),
        ("me/chats@refs/convert/parquet", HubName("me/chats", "", "refs/convert/parquet")),
        ("me/chats:en@v1:2", HubName("me/chats", "en", "v1:2")),
        ("me/chats:data/*/a.parquet@v1", HubName("me/chats", "data/*/a.parquet", "v1")),
    ],
)
def test_a_source_has_a_repository_a_configuration_and_a_revision(source, name):
    assert parse_hub_name(source) == name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("me/chats", True),
        ("me/chats:data/*.tsv@main", True),
        ("me/chats.v2", True),
        ("me/chats.tsv", False),  # a file that is not there
        ("chats", False),
        ("./me/chats", False),
        ("a/b/chats", False),
        ("here/chats", False),
    ],
)
def test_an_input_of_a_command_that_reads_files_is_a_hub_id_only_if_it_cannot_be_a_file(
    source, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert is_hub_name(source, (".tsv",)) is expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["train", "dev", "test"], ["train", "validation", "test"]),
        (["val_matched", "devices"], ["validation_matched", "devices"]),
        (["dev", "validation"], ["dev", "validation"]),
    ],
)
def test_splits_for_development_are_validation(names, expected):
    assert list(rename_splits(dict.fromkeys(names))) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["train", "restval", "val", "test"], {"train": [0, 1], "validation": [2], "test": [3]}),
        (["DEV", "train"], {"validation": [0], "train": [1]}),
        (["train", "3"], {"all": [0, 1]}),
        (["train", None], {"all": [0, 1]}),
    ],
)
def test_a_column_assigns_rows_to_splits_if_all_its_values_name_one(values, expected):
    rows = Dataset.from_dict({"split": values, "row": range(len(values))})
    assigned = assign_splits(DatasetDict({"all": rows}))
    assert {name: split["row"][:] for name, split in assigned.items()} == expected


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            HfHubHTTPError("429", response=SimpleNamespace(status_code=429, headers={}, request=None)),
            "me/chats: the Hub is busy or limits the rate of requests (429)",
        ),
        (ConnectionError("Couldn't reach 'me/chats'"), "the Hub cannot be reached (Couldn't reach 'me/chats'); check"),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot be written (No space left on device); free some"),
        (ValueError("a wrong type"), "me/chats: it cannot be read as a dataset (a wrong type)"),
    ],
)
def test_the_message_of_an_error_of_the_hub_names_its_cause(error, message, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    with pytest.raises(InputError) as raised, hub_errors("me/chats"):
        raise RuntimeError("failed") from error  # as the libraries do
    assert message in str(raised.value)


def test_a_dataset_that_was_not_loaded_before_is_an_error_offline(monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"me/chats: no such file or folder here, .* because HF_HUB_OFFLINE is set"):
        load_columns("me/chats", ("text",))
