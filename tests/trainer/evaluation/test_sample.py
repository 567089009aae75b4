"""The shipped sample's part of results.json, and what is printed beside it."""

from pathlib import Path

import numpy as np
import pytest

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import pairs, stsb
from trainer.evaluation.sample import FIGURE_1, QUERIES, evaluate_sample

OLD, AGE, HOW = FIGURE_1


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the sample's layout."""
    folder = tmp_path_factory.mktemp("sample")
    for split in ("train", "test"):
        pairs(split).to_parquet(folder / f"{split}-00000-of-00001.parquet")
        (folder / "sts").mkdir(exist_ok=True)
        stsb(split).to_parquet(folder / "sts" / f"{split}-00000-of-00001.parquet")
    return folder


@pytest.mark.parametrize(("answers", "holds"), [({OLD: AGE}, True), ({OLD: HOW}, False)])
def test_figure_1_holds_if_the_meaning_is_closer_than_the_words(folder, capsys, answers, holds):
    figure = evaluate_sample(FakeEncoder(answers), folder)["figure_1"]
    other = float(np.prod(FakeEncoder().encode([AGE, HOW]).astype(float), axis=0).sum())
    assert figure["holds"] is holds
    assert figure == {
        "old_age": pytest.approx(1 if holds else other),
        "old_how": pytest.approx(other if holds else 1),
        "holds": holds,
    }
    assert (": it is NOT\n" in capsys.readouterr().out) is not holds


def test_best_reply_and_nearest_sentence_are_printed_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate_sample(FakeEncoder({QUERIES[0]: "train answer 3", QUERIES[1]: "train question 5"}), folder)
    lines = capsys.readouterr().out.splitlines()
    replies = lines.index("  best replies", lines.index(QUERIES[0]))
    assert lines[replies + 1].split(maxsplit=1) == ["1.000", "train answer 3"]
    nearest = lines.index("  nearest sentences", lines.index(QUERIES[1]))
    assert lines[nearest + 1].split(maxsplit=1) == ["1.000", "train question 5"]
