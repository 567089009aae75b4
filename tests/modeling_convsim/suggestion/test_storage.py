"""An index replaces an index and nothing else."""

import errno
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from modeling_convsim.suggestion import storage
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.probability import Curve
from modeling_convsim.suggestion.ratings import HeldOut, Rating, Shown, add_rating, read_ratings
from modeling_convsim.suggestion.storage import IndexFile, IndexSettings, read_index, write_index

FILE = IndexFile("a/model", "0" * 64, 1, IndexSettings())


def write(folder: Path, text: str, file: IndexFile = FILE, review: Sequence[HeldOut] = ()) -> None:
    write_index(folder, file, Replies([text], np.array([1]), None), np.zeros((1, 2)), None, review)


def text_of(folder: Path) -> str:
    return read_index(folder)[1].texts[0]


@pytest.fixture
def index(tmp_path) -> Path:
    write(tmp_path / "index", "old")
    return tmp_path / "index"


@pytest.mark.parametrize("content", ["years of work", json.dumps({"model": "gpt", "replies": 3})])
def test_a_user_s_folder_with_an_index_json_is_refused(tmp_path, content):
    (tmp_path / "index.json").write_text(content)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="exists and is not an index"):
        write(tmp_path, "new")
    assert (tmp_path / "index.json").read_text() == content and (tmp_path / "thesis.tex").exists()


def test_a_file_of_the_user_s_beside_an_index_is_not_lost(index):
    (index / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"index holds thesis.tex beside an index: move it away"):
        write(index, "new")
    assert text_of(index) == "old" and (index / "thesis.tex").exists()


def test_a_full_disk_is_one_line_and_keeps_the_old_index(index, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(storage, "write_arrays", fail)
    with pytest.raises(ValueError, match=r"index: cannot be written \(No space left on device\); free some disk space"):
        write(index, "new")
    assert text_of(index) == "old" and [path.name for path in index.parent.iterdir()] == ["index"]


def rate_often(index: Path) -> None:
    for number in range(200):
        add_rating(index / "ratings.jsonl", Rating(f"{number}", "b", "no"))


def test_no_rating_is_lost_while_an_index_is_replaced(index):
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        rating = pool.submit(rate_often, index)
        while wait([rating], 0.1).not_done:
            write(index, "new")
    assert rating.exception() is None and len(read_ratings(index / "ratings.jsonl")) == 200


def test_ratings_stay_with_an_index_and_have_scores_as_long_as_these_are_the_same(index):
    add_rating(index / "ratings.jsonl", Rating("a", "b", "send", ["x"], 0.5))
    add_rating(index / "ratings.jsonl", Rating("a", "b", "no", [], 0.7))  # without the earlier turn
    settings = IndexSettings(curve=Curve(0.1, 0.2, True, []))
    for file, scores in (
        (replace(FILE, settings=settings, replies=1), [0.5, 0.7]),
        (replace(FILE, weights_sha256="1" * 64), [0.4, None]),
        (replace(FILE, weights_sha256="1" * 64, settings=IndexSettings(consensus_weight=1.0)), [0.3, None]),
    ):
        write(index, "new", file, [HeldOut("a", ["x"], "real", [Shown("c", 0.9), Shown("b", scores[0])])])
        ratings = read_ratings(index / "ratings.jsonl")
        assert [each.score for each in ratings] == scores and [each.rating for each in ratings] == ["send", "no"]
    (index / "ratings.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"ratings.jsonl:1: "):
        write(index, "newer")
    assert text_of(index) == "new" and (index / "ratings.jsonl").read_text() == "{}\n"


def test_an_index_of_another_format_is_refused(index):
    (index / "index.json").write_text(json.dumps({"format": 4}))
    with pytest.raises(ValueError, match="written in format 4, but this version reads format 6: rebuild it"):
        read_index(index)


def test_an_index_whose_files_do_not_fit_together_is_refused(index):
    values = json.loads((index / "index.json").read_text())
    (index / "index.json").write_text(json.dumps(values | {"replies": 2}))
    with pytest.raises(ValueError, match=r"\(1 rows of 1 replies and 1 vectors, expected 2 replies\): rebuild it"):
        read_index(index)
    (index / "index.json").write_text(json.dumps(values))
    np.save(index / "vectors.npy", np.zeros((2, 2), np.float16))
    with pytest.raises(ValueError, match="1 rows of 1 replies and 2 vectors"):
        read_index(index)


def test_an_index_of_the_format_before_is_opened(tmp_path):
    """As `convsim adapt` wrote it."""
    table = {"pairs": 30, "table": [{"threshold": 0.5, "precision": 0.9, "coverage": 1.0}]}
    settings = {"duplicate_cosine": 0.8, "by_messages": True, "message_weight": 0.5, "consensus_weight": 1.0}
    settings |= {"calibration": table, "examples": ["hi"]}
    values = {"format": 5, "model": "a/model", "weights_sha256": "0" * 64, "replies": 1, "settings": settings}
    (tmp_path / "index.json").write_text(json.dumps(values))
    lines = [{"text": "yes", "count": 2, "message": message} for message in ("ok?", "so?")]
    (tmp_path / "replies.jsonl").write_text("\n".join(map(json.dumps, lines)))
    np.save(tmp_path / "vectors.npy", np.ones((2, 4), np.float16))
    add_rating(tmp_path / "ratings.jsonl", Rating("a", "yes", "send", [], 0.5))
    for file, replies, *_ in (read_index(tmp_path), read_index(tmp_path)):
        assert file == IndexFile("a/model", "0" * 64, 1, IndexSettings(0.8, True, 0.5, 1.0))
        assert replies.messages == ["ok?", "so?"] and replies.counts.tolist() == [2, 2]
        write_index(tmp_path, file, replies, np.ones((2, 4)), None, [])
    assert {path.name for path in tmp_path.iterdir()} == {"index.json", "replies.jsonl", "vectors.npy", "ratings.jsonl"}
    assert read_ratings(tmp_path / "ratings.jsonl")[0].score == 0.5


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("model", 7, r"Expected `str`, got `int` - at `\$.model`"),
        ("settings", {"duplicate_cosine": 0}, "duplicate_cosine is 0.0, expected a number above 0, at most 1"),
        ("settings", {"consensus_weight": np.inf}, "Expected `float` <= 1000.0"),
        ("settings", {"diversity": np.nan}, "Expected `float` >= 0.0"),
        ("settings", {"curve": {"slope": 1}}, "Object missing required field `intercept`"),
        ("settings", {"curve": {"intercept": 0, "slope": -1}}, "Expected `float` >= 0.0"),
    ],
)
def test_a_setting_that_was_edited_wrongly_is_named(index, name, value, message):
    values = json.loads((index / "index.json").read_text()) | {name: value}
    (index / "index.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=rf"cannot open the index .*: index.json is damaged \({message}"):
        read_index(index)
