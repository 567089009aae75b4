"""`python -m trainer.adapt`: from a table of messages to a run's folder, and mistakes in one line."""

import csv
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from data_scripts.loading import load_pairs
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.ratings import RATINGS, Rating, add_rating, read_ratings
from tests.trainer.adapt.conftest import CHATS
from trainer.adapt import adaptation, cross_validation
from trainer.adapt.__main__ import main
from trainer.adapt.chats import choose_base

COLUMNS = ["thread=ticket", "speaker=from"]


def write_chats(path: Path, chats: list[list[str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["ticket", "from", "text"])
        for ticket, messages in enumerate(chats):
            writer.writerows([ticket, speaker, text] for speaker, text in zip("aba", messages, strict=False))
    return str(path)


@pytest.fixture
def base(base, tmp_path) -> str:
    """A copy of the base, which a test may delete."""
    return shutil.copytree(base, str(tmp_path / "base"))


@pytest.fixture
def options(base, tmp_path, monkeypatch) -> Callable[..., list[str]]:
    """The words of a command line for chats."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adaptation, "FEWEST_STEPS", 4)
    monkeypatch.setattr(cross_validation, "FOLDS", 2)

    def words(chats: list[list[str]], *more: str, output: str = "run") -> list[str]:
        file = write_chats(tmp_path / "support.csv", chats)
        return [file, "--columns", *COLUMNS, "-o", str(tmp_path / output), "--base", base, *more]

    return words


def rating(message: str, reply: str, answer: str = "send", **more: Any) -> str:
    return json.dumps({"message": message, "reply": reply, "rating": answer, **more}) + "\n"


def test_chats_become_a_run_that_can_be_moved_and_ratings_are_trained_on(options, base, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    assert main(options(CHATS)) == 0
    printed, results = capsys.readouterr().out, json.loads((run / "results.json").read_text())
    assert len(printed.splitlines()) <= 25
    pairs = results["chats"]["report"]["splits"]
    held_out = pairs["train"] + pairs.get("validation", 0)  # fewer than 4,000 pairs are cross-validated
    assert sum(pairs.values()) == len(CHATS) and f"{len(CHATS)} pairs in {len(CHATS)} conversations" in printed

    # every system ranks the same held-out messages, and suggests for the same ones
    adapted, baselines = results["response_prediction"], results["baselines"]
    assert {"base", "bm25", "tfidf"} <= baselines.keys()
    for system in (*(each["response_prediction"] for each in baselines.values()), adapted):
        assert system["queries"] == results["adaptation"]["queries"] == held_out  # the test split is small
        assert system["candidates"] == adapted["candidates"] and system["split"] == "cross-validation"
        for name in ("p_at_1", "one_of_three"):
            low, high = system[f"{name}_interval"]
            assert f"{system[name]:.3f}  [{low:.3f}, {high:.3f}]" in printed
    card = (run / "model" / "README.md").read_text()
    assert f"was {results['adaptation']['p_at_1']:.3f} for this model" in " ".join(card.split()) and "| BM25 |" in card
    readme = (run / "README.md").read_text()
    assert printed.splitlines()[0] in readme and "](curve.png)" in readme and (run / "curve.png").stat().st_size > 9999

    index = ReplyIndex.load(run)
    assert index.encoder.digest() == Encoder.from_pretrained(run / "model").digest()
    assert results["adaptation"]["lexical_share"] == index.encoder.model.config.lexical_share
    splits, suggestions = load_pairs(str(run / "pairs")), results["chats"]["suggestions"]
    known = {each["input"]: each["response"] for name, rows in splits.items() if name != "test" for each in rows}
    assert {known[each.message] for each in index.review} == {each.reply for each in index.review} != {""}
    assert held_out / 3 < len(index.review) == suggestions["messages"] < 2 * held_out / 3  # the others choose weights
    assert suggestions["curve"] == asdict(index.settings.curve) and index.is_estimated
    for each in index.review:  # the model and the index of the other folds suggested
        assert each.reply not in [one.text for one in each.suggestions] and len(each.suggestions) == 3
    for message in [line[2:] for line in printed.splitlines() if line.startswith("> ")]:
        (example,) = [each for each in index.review if each.message == message]
        for one in example.suggestions:
            assert f"{index.settings.curve.probability(one.score):4.0%}  {one.text}" in printed

    # ratings of the run, and a file of others, which may take one back
    first, second, third = list(known)[:3]
    rate = index.review[0]
    for one, answer in zip(rate.suggestions, ["send", "no", "edit"], strict=True):
        add_rating(run / "replies" / RATINGS, Rating(rate.message, one.text, answer, rate.context, one.score, "review"))
    with (run / "replies" / RATINGS).open("a") as file:
        file.write(rating(first, "sent with the run") + rating(second, "taken back"))
    before = (run / "replies" / RATINGS).read_bytes().splitlines()
    beside = tmp_path / "rated.jsonl"
    beside.write_text(
        rating(second, "taken back", "no") + rating(third, "sent beside it", context=["hi"]) + rating("who?", "me")
        + rating(splits["test"]["input"][0], "seen in the test split") + rating(third, known[third])
    )  # fmt: skip
    # whatever the name of the log is
    (tmp_path / "logs").mkdir()
    log = write_chats(tmp_path / "logs" / "ratings.csv", CHATS)
    words = [log, str(beside), "--columns", *COLUMNS, "-o", str(run), "--base", base, "--overwrite"]
    assert main(words) == 0
    again = json.loads((run / "results.json").read_text())
    assert again["sent"] == {"added": 4, "known": 1, "held out": 1}
    assert ", 4 pairs from ratings" in capsys.readouterr().out
    assert again["response_prediction"]["queries"] == held_out and again["chats"]["report"]["splits"] == pairs
    replies = set(ReplyIndex.load(run).replies.texts)
    added = {"sent with the run", "sent beside it", "me", rate.suggestions[0].text}
    assert added <= replies and not replies & {"taken back", "seen in the test split"}
    after = read_ratings(run / "replies" / RATINGS)
    assert [(each.message, each.reply, each.rating) for each in after] == [
        (line["message"], line["reply"], line["rating"]) for line in map(json.loads, before)
    ]

    # moved, renamed, and without the base
    expected = ReplyIndex.load(run).suggest(first)
    monkeypatch.setenv("CONVSIM_BASE", str(tmp_path / "nowhere"))
    shutil.rmtree(base)
    (tmp_path / "elsewhere").mkdir()
    assert ReplyIndex.load(run.rename(tmp_path / "elsewhere" / "support")).suggest(first) == expected


def test_a_few_pairs_are_suggested_with_a_copy_of_the_base(options, base, tmp_path, capsys, monkeypatch):
    run = tmp_path / "run"
    assert main(options(CHATS[:5], "--repliers", "b")) == 0
    printed = capsys.readouterr().out
    for text in ("5 pairs are too few to adapt", "about 45 more conversations like these", "replies, results.json"):
        assert text in printed
    index = ReplyIndex.load(run)
    assert sorted(index.replies.texts) == sorted(reply for _, reply in CHATS[:5])
    assert index.encoder.digest() == Encoder.from_pretrained(base).digest()
    assert index.suggest(CHATS[2][0], 1)[0].message in [message for message, _ in CHATS[:5]]
    assert main(options(CHATS[:5])) == 2
    assert "is not empty: delete and replace the run there with --overwrite, or" in capsys.readouterr().err
    results = (run / "results.json").read_bytes()
    (run / "README.md").write_text("of the user")
    assert main(options(CHATS[:6], "--overwrite")) == 2
    assert f"{run / 'README.md'} would be replaced" in capsys.readouterr().err
    assert (run / "README.md").read_text() == "of the user" and (run / "results.json").read_bytes() == results
    (run / "README.md").rename(run / "notes.txt")
    (run / "replies" / "mine.txt").touch()
    assert main(options(CHATS[:6], "--overwrite")) == 2
    assert "replies holds mine.txt beside an index" in capsys.readouterr().err
    (run / "replies" / "mine.txt").rename(tmp_path / "rated.jsonl").write_text(rating("hi", "ho"))
    assert main([str(tmp_path / "rated.jsonl"), "-o", str(run), "--overwrite"]) == 2
    assert "rated.jsonl: only ratings" in capsys.readouterr().err
    assert main(options(CHATS[:49], "--overwrite")) == 0
    assert {path.name for path in run.iterdir()} >= {"replies", "pairs", "notes.txt", "model", "results.json"}
    monkeypatch.setenv("CONVSIM_BASE", str(tmp_path / "nowhere"))
    shutil.rmtree(base)
    index = ReplyIndex.load(run.rename(tmp_path / "moved"))
    assert len(index.suggest(CHATS[2][0])) == 3 and len(index.review) == 49 and index.is_estimated


@pytest.mark.parametrize(
    ("chats", "more", "message"),
    [
        ([["do you like the cat"]] * 3, (), "no pairs are left to write"),
        (CHATS, ("--base", "nowhere/at/all"), "--base: nowhere/at/all cannot be loaded"),
        (CHATS, ("--repliers", "c"), "--repliers c: no messages by this author; the authors with the most messages"),
        (CHATS, ("--license", "my own"), "license is 'my own'; expected a license"),
        (CHATS, ("-o", "s3://bucket/run"), "--output s3://bucket/run: a URL, expected a folder on a disk"),
    ],
)
def test_a_mistake_is_one_line(options, capsys, chats, more, message):
    assert main(options(chats, *more)) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert message in line


@pytest.mark.parametrize(
    ("name", "content"), [("notes.txt", "mine"), (".written-by-convsim", '{"kind": "dataset", "files": []}')]
)
def test_a_folder_of_something_else_is_left_alone(options, tmp_path, capsys, name, content):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text(content)
    assert main(options(CHATS, "--overwrite")) == 2
    assert "does not look like a run's folder" in (error := capsys.readouterr().err) and "with --output" in error
    assert [(path.name, path.read_text()) for path in (tmp_path / "run").iterdir()] == [(name, content)]


def test_the_base_is_the_given_one_or_that_of_the_environment(base, monkeypatch):
    monkeypatch.setenv("CONVSIM_BASE", str(base))
    assert choose_base(None) == choose_base(base) == base
