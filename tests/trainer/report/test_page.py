"""The page: the contents of its Markdown, its JSON and its folder."""

import json
from pathlib import Path

import pytest

from trainer.report.page import Page, format_score


def written(page: Page) -> tuple[str, dict]:
    page.save()
    return (page.folder / "README.md").read_text("utf-8"), json.loads((page.folder / "report.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (0.0, ".000"), (-0.5, "-.500"), (1.0, "1.000"), (10.0504, "10.050"), (-1.25, "-1.250"), (0.9996, "1.000"),
        (float("nan"), "nan"), (1234567, "1,234,567"), (None, ""), ("a|b", "a\\|b"), ("0.5", "0.5"),
    ],
)  # fmt: skip
def test_a_cell_is_a_float_with_three_decimals_a_count_or_text(tmp_path: Path, cell, text: str) -> None:
    page = Page(tmp_path)
    page.table("one", ["x"], [[cell]], None)
    assert written(page)[0].splitlines()[2] == f"| {text} |"


def test_a_score_has_its_interval_in_brackets_and_the_other_after_a_slash() -> None:
    scores = {"pearson": 0.75, "pearson_interval": [0.7049, 0.8], "spearman": -0.1, "map": None}
    assert format_score(scores, "pearson") == ".750 [.705, .800]"
    assert format_score(scores, "pearson", "spearman") == ".750 [.705, .800] / -.100"
    assert format_score(scores, "spearman") == "-.100"
    missing = [(scores, "map"), (scores, "accuracy"), (None, "pearson"), ({}, "pearson")]
    assert [format_score(*each) for each in missing] == [""] * 4
