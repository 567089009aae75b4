"""The command: build, suggest and calibrate."""

import io
import json

import pyarrow
import pytest
from pyarrow import parquet

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.__main__ import main
from tests.modeling_convsim.suggestion.texts import make_texts
from tests.modeling_convsim.tiny_models import build, save


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.parquet"
    texts = make_texts(40)
    parquet.write_table(pyarrow.table({"input": make_texts(40, seed=1)[: len(texts)], "response": texts}), path)
    return path


def test_command_builds_calibrates_and_suggests(folder, pairs, tmp_path, capsys, monkeypatch):
    assert run("build", folder, pairs, "-o", tmp_path / "index") == 0
    assert "40 distinct replies of 40" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hello\nthe dog\n")))
    assert run("suggest", tmp_path / "index", "--k", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[3]] == ["hello", "the dog"] and len(lines) == 6
    assert run("suggest", tmp_path / "index", "hello", "--threshold", "1e6") == 0
    assert capsys.readouterr().out == "hello\n  no suggestion\n"
    assert run("calibrate", tmp_path / "index", pairs, "--precision", "0.1") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["threshold", "precision", "coverage"] and table[1].endswith("%")
    assert "coverage" in table[-1]
    settings = json.loads((tmp_path / "index" / "index.json").read_text())
    assert settings["calibration"]["min_precision"] == 0.1 and len(settings["examples"]) == 5
    (tmp_path / "allowed.txt").write_text(f"{make_texts(40)[3]}\n")
    assert run("suggest", tmp_path / "index", "--threshold=-inf", "--allowed", tmp_path / "allowed.txt", "hello") == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 and printed[1].endswith(make_texts(40)[3])


def test_without_a_sufficient_threshold_nothing_is_suggested_unless_asked(folder, pairs, tmp_path, capsys):
    assert run("build", folder, pairs, "-o", tmp_path / "index") == 0
    assert run("calibrate", tmp_path / "index", pairs, "--precision", "0.99") == 2
    captured = capsys.readouterr()
    assert "error: no threshold has a precision of 99%" in captured.err and "coverage" in captured.out
    assert run("suggest", tmp_path / "index", "hello", "--k", "1") == 0
    captured = capsys.readouterr()
    assert captured.out == "hello\n  no suggestion\n" and "suggest anyway with --threshold none" in captured.err
    assert run("suggest", tmp_path / "index", "hello", "--k", "1", "--threshold", "none") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_too_few_pairs_leave_an_earlier_calibration(folder, pairs, tmp_path, capsys):
    assert run("build", folder, pairs, "-o", tmp_path / "index") == 0
    assert run("calibrate", tmp_path / "index", pairs, "--precision", "0.1") == 0
    before = (tmp_path / "index" / "index.json").read_text()
    parquet.write_table(parquet.read_table(pairs).slice(0, 19), tmp_path / "few.parquet")
    assert run("calibrate", tmp_path / "index", tmp_path / "few.parquet", "--precision", "0.1") == 2
    assert "19 held-out pairs, expected 20 or more" in capsys.readouterr().err
    assert (tmp_path / "index" / "index.json").read_text() == before


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_command_shows_the_answers_of_questions(folder, pairs, tmp_path, capsys, suffix):
    table = tmp_path / f"faq{suffix}"
    getattr(parquet.read_table(pairs).to_pandas(), f"to_{suffix[1:]}")(table)
    assert run("build", folder, table, "--side", "input", "--answers", "response", "-o", tmp_path / "faq") == 0
    capsys.readouterr()
    assert run("suggest", tmp_path / "faq", make_texts(40, seed=1)[5], "--k", 1) == 0
    assert capsys.readouterr().out.splitlines()[2].strip() == make_texts(40)[5]


