"""The commands `convsim suggest` and `convsim index`."""

import io
import re

import pyarrow
import pytest
from pyarrow import parquet

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.__main__ import index as index_main
from modeling_convsim.suggestion.__main__ import main
from tests.modeling_convsim.suggestion.texts import make_texts
from tests.modeling_convsim.tiny_models import build, save


def run(command: str, *arguments: object) -> int | str | None:
    """The exit code of a command."""
    try:
        return {"suggest": main, "index": index_main}[command]([str(argument) for argument in arguments])
    except SystemExit as ended:
        return ended.code


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.parquet"
    texts = make_texts(120)
    parquet.write_table(pyarrow.table({"input": make_texts(120, seed=1)[: len(texts)], "response": texts}), path)
    return path


def test_commands_index_pairs_and_suggest_replies(folder, pairs, tmp_path, capsys, monkeypatch):
    assert run("index", pairs, "--model", folder, "-o", tmp_path / "run" / "replies") == 0
    assert "120 distinct replies of 120" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hello\nthe dog\n")))
    assert run("suggest", tmp_path / "run", "--k", 2) == 0
    printed = capsys.readouterr().out
    index = ReplyIndex.load(tmp_path / "run")
    expected = [each for text in ("hello", "the dog") for each in index.suggest(text, 2)]
    assert re.findall(r"^  +(\d+)%  (.*?)  \(answered: (.*)\)$", printed, re.M) == [
        (f"{100 * one.probability:.0f}", one.text, one.message) for one in expected
    ]
    assert [line for line in printed.splitlines() if line[0] != " "] == [
        "hello  (estimated probabilities)", "the dog  (estimated probabilities)",
    ]  # fmt: skip
    # texts before and after an option
    assert run("suggest", tmp_path / "run", "hello", "--min_probability", 1, "the dog") == 0
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == ["hello", "the dog"]
    (tmp_path / "allowed.txt").write_text(f"{expected[1].text}\n")
    assert run("suggest", tmp_path / "run", "--allowed", tmp_path / "allowed.txt", "hello") == 0
    assert [expected[1].text in line for line in capsys.readouterr().out.splitlines()] == [False, True]


def test_text_files_give_an_index_without_probabilities(folder, tmp_path, capsys):
    (tmp_path / "replies.txt").write_text("yes please\nyes please\na big house\n")
    assert run("index", tmp_path / "replies.txt", "--model", folder, "-o", tmp_path / "index") == 0
    capsys.readouterr()
    assert run("suggest", tmp_path / "index", "hello") == 0
    assert sorted(line.split() for line in capsys.readouterr().out.splitlines()) == [
        ["?", "a", "big", "house"], ["?", "yes", "please", "(given", "2", "times)"],
        ["hello", *"(no probabilities before 30 ratings)".split()],
    ]  # fmt: skip


# {model}, {index} and the like are replaced by paths.
WRONG = [
    ("index a.parquet b.txt -o {new}", "b.txt has no columns: expected tables"),
    ("index b.txt -o {new} --by_messages", "--by_messages: b.txt has no columns, expected tables"),
    ("suggest i hello --alowed a.txt", "unknown argument '--alowed'; did you mean '--allowed'?"),
    ("suggest i hello --min_probability 1.1", "argument --min_probability: 1.1: expected a number from 0 to 1"),
    ("index {pairs} --model {nowhere} -o {new}", "no such folder"),
    ("index {nowhere} --model {model} -o {new}", "nowhere: file not found"),
    ("index {pairs} --model {model} -o {new} --messages x", "only input, response: choose one with --messages"),
    ("index {pairs} --model {model} -o {folder}", "exists and is not an index"),
    ("suggest {nowhere} hello", "holds no index.json"),
    ("suggest {index} hello --allowed {text}", "not in the index: 'hello', 'zebra'"),
    ("suggest {index} a b --context {text}", "expected exactly one TEXT"),
    ("suggest {index} a --context {text}", "the model has no context_weights"),
    ("suggest {rated} hello", "ratings.jsonl:1: "),
]


@pytest.mark.parametrize(("command", "message"), WRONG)
def test_wrong_command_gives_one_line_and_exit_code_2(command, message, folder, encoder, pairs, tmp_path, capsys):
    paths = {name: tmp_path / name for name in ("nowhere", "new", "index", "text", "rated")}
    paths |= {"model": folder, "pairs": pairs, "folder": tmp_path}
    paths["text"].write_text("hello\nzebra\n")
    for name in ("index", "rated"):
        if f"{{{name}}}" in command:
            ReplyIndex.build(encoder, make_texts(40)).save(paths[name])
    if "{rated}" in command:
        (paths["rated"] / "ratings.jsonl").write_text("hello\n")
    capsys.readouterr()
    assert run(*command.format(**paths).split()) == 2
    captured = capsys.readouterr()
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and message in errors[0] and not captured.out
    assert not paths["new"].exists()


def test_the_context_is_a_file_of_turns_the_oldest_first(tiny_tokenizer, pairs, tmp_path, capsys):
    model = build("dan_input_network")
    model.config.context_weights = [0.5, 0.25]
    weighted = save(model, tiny_tokenizer, tmp_path / "weighted")
    assert run("index", pairs, "--model", weighted, "-o", tmp_path / "index") == 0
    (tmp_path / "turns.txt").write_text("the big house\nwhere is the dog\n")
    capsys.readouterr()
    assert run("suggest", tmp_path / "index", "hello", "--context", tmp_path / "turns.txt") == 0
    index = ReplyIndex.load(tmp_path / "index")
    turns = ["where is the dog", "the big house"]
    shown = [re.search("%  (.*)  [(]", line)[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert shown == [one.text for one in index.suggest("hello", context=turns)]
    assert len({tuple(index.suggest("hello", context=each)) for each in ([], turns, turns[::-1])}) == 3
