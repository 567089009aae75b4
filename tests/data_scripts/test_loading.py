import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.loading import load_columns, load_pairs
from data_scripts.schemas import PAIR_SCHEMA, PAIR_TEXTS, features, text_fields
from modeling_convsim.files.errors import InputError

WITHOUT_CONTEXT = pa.schema(text_fields(*PAIR_TEXTS))


def write_folder(folder, text="how are you") -> None:
    folder.mkdir()
    for split in ("train", "validation", "test"):
        rows = {"input": [text], "response": ["fine"], "thread": ["t"], "source": ["s"]}
        pq.write_table(pa.table(rows), folder / f"{split}-00000-of-00001.parquet")
    (folder / "report.json").write_text("{}")


def test_load_pairs_casts_to_strings_and_drops_other_columns(tmp_path):
    rows = {"score": [1], "source": ["s"], "thread": [7], "response": ["fine"], "input": ["how are you"]}
    pq.write_table(pa.table(rows), tmp_path / "train-00000-of-00001.parquet")
    train = load_pairs(str(tmp_path))["train"]
    assert train.features == features(WITHOUT_CONTEXT)
    assert train[0] == {"input": "how are you", "response": "fine", "thread": "7", "source": "s"}


@pytest.mark.parametrize("context", [pa.list_(pa.string()), pa.large_list(pa.large_string())])
def test_load_pairs_gives_earlier_turns_of_a_dataset_that_has_them(tmp_path, context):
    write_folder(tmp_path / "pairs")
    file = tmp_path / "pairs" / "train-00000-of-00001.parquet"
    before = pq.read_table(file)
    pq.write_table(before.append_column("context", pa.array([["so", "hi"]], context)), file)
    assert load_pairs(str(file))["train"].features == features(PAIR_SCHEMA)
    assert load_pairs(str(file))["train"]["context"][:] == [["so", "hi"]]


def test_load_pairs_refuses_other_columns(tmp_path):
    pq.write_table(pa.table({"question": ["?"]}), tmp_path / "train-00000-of-00001.parquet")
    with pytest.raises(InputError, match=r"has no column input, .*found question; `convsim data conv"):
        load_pairs(str(tmp_path))


@pytest.mark.parametrize("name", ["notes.md", "train-00000-of-00001.parquet"])
def test_load_pairs_refuses_a_folder_in_which_nothing_can_be_read(tmp_path, name):
    (tmp_path / name).write_text("not Parquet")
    with pytest.raises(InputError, match="cannot be read as a dataset with input, response"):
        load_pairs(str(tmp_path))


def test_a_table_is_not_read_as_pairs(tmp_path):
    (tmp_path / "chats.csv").write_text("input,response\nHello.,Hi.\n")
    with pytest.raises(InputError, match=r"chats.csv: not a Parquet file; `convsim data conversations` creates pairs"):
        load_pairs(str(tmp_path / "chats.csv"))


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    write_folder(tmp_path / "pairs")
    monkeypatch.chdir(tmp_path / "pairs")
    with pytest.raises(InputError, match=r"^'': empty name; expected a folder$"):
        load_pairs("")


@pytest.mark.parametrize("has_data", [True, False])
def test_the_folder_of_a_public_dataset_is_built_by_its_name(has_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if has_data:  # without data/, the source could be a Hub id
        (tmp_path / "data").mkdir()
    with pytest.raises(InputError) as raised:
        load_columns("data/captions/coco", ("group",))
    remedy = "no such folder; build it: convsim data download captions/coco"
    assert str(raised.value) == f"data/captions/coco: {remedy}"