def test_command_shows_the_questions_of_replies(folder, pairs, tmp_path, capsys):
    assert run("build", folder, pairs, "--questions", "input", "-o", tmp_path / "index") == 0
    capsys.readouterr()
    assert run("suggest", tmp_path / "index", "hello", "--diversity", "0.5", "--k", "1") == 0
    reply, question = (line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()[1:])
    rows = parquet.read_table(pairs).to_pylist()
    assert any(row["response"] == reply and question == f"reply to: {row['input']}" for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build m a.txt -o i --column x", "--column x: a.txt has no columns, expected tables (.parquet, .csv"),
        ("build m a.parquet b.txt -o i --side input --answers x", "--answers x: b.txt has no columns, expected tables"),
        ("build m a.parquet -o i --answers x", "--answers x: only an index of --side input has answers"),
        ("build m a.parquet -o i --side input --questions x", "--questions x: only an index of --side response has"),
        ("suggest i hello --alowed a.txt", "unknown argument '--alowed'; did you mean '--allowed'?"),
        ("suggest i hello --threshold many", "argument --threshold: many: expected a number, or none"),
        ("suggest i hello --threshold nan", "argument --threshold: nan: expected a number, or none"),
        ("suggest i hello --threshold inf", "argument --threshold: inf: expected a number, or none"),
        ("suggest i hello --k 0", "argument --k: 0: expected a whole number from 1 to 2,147,483,647"),
        ("suggest i hello --diversity nan", "argument --diversity: nan: expected a number from 0 to 1"),
        ("calibrate i p.csv --precision 1", "argument --precision: 1: expected a number above 0 and below 1"),
        ("build m a.txt -o i --processes 1000000", "argument --processes: 1000000: expected a whole number from 1 to "),
    ],
)
def test_wrong_option_gives_one_line_and_exit_code_2(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1


def test_texts_before_and_after_an_option_are_answered(encoder, tmp_path, capsys):
    ReplyIndex.build(encoder, make_texts(40)).save(tmp_path / "index")
    capsys.readouterr()
    assert run("suggest", tmp_path / "index", "hello", "--k", 1, "the dog") == 0
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")] == ["hello", "the dog"]


# {model}, {index} and the like are replaced by paths.
WRONG = [
    ("build {nowhere} {pairs} -o {new}", "no such folder"),
    ("build {model} {nowhere} -o {new}", "nowhere: file not found"),
    ("build {model} {pairs} -o {new} --column x", "no column 'x', only input"),
    ("build {model} {pairs} -o {new} --side input --answers x", "only input, response: choose one with --answers"),
    ("build {model} {pairs} -o {folder}", "exists and is not an index"),
    ("suggest {nowhere} hello", "holds no index.json"),
    ("suggest {index} hello --allowed {text}", "not in the index: 'hello', 'zebra'"),
    ("suggest {index} hello --model {other}", "built with other weights"),
    ("calibrate {index} {text}", "some.txt: expected a table (.parquet, .csv, "),
    ("calibrate {index} {table}", "no column 'input', only text, expected"),
]


@pytest.mark.parametrize(("command", "message"), WRONG)
def test_wrong_command_gives_one_line_and_exit_code_2(
    command, message, folder, encoder, pairs, tiny_tokenizer, tmp_path, capsys
):
    names = ("nowhere", "new", "index", "other", "some.txt", "table.parquet")
    paths = {name.partition(".")[0]: tmp_path / name for name in names}
    paths |= {"model": folder, "pairs": pairs, "folder": tmp_path, "text": paths["some"]}
    paths["some"].write_text("hello\nzebra\n")
    parquet.write_table(pyarrow.table({"text": ["hello"]}), paths["table"])
    if "{index}" in command:
        ReplyIndex.build(encoder, make_texts(40)).save(paths["index"])
    if "{other}" in command:
        save(build("dan"), tiny_tokenizer, paths["other"])
    capsys.readouterr()
    assert run(*command.format(**paths).split()) == 2
    captured = capsys.readouterr()
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and message in errors[0] and not captured.out
    assert not paths["new"].exists()


@pytest.fixture
def weighted(tiny_tokenizer, tmp_path):
    """The folder of a model for which earlier turns count."""
    model = build("dan_input_network")
    model.config.context_weights = [0.5, 0.25]
    return save(model, tiny_tokenizer, tmp_path / "weighted")


def test_the_context_is_a_file_of_turns_or_a_column_of_lists(folder, weighted, pairs, tmp_path, capsys):
    texts = make_texts(40, seed=2)
    contexts = [texts[row : row + row % 3] for row in range(40)]
    table = parquet.read_table(pairs).append_column("context", pyarrow.array(contexts))
    parquet.write_table(table, tmp_path / "context.parquet")
    assert run("build", weighted, pairs, "-o", tmp_path / "index") == 0
    (tmp_path / "turns.txt").write_text("the big house\nwhere is the dog\n")
    capsys.readouterr()
    assert run("suggest", tmp_path / "index", "hello", "--k", 2, "--context", tmp_path / "turns.txt") == 0
    index = ReplyIndex.load(tmp_path / "index")
    expected = index.suggest("hello", 2, context=["where is the dog", "the big house"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        f"{one.score:.3f}" for one in expected
    ]
    assert expected != index.suggest("hello", 2)
    calibrate = ("calibrate", tmp_path / "index", tmp_path / "context.parquet", "--precision", "0.1")
    assert run(*calibrate, "--context", "context") == 0
    inputs, replies = (table[name].to_pylist() for name in ("input", "response"))
    scores, _ = index.score_pairs(inputs, replies, contexts=contexts)
    assert ReplyIndex.load(tmp_path / "index").calibration.table[-1].threshold < scores.min()
    assert run(*calibrate) == 0  # without them, the scores are others
    alone, _ = index.score_pairs(inputs, replies)
    assert abs(scores - alone).max() > 0.01
    capsys.readouterr()
    assert run(*calibrate, "--context", "input") == 2
    assert "expected a list of earlier turns, the newest first" in capsys.readouterr().err
    assert run("suggest", tmp_path / "index", "a", "b", "--context", tmp_path / "turns.txt") == 2
    assert "expected one TEXT, whose conversation it is" in capsys.readouterr().err
    assert run("build", folder, pairs, "-o", tmp_path / "without") == 0
    assert run("suggest", tmp_path / "without", "a", "--context", tmp_path / "turns.txt") == 2
    assert "the model has no context_weights" in capsys.readouterr().err
