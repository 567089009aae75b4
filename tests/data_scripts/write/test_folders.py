import json
from pathlib import Path

import pytest

from data_scripts.errors import InputError
from data_scripts.write.folders import new_folder


def write_folder(folder: Path) -> None:
    folder.mkdir()
    (folder / "train-00000-of-00001.parquet").write_text("rows")
    (folder / "report.json").write_text("{}")


def test_a_new_folder_is_renamed_only_when_it_is_complete(tmp_path):
    output = tmp_path / "deep" / "pairs"
    with new_folder(output, overwrite=False) as (folder, scratch):
        (folder / "report.json").write_text("{}")
        (scratch / "spill").write_text("")
        assert not output.exists()
    assert [file.name for file in output.iterdir()] == ["report.json"]
    assert [file.name for file in output.parent.iterdir()] == ["pairs"]


def test_a_failure_leaves_only_the_old_folder(tmp_path):
    write_folder(tmp_path / "pairs")
    before = sorted(file.read_bytes() for file in (tmp_path / "pairs").iterdir())
    with pytest.raises(RuntimeError), new_folder(tmp_path / "pairs", overwrite=True) as (folder, _):
        (folder / "half").write_text("half")
        raise RuntimeError
    assert sorted(file.read_bytes() for file in (tmp_path / "pairs").iterdir()) == before
    assert [file.name for file in tmp_path.iterdir()] == ["pairs"]


def test_files_of_an_interrupted_run_are_removed(tmp_path):
    (tmp_path / "pairs.partial" / "pairs").mkdir(parents=True)
    (tmp_path / "pairs.partial" / "pairs" / "half.parquet").write_text("half")
    with new_folder(tmp_path / "pairs", overwrite=False) as (folder, _):
        (folder / "report.json").write_text("{}")
    assert [file.name for file in (tmp_path / "pairs").iterdir()] == ["report.json"]


def test_a_folder_of_pairs_is_replaced_only_with_overwrite(tmp_path):
    write_folder(tmp_path / "pairs")
    with pytest.raises(InputError, match="exists already; name another folder, or replace it with --overwrite"):
        new_folder(tmp_path / "pairs", overwrite=False).__enter__()
    with new_folder(tmp_path / "pairs", overwrite=True) as (folder, _):
        (folder / "report.json").write_text(json.dumps({"new": 1}))
    assert json.loads((tmp_path / "pairs" / "report.json").read_text()) == {"new": 1}


def test_a_folder_of_other_files_is_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not a dataset that a command wrote"):
        new_folder(tmp_path, overwrite=True).__enter__()
    assert (tmp_path / "thesis.tex").exists()
