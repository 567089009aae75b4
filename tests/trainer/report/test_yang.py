"""The tables of Yang et al. over fake encoders: published rows as published, ours against NumPy."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.trainer.evaluation.fake_encoder import FakeEncoder, Multitask
from tests.trainer.evaluation.invented_data import evaluation_data
from tests.trainer.report.folders import write_run
from tests.trainer.report.reading import shows, table_with
from trainer.data.datasets import EvaluationData
from trainer.report import measurements as module
from trainer.report.__main__ import PUBLISHED
from trainer.report.measurements import Measurements
from trainer.report.page import Page
from trainer.report.plan import BOTH, WORDS
from trainer.report.systems import System
from trainer.report.yang import GENRES, write_yang

SOURCES = {name: f"data/{name}" for name in ("stsb", "snli", "cqa", "sts")} | {"pairs": ["data/pairs"]}
RUN = {"rows": {"pairs": 1000, "snli": 321}}


ENCODERS = {
    "dan": FakeEncoder(size=8),
    "dan_snli": Multitask({f"test question {i}": f"test answer {i}" for i in range(130)}, size=9),
    "words": FakeEncoder(size=10),
}


@pytest.fixture(scope="module")
def published() -> Any:
    return yaml.safe_load(PUBLISHED.read_text("utf-8"))["yang2018"]


@pytest.fixture(scope="module")
def data() -> EvaluationData:
    return evaluation_data()


def point(pearson: float) -> dict[str, Any]:
    return {"pearson": pearson, "spearman": 0.0}


def shares(folder: Path) -> list[System]:
    """Runs with results that differ in SNLI's share."""
    systems = []
    for value in ("1", "0.1", "0", "0.5"):
        share = float(value)
        scores = {
            split: {"all": point(lift + share / 10), "captions": point(lift + share / 5)}
            for split, lift in (("dev", 0.5), ("test", 0.4))
        }
        run = {"rows": {"pairs": 1000} | ({"snli": round(300 * share)} if share else {})}
        settings, results = {"model_type": "dan", "stsb": SOURCES["stsb"]}, {"stsb": scores, "run": run}
        varied = ("snli_share", value)
        systems.append(write_run(folder / value, "", "", settings, results, varied=varied))
    return systems


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, data: EvaluationData, published: Any) -> Iterator[Path]:
    """The report's folder."""
    folder = tmp_path_factory.mktemp("yang")
    systems = [
        write_run(folder / "dan", results={"run": RUN}),
        write_run(folder / "dan_snli", f"DAN, {BOTH}", BOTH, results={"run": RUN}),
        write_run(folder / "words", "word2vec skip-gram (books)", WORDS, method="skip_gram"),
        *shares(folder / "snli_share"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_encoder", lambda model: ENCODERS[Path(model).parent.name])
        page = Page(folder / "report")
        write_yang(page, Measurements(data, SOURCES, folder / "measured", systems), published)
        page.save()
        yield page.folder


@pytest.fixture(scope="module")
def numbers(report: Path) -> dict[str, Any]:
    return json.loads((report / "report.json").read_text("utf-8"))


def angles(name: str, first: list[str], second: list[str]) -> np.ndarray:
    """-arccos of the cosines of an encoder's vectors, in float64."""
    u, v = (ENCODERS[name].encode(texts).astype(np.float64) for texts in (first, second))
    return -np.arccos((u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1))


def test_every_published_row_has_its_values(report: Path, published: Any) -> None:
    percent = {"table1": ["P@1"], "table2": ["accuracy"], "table6": ["dev", "test 2017"]}
    for name, titles in percent.items():
        rows = table_with(report, "system", "run", *titles)
        for system, values in published[name]["rows"].items():
            (row,) = [row for row in rows if row[0] == f"the paper: {system}"]
            shown = [cell for cell in row[2:] if cell]
            assert len(shown) == len(values) and all(map(shows, shown, np.array(values) / 100))
    parts = [published["table3"][part] for part in ("rows", "neural", "mixed")]
    rows = table_with(report, "system", "run", "dev", "test")
    for system, values in (item for part in parts for item in part.items()):
        (row,) = [row for row in rows if row[0] == f"the paper: {system}"]
        assert [float(cell) for cell in row[2:]] == values
    rows = table_with(report, "system", "run", "all", "captions")
    for system, splits in published["table4"]["rows"].items():
        (row,) = [row for row in rows if row[0] == f"the paper: {system}"]
        assert [float(cell) for cell in row[2:]] == splits["test"]


def test_markdown_shows_the_numbers_of_json(report: Path, numbers: dict[str, Any]) -> None:
    places = {
        "table1": (("P@1",), lambda row: [row[name] for name in ("p_at_1", "p_at_3", "p_at_10")]),
        "table2": (("accuracy",), lambda row: [row["accuracy"], row["training_pairs"]]),
        "table3": (("dev", "test"), lambda row: [row[split]["all"]["pearson"] for split in ("dev", "test")]),
        "table6": (("dev", "test 2017"), lambda row: [row[split]["map"] for split in ("dev", "test2017")]),
    }
    for name, (titles, values) in places.items():
        shown = [row for row in table_with(report, "system", "run", *titles) if not row[0].startswith("the paper:")]
        assert [row[:2] for row in shown] == [[row["system"], row["run"]] for row in numbers[name]] and shown
        for cells, row in zip(shown, numbers[name], strict=True):
            assert len(cells) == 2 + len(values(row)) and all(map(shows, cells[2:], values(row)))
    genres = table_with(report, "system", "run", "all", "captions")[-len(numbers["table3"]) :]
    for cells, row in zip(genres, numbers["table3"], strict=True):
        assert cells[1] == row["run"]
        assert all(shows(cell, row["test"][name]["pearson"]) for cell, name in zip(cells[2:], GENRES, strict=True))


def test_the_papers_examples_have_the_angle_of_their_vectors(report: Path, numbers: dict, published: Any) -> None:
    pairs = published["table5"]["rows"]
    sides = [[pair[side] for pair in pairs] for side in ("sentence1", "sentence2")]
    assert list(numbers["table5"]) == ["dan", "dan_snli"]  # sentence encoders only
    for name, found in numbers["table5"].items():
        np.testing.assert_allclose(found, angles(name, *sides), atol=1e-5)
    for cells, pair, ours in zip(table_with(report, "pair"), pairs, numbers["table5"]["dan"], strict=True):
        assert cells[0] == f"{pair['sentence1']} / {pair['sentence2']}"
        assert all(map(shows, cells[1:4], (pair["label"], pair["score"], ours)))


def test_community_questions_have_the_search_engine_by_hand(numbers: dict[str, Any]) -> None:
    rows = {row["system"]: row for row in numbers["table6"]}
    assert {row["run"] for row in numbers["table6"]} == {*ENCODERS, ""} and "BM25" in rows
    # By rank the first query's relevant ones are at 2 and 4, the second's at 1: (1/2 + 2/4) / 2 and 1.
    for split in ("dev", "test2017"):
        assert rows["search engine's order"][split]["map"] == pytest.approx((0.5 + 1) / 2)


def test_shares_of_snli_are_in_order(report: Path, numbers: dict[str, Any]) -> None:
    assert [(row["share"], row["training_pairs"]) for row in numbers["figure8"]] == [
        (0.0, 0), (0.1, 30), (0.5, 150), (1.0, 300),
    ]  # fmt: skip
    for cells, row in zip(table_with(report, "share", "pairs"), numbers["figure8"], strict=True):
        share = row["share"]
        expected = [0.5 + share / 10, 0.5 + share / 5, 0.4 + share / 10, 0.4 + share / 5]
        assert all(map(shows, cells, [share, row["training_pairs"], *expected]))
    assert (report / "figure8.png").is_file() and (report / "figure7.png").is_file()
