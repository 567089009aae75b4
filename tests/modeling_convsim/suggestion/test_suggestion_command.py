"""The command: build, suggest and calibrate."""

import io

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
    assert run("suggest", tmp_path / "index", "hello", "--min_score", "1e6") == 0
    assert capsys.readouterr().out == "hello\n  no suggestion\n"
    assert run("calibrate", tmp_path / "index", pairs) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["threshold", "precision", "coverage"] and table[1].endswith("%")
    settings = ReplyIndex.load(tmp_path / "index").settings
    assert settings.calibration.pairs == 40 and len(settings.examples) == 5
    assert run("suggest", tmp_path / "index", "hello", "--k", "2") == 0
    first, second = capsys.readouterr().out.splitlines()[1:]
    assert first.endswith("%)") and "precision" in first and "precision" not in second
    (tmp_path / "allowed.txt").write_text(f"{make_texts(40)[3]}\n")
    assert run("suggest", tmp_path / "index", "--allowed", tmp_path / "allowed.txt", "hello") == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 and make_texts(40)[3] in printed[1]


def test_too_few_pairs_leave_an_earlier_calibration(folder, pairs, tmp_path, capsys):
    assert run("build", folder, pairs, "-o", tmp_path / "index") == 0
    assert run("calibrate", tmp_path / "index", pairs) == 0
    before = (tmp_path / "index" / "index.json").read_text()
    parquet.write_table(parquet.read_table(pairs).slice(0, 19), tmp_path / "few.parquet")
    assert run("calibrate", tmp_path / "index", tmp_path / "few.parquet") == 2
    assert "19 held-out pairs, expected 20 or more" in capsys.readouterr().err
    assert (tmp_path / "index" / "index.json").read_text() == before


@pytest.mark.parametrize("by_messages", [True, False])
def test_command_shows_the_messages_that_replies_answered(folder, pairs, tmp_path, capsys, by_messages):
    rows = parquet.read_table(pairs).to_pandas().rename(columns={"input": "question", "response": "answer"})
    rows.to_csv(tmp_path / "faq.csv")
    words = ("--replies", "answer", "--messages", "question", *["--by_messages"] * by_messages)
    assert run("build", folder, tmp_path / "faq.csv", *words, "-o", tmp_path / "faq") == 0
    capsys.readouterr()
    message = rows["question"][5]
    assert run("suggest", tmp_path / "faq", message, "--diversity", "0.5", "--k", 1) == 0
    reply, origin = (line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()[1:])
    assert any(row.answer == reply and origin == f"reply to: {row.question}" for row in rows.itertuples())
    assert not by_messages or (reply, origin) == (rows["answer"][5], f"reply to: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build m a.parquet b.txt -o i --messages x", "--messages x: b.txt has no columns, expected tables"),
        ("build m a.parquet -o i --by_messages", "--by_messages: expected the column of the messages, --messages C"),
        ("suggest i hello --alowed a.txt", "unknown argument '--alowed'; did you mean '--allowed'?"),
        ("suggest i hello --min_score nan", "argument --min_score: nan: expected a number"),
        ("suggest i hello --k 0", "argument --k: 0: expected a whole number from 1 to 2,147,483,647"),
        ("suggest i hello --diversity nan", "argument --diversity: nan: expected a number from 0 to 1"),
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
    ("build {model} {pairs} -o {new} --messages x", "only input, response: choose one with --messages"),
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
    calibrate = ("calibrate", tmp_path / "index", tmp_path / "context.parquet")
    tables = []
    for words in (("--context", "context"), ()):
        assert run(*calibrate, *words) == 0
        tables.append(ReplyIndex.load(tmp_path / "index").settings.calibration)
    messages, replies = (table[name].to_pylist() for name in ("input", "response"))
    assert tables == [index.calibrate(messages, replies, contexts=each) for each in (contexts, None)]
    assert tables[0] != tables[1]
    capsys.readouterr()
    assert run(*calibrate, "--context", "input") == 2
    assert "expected a list of earlier turns, the newest first" in capsys.readouterr().err
    assert run("suggest", tmp_path / "index", "a", "b", "--context", tmp_path / "turns.txt") == 2
    assert "expected one TEXT, whose conversation it is" in capsys.readouterr().err
    assert run("build", folder, pairs, "-o", tmp_path / "without") == 0
    assert run("suggest", tmp_path / "without", "a", "--context", tmp_path / "turns.txt") == 2
    assert "the model has no context_weights" in capsys.readouterr().err
