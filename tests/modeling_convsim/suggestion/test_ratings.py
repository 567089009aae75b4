"""The file of ratings."""

import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from filelock import FileLock

from modeling_convsim.files.errors import InputError
from modeling_convsim.suggestion import ratings
from modeling_convsim.suggestion.ratings import Rating, add_rating, is_ratings, read_ratings

LINE = '{"message": "a", "reply": "b", "rating": "send"}'


def test_the_last_rating_of_a_suggestion_for_a_message_with_its_context_counts(tmp_path):
    path = tmp_path / "ratings.jsonl"
    given = [
        Rating("a", "b", "send", [], 0.1),
        Rating("a", "b", "no", ["x"], 0.2),  # another context
        Rating("a", "x", "edit", [], 0.3),  # another suggestion
        Rating("a", "b", "no", [], 0.4, "review"),
    ]
    for each in given:
        add_rating(path, each)
    assert {each.score for each in read_ratings(path)} == {0.2, 0.3, 0.4}
    assert sorted(read_ratings(path), key=lambda each: each.score) == given[1:]
    assert json.loads(path.read_text().splitlines()[3]) == {
        "message": "a", "reply": "b", "rating": "no", "context": [], "score": 0.4, "from": "review",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("send", "yes"),
        LINE.replace('"b"', '""'),
        LINE.replace("}", ', "score": 1e9}'),
        LINE.replace("}", ', "thumb": 1}'),
        LINE[:-1],
    ],
)
def test_a_line_that_is_no_rating_is_named(tmp_path, line):
    path = tmp_path / "mine.jsonl"
    path.write_text(f"{LINE}\n\n{line}\n{LINE}\n")
    with pytest.raises(InputError, match=r"mine.jsonl:3: .*expected a rating such as \{"):
        read_ratings(path)
    assert is_ratings(path)  # by its first line
    path.write_text(f"{line}\n{LINE}\n")
    assert not is_ratings(path)
    with pytest.raises(InputError, match=r"none: cannot be read \(No such file"):
        read_ratings(tmp_path / "none")


def test_a_rating_is_a_line_of_its_own_also_after_an_editor_left_out_the_last_line_s_end(tmp_path):
    """And wrote a byte order mark, and the ends of lines of Windows."""
    path = tmp_path / "ratings.jsonl"
    path.write_text(f"{LINE}\r\n{LINE}", encoding="utf-8-sig", newline="")
    assert is_ratings(path)
    add_rating(path, Rating("two\nlines\u2028", "c", "no"))
    assert [each.message for each in read_ratings(path)] == ["a", "two\nlines\u2028"]


def add_many(path: Path, name: str) -> None:
    for number in range(60):
        add_rating(path, Rating(name, f"{number} " * 3000, "no"))


def test_several_processes_append_to_a_file(tmp_path, monkeypatch):
    path = tmp_path / "ratings.jsonl"
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(add_many, [path] * 2, "ab"))
    assert len(read_ratings(path)) == 120 and [each.name for each in tmp_path.iterdir()] == [path.name]
    monkeypatch.setattr(ratings, "LOCK_SECONDS", 0.1)
    with (
        FileLock(tmp_path.with_name(f".{tmp_path.name}-ratings.convsim-lock")),
        pytest.raises(InputError, match="another process is writing there"),
    ):
        add_rating(path, Rating("c", "b", "no"))
