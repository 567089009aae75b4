"""`python -m trainer.adapt`: from a table of messages to a run's folder, and mistakes in one line."""

import csv
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from data_scripts.chats.conversations import ConversationOptions
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.trainer.adapt.conftest import CHATS
from trainer.adapt import adaptation
from trainer.adapt.__main__ import main
from trainer.adapt.chats import adapt_to_chats, choose_base

COLUMNS = ["thread=ticket", "speaker=from"]


def write_chats(path: Path, chats: list[list[str]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["ticket", "from", "text"])
        for ticket, messages in enumerate(chats):
            writer.writerows([ticket, speaker, text] for speaker, text in zip("aba", messages, strict=False))
    return str(path)


@pytest.fixture
def options(base, tmp_path, monkeypatch) -> Callable[..., list[str]]:
    """The words of a command line for chats."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adaptation, "FEWEST_STEPS", 4)

    def words(chats: list[list[str]], *more: str, output: str = "run") -> list[str]:
        file = write_chats(tmp_path / "support.csv", chats)
        return [file, "--columns", *COLUMNS, "-o", str(tmp_path / output), "--base", base, *more]

    return words


def test_chats_become_a_run_with_a_comparison_and_an_index(options, base, tmp_path, capsys):
    file, output = Path(write_chats(tmp_path / "support.csv", CHATS)), tmp_path / "run"
    results = adapt_to_chats([file], ConversationOptions(columns=COLUMNS), output, base)
    printed = capsys.readouterr().out
    assert results == json.loads((tmp_path / "run" / "results.json").read_text())
    pairs = results["chats"]["report"]["splits"]
    assert sum(pairs.values()) == len(CHATS)

    # every system ranks the same held-out messages
    adapted, baselines = results["response_prediction"], results["baselines"]
    assert {"base", "bm25", "tfidf"} <= baselines.keys()
    for baseline in (*(each["response_prediction"] for each in baselines.values()), adapted):
        assert baseline["queries"] == pairs["train"] + pairs.get("validation", 0)  # the test split is small
        assert baseline["candidates"] == adapted["candidates"] and baseline["split"] == "cross-validation"
        assert f"{baseline['p_at_1']:.3f}" in printed

    closing = printed.splitlines()[-4:]
    assert [line.split()[0] for line in closing] == ["read", "model", "files", "next"]
    assert f"{sum(pairs.values())} pairs" in closing[0] and f"P@1 {adapted['p_at_1']:.3f}" in closing[1]

    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert f"was {results['adaptation']['p_at_1']:.3f} for this model" in " ".join(card.split()) and "| BM25 |" in card

    # fewer than 4,000 pairs are cross-validated: each is a query once
    chosen = results["adaptation"]
    assert chosen["queries"] == pairs["train"] + pairs.get("validation", 0)

    index = ReplyIndex.load(tmp_path / "run" / "replies", Encoder.from_pretrained(tmp_path / "run" / "model"))
    assert chosen["lexical_share"] == index.encoder.model.config.lexical_share
    held_out = {example["reply"] for example in results["chats"]["examples"]}
    assert len(held_out) == 3 and not held_out & set(index.replies.texts)
    for example in results["chats"]["examples"]:
        (best,) = index.suggest(example["message"], 1)
        assert best.text == example["suggestion"] in printed and best.message == example["in_reply_to"] in printed
    examples = set(index.settings.examples)
    assert examples and not examples & set(index.replies.messages)  # of the test split
    thresholds = results["chats"]["calibration"]
    assert thresholds["pairs"] == chosen["queries"] and f"{thresholds['table'][-1]['precision']:.1%}" in printed
    assert [asdict(row) for row in index.settings.calibration.table] == thresholds["table"]


def test_a_few_pairs_are_suggested_with_the_base_as_it_is(options, base, tmp_path, capsys):
    assert main(options(CHATS[:5], "--repliers", "b")) == 0
    printed = capsys.readouterr().out
    assert "5 pairs are too few to adapt a model" in printed and "about 45 more conversations like these" in printed
    index = ReplyIndex.load(tmp_path / "run" / "replies")
    assert sorted(index.replies.texts) == sorted(reply for _, reply in CHATS[:5])
    assert index.encoder.name == base
    assert index.suggest(CHATS[2][0], 1)[0].message in [message for message, _ in CHATS[:5]]
    assert main(options(CHATS[:5])) == 2
    assert "is not empty: delete and replace the run there with --overwrite, or" in capsys.readouterr().err
    (tmp_path / "run" / "model").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("of the user")
    assert main(options(CHATS[:6], "--overwrite")) == 0
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"replies", "pairs", "notes.txt", "results.json"}
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize(
    ("chats", "more", "message"),
    [
        ([["do you like the cat"]] * 3, (), "no pair is left to write"),
        (CHATS, ("--base", "nowhere/at/all"), "--base: nowhere/at/all cannot be loaded"),
        (CHATS, ("--repliers", "c"), "--repliers c: no message is by this author; the authors with the most messages"),
        (CHATS, ("--license", "my own"), "license is 'my own'; expected a license"),
        (CHATS, ("-o", "s3://bucket/run"), "--output s3://bucket/run: a run is written to a disk; name a folder"),
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
