import json
import shlex
from pathlib import Path

from data_scripts.__main__ import main
from data_scripts.commands import inspect
from tests.data_scripts.outputs import read

ROWS = [
    "Ticket #;From;Sent at;Message",
    "7;Ann;13/03/2026 09:00;Where is my parcel, please?",
    "7;Jürgen;13/03/2026 09:02;On its way",
    "8;Cleo;14/03/2026 10:00;Can I pay with €20?",
    "8;Jürgen;14/03/2026 10:03;Of course",
]


def run(*arguments: object) -> int:
    return main(["inspect", *map(str, arguments)])


def table(path: Path, *rows: str) -> Path:
    path.write_bytes("\r\n".join(rows).encode("cp1252"))
    return path


def test_columns_with_examples_and_roles_pairs_and_the_next_command_are_shown(tmp_path, capsys):
    path = table(tmp_path / "my chats.csv", *ROWS)
    assert run(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(path)
    assert [line.split() for line in lines[2:4]] == [["Ticket", "#", "thread", "7", "|", "8"], lines[3].split()]
    assert lines[3].split() == "From speaker Ann | Jürgen | Cleo".split()
    assert "encoding: cp1252; delimiter: semicolon; columns: text=Message 'thread=Ticket #'" in lines[6]
    assert lines[6].endswith("dates: DMY")
    assert lines[8:13] == [
        "4 messages gave 2 pairs, such as",
        "  Where is my parcel, please?",
        "    -> On its way",
        "  Can I pay with €20?",
        "    -> Of course",
    ]


def test_the_next_command_reads_the_file_to_the_pairs_that_were_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(table(Path("my chats.csv"), *ROWS)) == 0
    lines = capsys.readouterr().out.splitlines()
    words = shlex.split(lines[-1].removeprefix("or, without training: "))
    adapt = shlex.split(lines[-2].removeprefix("next: "))
    assert adapt[:2] == ["convsim", "adapt"] and adapt[-1] == "runs/my_chats"
    assert adapt[2:-1] == words[3:-1]
    assert words[:4] == ["convsim", "data", "conversations", "my chats.csv"]
    assert words[-2:] == ["-o", "data/my_chats"] and "thread=Ticket #" in words
    assert main(words[2:]) == 0
    assert {row["response"] for row in read(Path("data/my_chats"))} == {"On its way", "Of course"}


def test_stated_options_are_used_and_are_in_the_next_command(tmp_path, capsys):
    path = table(tmp_path / "c.csv", "a;b;c", "1;01/03/2026;hello", "1;02/03/2026;hi")
    options = "--columns thread=a text=c time=b --date_order MDY --gap 99.5d --encoding cp1252 --context 1"
    assert run(path, *options.split()) == 0
    output = capsys.readouterr().out
    assert "2 messages gave 1 pair, such as\n  hello\n    -> hi" in output and "dates: MDY" in output
    assert (
        "--columns thread=a text=c time=b --gap 99.5d --encoding cp1252 --date_order MDY --context 1 -o data/c"
        in output
    )


def test_a_file_that_is_not_understood_shows_its_columns_before_the_remedy(tmp_path, capsys):
    assert run(table(tmp_path / "c.csv", "a,b", "1,2")) == 2
    captured = capsys.readouterr()
    assert "  a                                       1\n" in captured.out and "next" not in captured.out
    assert "use --columns, as in text=a; if the first line" in captured.err and "inspect" not in captured.err
    assert run(table(tmp_path / "c.csv", "text,case no", "hello,1")) == 2
    assert "as in 'thread=case no'; if" in capsys.readouterr().err
    assert run(table(tmp_path / "c.csv", "date,sender,message", "01/03/2026,Ann,hi")) == 2
    captured = capsys.readouterr()
    assert "columns: text=message speaker=sender time=date" in captured.out
    assert "state it with --date_order DMY" in captured.err


def test_an_export_shows_its_format_and_broken_lines(tmp_path, capsys, monkeypatch):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    path = tmp_path / "c.jsonl"
    path.write_text("[\n" + json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    assert run(path) == 0
    output = capsys.readouterr().out
    assert "format: messages with roles" in output and "  column  " not in output
    assert "lines left out: 1, for example" in output and "2 messages gave 1 pair, such as" in output
    monkeypatch.setattr(inspect, "MESSAGES", 2)
    assert run(path) == 0
    assert "the first 2 messages gave 1 pair" in capsys.readouterr().out


def test_texts_that_give_no_pair_show_where_they_are_left_out(tmp_path, capsys):
    assert run(table(tmp_path / "c.csv", "thread,speaker,text", "1,Ann,hi", "1,Ann,ho")) == 0
    output = capsys.readouterr().out
    assert "2 messages gave 0 pairs\n" in output
    assert "starts a conversation                               1" in output


def rows_of(*messages: tuple[str, str]) -> list[str]:
    """Two tickets for each of eight customers, answered by two agents."""
    return [
        f"{ticket};{name.format(ticket % 8)};{side};question {ticket}"
        for ticket in range(16)
        for name, side in messages
    ]  # fmt: skip


def test_the_authors_who_answer_are_shown_and_selected_by_the_next_command(tmp_path, capsys):
    rows = rows_of(("Ann {}", "x"), ("Tom Lee", "x"), ("Ann {}", "x"), ("Jo", "x"))
    assert run(table(tmp_path / "c.csv", "ticket;from;kind;message", *rows)) == 0
    output = capsys.readouterr().out
    assert (
        "replies by Jo 16, Tom Lee 16, Ann 0 2, Ann 1 2, Ann 2 2 and 5 more; --repliers NAME keeps only replies by "
        "that author\n" in output
    )
    assert "--repliers Jo 'Tom Lee' -o runs/c\n" in output


def test_a_column_of_sides_is_preferred_to_the_names_of_those_who_answer(tmp_path, capsys):
    rows = rows_of(
        ("Ann {}", "end-user"), ("Helper", "bot"), ("Tom Lee", "agent"), ("Cleo {}", "end-user"), ("Jo", "agent")
    )
    assert run(table(tmp_path / "c.csv", "ticket;Author Name;Author Role;message", *rows)) == 0
    output = capsys.readouterr().out
    assert "replies by Jo 16, Tom Lee 16; " in output and "; who answers: Author Role is agent\n" in output
    assert "'speaker=Author Name' -o runs/c\n" in output and "'speaker=Author Name' --repliers -o data/c\n" in output
