"""The tables of Yang et al. over fake encoders: published rows as published, ours against NumPy."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from datasets import DatasetDict, concatenate_datasets

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import evaluation_data, snli
from tests.trainer.report.folders import write_run, write_sweep
from tests.trainer.report.reading import shows, table_with
from trainer.data.datasets import EvaluationData
from trainer.report import measurements as module
from trainer.report.__main__ import PUBLISHED
from trainer.report.measurements import Measurements
from trainer.report.page import Page
from trainer.report.systems import open_folders, open_system
from trainer.report.yang import GENRES, write_yang

SOURCES = {name: f"data/{name}" for name in ("stsb", "snli", "cqa", "sts")} | {"pairs": ["data/pairs"]}
CONVERSATIONS = {"tasks": {"response_prediction": 1}}
BOTH = {"tasks": {"response_prediction": 0.8, "snli": 0.2}}
WORDS = {"method": "skip_gram", "sif": False, "sources": ["data/books"]}
RUN = {"rows": {"pairs": 1000, "snli": 321}}


class Multitask(FakeEncoder):
    """Knows every answer; always predicts a contradiction."""

    def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
        return np.array([[0.0, 1.0, 2.0]] * len(list(premises)))


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
    """The evaluation datasets; SNLI trains on some of STS-B: a dev pair in the other order, and sentences of test."""
    made = evaluation_data()
    dev, test, train = made["stsb"]["validation"][3], made["stsb"]["test"], snli("train")
    more = [{"premise": dev["sentence2"].upper(), "hypothesis": dev["sentence1"], "label": 0}]
    more += [{"premise": test[place]["sentence1"], "hypothesis": "something else", "label": 1} for place in (0, 7)]
    leaky = concatenate_datasets([train, train.from_list(more, features=train.features)])
    return {**made, "snli": DatasetDict({**made["snli"], "train": leaky})}


def point(pearson: float) -> dict[str, Any]:
    return {"pearson": pearson, "spearman": 0.0}


def shares(folder: Path) -> Path:
    """A sweep of SNLI's share whose runs have results; the base run has all of it."""
    rows = [{"run": "base", "varied": {}}]
    rows += [{"run": share, "varied": {"snli_share": share}} for share in ("0.1", "0", "0.5")]
    for row in rows:
        share = 1.0 if row["run"] == "base" else float(str(row["run"]))
        scores = {
            split: {"all": point(lift + share / 10), "captions": point(lift + share / 5)}
            for split, lift in (("dev", 0.5), ("test", 0.4))
        }
        run = {"rows": {"pairs": 1000} | ({"snli": round(300 * share)} if share else {})}
        settings = BOTH | {"snli_share": share, "stsb": SOURCES["stsb"]}
        write_run(folder / str(row["run"]), settings, results={"stsb": scores, "run": run})
    return write_sweep(folder, rows)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, data: EvaluationData, published: Any) -> Iterator[Path]:
    """The report's folder."""
    folder = tmp_path_factory.mktemp("yang")
    write_run(folder / "dan", CONVERSATIONS, results={"run": RUN})
    write_run(folder / "dan_snli", BOTH, results={"run": RUN})
    write_run(folder / "words", WORDS, {"model_type": "convsim_cbow"})
    systems, studies = open_folders([folder / name for name in (*ENCODERS, shares(folder / "snli_share").name)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_encoder", lambda model: ENCODERS[Path(model).parent.name])
        page = Page(folder / "report")
        write_yang(page, Measurements(data, SOURCES, folder / "measured", systems, studies), published)
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


def test_shares_of_snli_are_in_order_with_the_base_run(report: Path, numbers: dict[str, Any]) -> None:
    assert [(row["share"], row["training_pairs"]) for row in numbers["figure8"]] == [
        (0.0, 0), (0.1, 30), (0.5, 150), (1.0, 300),
    ]  # fmt: skip
    for cells, row in zip(table_with(report, "share", "pairs"), numbers["figure8"], strict=True):
        share = row["share"]
        expected = [0.5 + share / 10, 0.5 + share / 5, 0.4 + share / 10, 0.4 + share / 5]
        assert all(map(shows, cells, [share, row["training_pairs"], *expected]))
    assert (report / "figure8.png").is_file() and (report / "figure7.png").is_file()


def test_overlap_with_snli_ignores_order_and_case(report: Path, numbers: dict[str, Any]) -> None:
    assert numbers["overlap"] == {
        "training_pairs": 33,
        "dev": {"pairs": 1, "sentences": 1, "of": 30},
        "test": {"pairs": 0, "sentences": 2, "of": 30},
    }
    assert table_with(report, "split") == [["dev", "4", "1", "1", "30"], ["test", "5", "0", "2", "30"]]


def test_attention_is_binned_by_distance_beside_uniform(tmp_path, data, published, monkeypatch):
    first, uniform = [0.1, 0.2, 0.3, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01, 0.1, 0.05], [0.5, 0.25, 0.25]
    read = []
    measured = {"layers": [first, uniform], "uniform": uniform}
    monkeypatch.setattr(module, "load_encoder", lambda model: ENCODERS["dan"])
    monkeypatch.setattr(module, "measure_attention", lambda encoder, texts: read.extend(texts) or measured)
    system = open_system(write_run(tmp_path / "dan", {"tasks": {"captions": 1}}, {"model_type": "convsim_transformer"}))
    page = Page(tmp_path / "report")
    write_yang(page, Measurements({"stsb": data["stsb"]}, SOURCES, tmp_path / "measured", [system]), published)
    page.save()
    rows = table_with(page.folder, "system", "run", "layer")
    assert [row[2] for row in rows] == ["1", "2", "uniform"]
    expected = [0.1, 0.2, 0.3, 0.15, 0.1, 0.15, sum(place * share for place, share in enumerate(first))]
    assert all(map(shows, rows[0][3:], expected)) and len(rows[0]) == 10
    assert all(map(shows, rows[2][3:], [0.5, 0.25, 0.25, 0, 0, 0, 0.75]))
    assert page.values["attention"] == {"dan": measured}
    dev = data["stsb"]["validation"]
    assert sorted(read) == sorted({*dev["sentence1"], *dev["sentence2"]})
