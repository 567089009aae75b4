"""Plain text on the Hub has no columns before its first rows are read; `datasets` reads a folder in the same way."""

from pathlib import Path

import datasets
import pytest

from data_scripts.files.hub import HubDataset


def test_lines_of_text_are_rows_of_the_column_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    (tmp_path / "books.txt").write_text("It rained.\nWe stayed at home.\n")
    dataset = HubDataset(str(tmp_path))
    assert list(dataset.features) == ["text"]
    (rows,) = dataset.stream(["text"]).values()
    assert [row["text"] for row in rows] == ["It rained.", "We stayed at home."]
