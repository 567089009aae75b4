"""The page: the contents of its Markdown, its JSON and its folder."""

import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from trainer.report.page import Page, format_score


def written(page: Page) -> tuple[str, dict]:
    page.save()
    return (page.folder / "README.md").read_text("utf-8"), json.loads((page.folder / "report.json").read_text("utf-8"))


def test_headings_paragraphs_and_tables_are_in_order_and_json_has_the_values(tmp_path: Path) -> None:
    page = Page(tmp_path / "new" / "report")
    page.heading(2, "Scores")
    page.text("One.", "Two.")
    page.table("first", ["system", "r", "pairs"], [["ours", 0.51249, 12345], ["theirs", None, 7]], {"ours": 0.51249})
    markdown, values = written(page)
    assert markdown.splitlines() == [
        "## Scores", "", "One. Two.", "", "| system | r | pairs |", "| --- | --- | --- |", "| ours | .512 | 12,345 |",
        "| theirs |  | 7 |",
    ]  # fmt: skip
    assert values == {"first": {"ours": 0.51249}}


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


def test_a_plot_is_a_png_that_the_page_shows_with_its_caption(tmp_path: Path) -> None:
    page = Page(tmp_path)
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([1, 2], [3, 4])
    page.plot("curve", figure, "What it shows")
    markdown, _ = written(page)
    assert markdown.splitlines()[:3] == ["![What it shows](curve.png)", "", "*What it shows*"]
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_score_has_its_interval_in_brackets_and_the_other_after_a_slash() -> None:
    scores = {"pearson": 0.75, "pearson_interval": [0.7049, 0.8], "spearman": -0.1, "map": None}
    assert format_score(scores, "pearson") == ".750 [.705, .800]"
    assert format_score(scores, "pearson", "spearman") == ".750 [.705, .800] / -.100"
    assert format_score(scores, "spearman") == "-.100"
    assert (
        format_score(scores, "map")
        == format_score(scores, "accuracy")
        == format_score(None, "pearson")
        == format_score({}, "pearson")
        == ""
    )
