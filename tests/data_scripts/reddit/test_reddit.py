import bz2
import html
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.reddit import comments
from data_scripts.schemas import PAIR_TEXTS
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLines
from tests.data_scripts.outputs import read, report


def comment(name: str, parent: str = "t3_story", **changes: object) -> dict:
    return {
        "id": name,
        "parent_id": parent,
        "link_id": "t3_story",
        "author": "reader",
        "body": f"these are the words of {name}",
        "subreddit": "pictures",
        "created_utc": 1136074029,
    } | changes


def write_dump(path: Path, *comments: dict) -> Path:
    path.write_bytes(bz2.compress(b"".join(json.dumps(fields).encode() + b"\n" for fields in comments)))
    return path


def run(*arguments: object) -> int:
    return main(["reddit", *map(str, arguments)])


def passes(fields: dict) -> bool:
    """Whether a comment passes the paper's rules, implemented independently from its text."""
    text = html.unescape(fields["body"])
    letters = len([character for character in text if character.isalpha()])
    return not (
        text in ("", "[deleted]", "[removed]")
        or len(text) >= 350
        or 10 * letters <= 7 * len(text)
        or text[:5] == "https"
        or text[:3] == "/r/"
        or text[:1] == "@"
        or "bot" in fields["author"].casefold()
    )


@pytest.fixture(scope="module")
def real_dumps(data_dir) -> list[Path]:
    return sorted((data_dir / "conversations" / "reddit_raw").glob("RC_*.bz2"))


@pytest.fixture(scope="module")
def real_output(real_dumps, tmp_path_factory) -> Path:
    output = tmp_path_factory.mktemp("reddit") / "pairs"
    assert run(*real_dumps, "--output", output) == 0
    return output


def test_real_dumps_give_the_pairs_of_a_brute_force_join(real_dumps, real_output):
    comments = [json.loads(line) for dump in real_dumps for line in bz2.decompress(dump.read_bytes()).splitlines()]
    by_name = {f"t1_{fields['id']}": fields for fields in comments}
    assert len(by_name) == len(comments) == 27_695
    expected = set()
    for reply in comments:
        parent = by_name.get(reply["parent_id"])
        if parent and passes(parent) and passes(reply):
            texts = html.unescape(parent["body"]), html.unescape(reply["body"])
            expected.add((*texts, reply["link_id"], f"reddit/{reply['subreddit']}"))
    found = [tuple(row[name] for name in PAIR_TEXTS) for row in read(real_output)]
    assert len(found) == len(expected)
    assert set(found) == expected


def test_real_counts_add_up(real_output):
    counts = report(real_output)
    assert sum(counts["comments"].values()) == 27_695
    assert sum(counts["kept comments"].values()) == counts["comments"]["kept"]
    assert sum(counts["pairs"].values()) == counts["kept comments"]["pair"]
    assert sum(counts["splits"].values()) == counts["pairs"]["written"] == len(read(real_output))


def test_why_no_comment_has_a_parent_is_named(tmp_path, capsys):
    dump = write_dump(tmp_path / "RC_1.bz2", comment("a", "t1_x"), comment("b", "t1_y"))
    assert run(dump, "--output", tmp_path / "out") == 2
    error = capsys.readouterr().err
    reason = "2 comments reply to comments that are not in the dumps; add the other dumps"
    assert f"error: no pairs are left to write: {reason}" in error and "kept comments" in error


def test_each_comment_without_a_pair_is_counted_by_reason(tmp_path):
    dump = write_dump(
        tmp_path / "RC_1.bz2",
        comment("a"),
        comment("b", "t1_a"),
        comment("b", "t1_a"),
        comment("c", "t1_a", body="[deleted]"),
        comment("d", "t1_c"),
        comment("e", "t1_unknown"),
        comment("f", "t1_a", author="HelpfulBot"),
        comment("g", "t1_a", body="these are the words of b"),
        comment("h", "t3_a"),  # answers a submission that has the id of a comment
        comment("i", "t1_i"),
        comment("j", "t1_b"),  # of the two comments b, only one is answered
    )
    assert run(dump, "--output", tmp_path / "out") == 0
    counts = report(tmp_path / "out")
    assert {name: number for name, number in counts["comments"].items() if number} == {
        "id seen before": 1,
        "deleted or empty": 1,
        "author contains bot": 1,
        "kept": 8,
    }
    assert counts["kept comments"] == {
        "replies to a submission": 2,
        "replies to themselves": 1,
        "comment replied to is not in the dumps": 1,
        "comment replied to was removed": 1,
        "pair": 3,
    }
    assert counts["pairs"] == {"repeated in their thread": 1, "written": 2}
    words = "these are the words of"
    found = {(row["input"], row["response"]) for row in read(tmp_path / "out")}
    assert found == {(f"{words} a", f"{words} b"), (f"{words} b", f"{words} j")}


def test_of_two_comments_with_the_same_id_the_earlier_is_kept_for_any_order_of_files(tmp_path):
    early = write_dump(tmp_path / "RC_1.bz2", comment("a"), comment("b", "t1_a", body="the words as first written"))
    late = write_dump(tmp_path / "RC_2.bz2", comment("b", "t1_a", body="the words as edited", created_utc=1136074999))
    for number, order in enumerate([(early, late), (late, early)]):
        assert run(*order, "--output", tmp_path / f"out{number}") == 0
        assert [row["response"] for row in read(tmp_path / f"out{number}")] == ["the words as first written"]


def test_dumps_of_comments_in_a_folder_are_read_and_other_files_are_named(tmp_path, capsys):
    """The dumps of Pushshift and those of arctic-shift are recognized by their names."""
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    write_dump(dumps / "RC_1.bz2", comment("a"), comment("b", "t1_a"))
    extra = {"_meta": {"retrieved_2nd_on": 1}, "created_utc": 1136074029, "author_flair_richtext": [], "edited": False}
    (dumps / "pictures_comments.jsonl").write_text(json.dumps(dict(sorted((comment("c", "t1_b") | extra).items()))))
    for name in ("RS_1.bz2", "pictures_submissions.bz2"):
        write_dump(dumps / name, submission("story"))
    (dumps / "notes.txt").write_text("notes")
    assert run(dumps, "--output", tmp_path / "out") == 0
    printed = capsys.readouterr().out
    for name in ("RS_1.bz2", "pictures_submissions.bz2"):
        assert f"{name}: submissions, not comments; add --submissions to read them" in printed
    assert "notes.txt: not named RC_*" in printed
    assert report(tmp_path / "out")["settings"]["files"] == ["RC_1.bz2", "pictures_comments.jsonl"]
    assert len(read(tmp_path / "out")) == 2


def submission(name: str, **changes: object) -> dict:
    fields = {"id": name, "title": f"a story about {name}", "selftext": "", "author": "writer", "subreddit": "pictures"}
    return fields | {"created_utc": "1136074000"} | changes


def test_titles_of_submissions_are_inputs_on_request(tmp_path):
    (tmp_path / "in").mkdir()
    # A submission and a comment may have the same id.
    write_dump(
        tmp_path / "in" / "RS_1.bz2", submission("story"), submission("a", author="newsbot"), submission("alone")
    )
    write_dump(
        tmp_path / "in" / "RC_1.bz2", comment("a"), comment("b", "t1_a"), comment("c", "t3_a"), comment("d", "t3_gone")
    )
    assert run(tmp_path / "in", "--output", tmp_path / "out", "--submissions") == 0
    words = "these are the words of"
    assert sorted((row["input"], row["response"]) for row in read(tmp_path / "out")) == [
        ("a story about story", f"{words} a"),
        (f"{words} a", f"{words} b"),
    ]
    counts = report(tmp_path / "out")
    assert counts["comments"]["author contains bot"] == 1
    assert counts["kept comments"] == {
        "submissions": 2,
        "replies to themselves": 0,
        "what is replied to is not in the dumps": 1,
        "what is replied to was removed": 1,
        "pair": 2,
    }


def test_dumps_are_only_read_without_an_output_and_joined_from_the_files_of_comments(tmp_path, capsys):
    dumps = [
        write_dump(tmp_path / "RC_1.bz2", comment("a"), {"oops": 1}),
        write_dump(tmp_path / "RC_2.bz2", comment("b", "t1_a")),
    ]
    assert run(*dumps, "--comments", tmp_path / "comments") == 0
    assert "files read: 2;" in (printed := capsys.readouterr().out) and "missing field" in printed
    assert run(dumps[0], "--comments", tmp_path / "one") == 0 and "files read: 1;" in capsys.readouterr().out
    assert run(*(tmp_path / "comments").iterdir(), "--output", tmp_path / "out") == 0
    assert run(*dumps, "--output", tmp_path / "straight") == 0
    assert read(tmp_path / "out") == read(tmp_path / "straight") != []


def test_comments_converted_with_other_options_are_converted_again(tmp_path):
    dump = write_dump(tmp_path / "RC_1.bz2", comment("a", body="look at [this](http://a.b)"), comment("b", "t1_a"))
    for options, expected in (((), "look at [this](http://a.b)"), (("--markdown",), "look at this")):
        output = tmp_path / f"out{len(options)}"
        assert run(dump, "--output", output, "--comments", tmp_path / "comments", "--filters", "none", *options) == 0
        assert read(output)[0]["input"] == expected


def test_a_language_filters_dumps_and_files_of_comments_with_a_language(tmp_path, capsys):
    german = "das ist nun wirklich eine ganz wunderbare Nachricht"
    english = "these are certainly some of the words that were written here"
    lines = comment("a", body=english), comment("b", "t1_a", body=german), comment("c", "t1_a", body=f"{english} again")
    dump = write_dump(tmp_path / "RC_1.bz2", *lines)
    assert run(dump, "--output", tmp_path / "out", "--comments", tmp_path / "with", "--language", "en") == 0
    assert [row["response"] for row in read(tmp_path / "out")] == [f"{english} again"]
    assert report(tmp_path / "out")["comments"]["not in language en"] == 1
    made = tmp_path / "with" / "RC_1.parquet"
    assert (
        run(made, "--output", tmp_path / "none", "--language", "de") == 2
    )  # there is no German pair, but the option is accepted
    assert "no pairs are left" in capsys.readouterr().err
    assert run(dump, "--comments", tmp_path / "without") == 0
    assert run(tmp_path / "without" / "RC_1.parquet", "--output", tmp_path / "other", "--language", "en") == 2
    assert "--language: " in (error := capsys.readouterr().err) and "was converted without it" in error


@pytest.mark.parametrize("workers", [1, 2])
def test_dumps_that_an_earlier_run_read_are_not_read_again(tmp_path, capsys, monkeypatch, workers):
    monkeypatch.setattr(comments, "WORTH_WORKERS", 0)
    files = [
        write_dump(tmp_path / "RC_1.bz2", comment("a"), {"oops": 1}),
        write_dump(tmp_path / "RC_2.bz2", comment("b", "t1_a"), {"oops": 2}),
    ]
    options = "--comments", tmp_path / "comments", "--workers", workers
    assert run(*files, "--output", tmp_path / "out", *options) == 0
    first = report(tmp_path / "out")
    assert first["lines left out"] == {"missing field": 2}
    made = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "comments").iterdir()}
    # One dump grows, the other is as it was.
    write_dump(tmp_path / "RC_2.bz2", comment("b", "t1_a"), {"oops": 2}, comment("c", "t1_a"))
    capsys.readouterr()
    assert run(*files, "--output", tmp_path / "again", *options) == 0
    assert "1 of 2 dumps were converted by an earlier run" in capsys.readouterr().out
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "comments").iterdir()}
    assert {name for name in made if made[name] == now[name]} == {"RC_1.parquet"} and now.keys() == made.keys()
    assert [row["response"][-1] for row in read(tmp_path / "again")] == ["b", "c"]
    assert report(tmp_path / "again")["lines left out"] == {"missing field": 2}


def test_a_broken_dump_among_good_ones_is_named_by_the_workers_too(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(comments, "WORTH_WORKERS", 0)
    (tmp_path / "in").mkdir()
    good = write_dump(tmp_path / "RC_2.bz2", comment("a"), comment("b", "t1_a"))
    options = "--output", tmp_path / "out", "--workers", 2, "--comments", tmp_path / "comments"
    assert run(*truncated(tmp_path / "in"), good, *options) == 2
    assert "RC_1.bz2: the archive is truncated" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "comments").iterdir()) == [
        "RC_2.parquet"
    ]  # so that the next run uses it


def test_too_little_memory_for_the_join_is_an_error_that_says_so(tmp_path, capsys):
    dump = write_dump(
        tmp_path / "RC_1.bz2", *(comment(f"c{n}", f"t1_c{n - 1}", body="words " * 50) for n in range(2000))
    )
    assert run(dump, "--output", tmp_path / "out", "--memory_limit", "10MiB") == 2
    assert "error: --memory_limit 10MiB: not enough for the join and the sort" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def truncated(folder: Path) -> list[Path]:
    write_dump(folder / "RC_1.bz2", *(comment(str(number)) for number in range(3000)))
    (folder / "RC_1.bz2").write_bytes((folder / "RC_1.bz2").read_bytes()[:-20])
    return [folder / "RC_1.bz2"]


def empty(folder: Path) -> list[Path]:
    (folder / "RC_1.zst").touch()
    return [folder / "RC_1.zst"]


def utf_16(folder: Path) -> list[Path]:
    (folder / "RC_1.jsonl").write_text(json.dumps(comment("a")), encoding="utf-16")
    return [folder / "RC_1.jsonl"]


def twins(folder: Path) -> list[Path]:
    (folder / "more").mkdir()
    return [write_dump(where / "RC_1.bz2", comment("a"), comment("b", "t1_a")) for where in (folder, folder / "more")]


def pairs_for_comments(folder: Path) -> Path:
    pq.write_table(pa.table({"input": ["a"], "response": ["b"]}), folder / "pairs.parquet")
    return folder / "pairs.parquet"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (truncated, "RC_1.bz2: the archive is truncated"),
        (empty, "RC_1.zst: the file is empty"),
        (utf_16, "RC_1.jsonl: UTF-16, expected UTF-8; convert the file to UTF-8"),
        (twins, "two files with the same name"),
        (lambda folder: [folder / "RC_9.bz2"], "RC_9.bz2: cannot be read (No such file or directory)"),
        (lambda folder: [folder], "no dumps of comments in"),
        (lambda folder: [*truncated(folder), "--memory_limit", "much"], "--memory_limit much: expected a number"),
        (lambda folder: [write_dump(folder / "RC_1.bz2", {"a": 1})], "RC_1.bz2: contains no comments"),
        (lambda folder: [pairs_for_comments(folder)], "pairs.parquet: no column id, parent_id, link_id"),
    ],
)
def test_a_users_mistake_gives_one_message_exit_code_2_and_no_output(tmp_path, capsys, make, message):
    (tmp_path / "in").mkdir()
    assert run(*make(tmp_path / "in"), "--output", tmp_path / "out") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


def test_a_user_s_file_in_the_folder_of_comments_is_not_replaced(tmp_path):
    dump = tmp_path / "RC_2001-01.jsonl"
    dump.write_text("")
    output = tmp_path / "comments" / "RC_2001-01.parquet"
    output.parent.mkdir()
    for content in (b"years of work", None):
        if content is None:
            pq.write_table(pa.table({"text": ["years of work"]}), output)
        else:
            output.write_bytes(content)
        before = output.read_bytes()
        with pytest.raises(InputError, match=r"RC_2001-01\.parquet would be replaced, but is not a file that this"):
            comments.convert_sources([dump], [output], BrokenLines())
        assert output.read_bytes() == before
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def test_a_damaged_file_of_comments_is_named_and_converted_again_once_it_is_deleted(tmp_path, capsys):
    dump = write_dump(tmp_path / "RC_1.bz2", comment("a"), comment("b", "t1_a"))
    options = "--comments", tmp_path / "kept", "--filters", "none"
    assert run(dump, "--output", tmp_path / "first", *options) == 0
    file = tmp_path / "kept" / "RC_1.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    assert run(dump, "--output", tmp_path / "second", *options) == 2
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("error: "))
    assert "RC_1.parquet" in line and line.endswith("is damaged, delete it, and run the command again")
    file.unlink()
    assert run(dump, "--output", tmp_path / "second", *options) == 0
    assert file.read_bytes() == whole and read(tmp_path / "second") == read(tmp_path / "first") != []


@pytest.mark.parametrize("options", [[], ["--context", "2", "--submissions"]])
def test_the_context_of_a_pair_is_the_comments_before_its_input(tmp_path, options):
    (tmp_path / "in").mkdir()
    write_dump(tmp_path / "in" / "RS_1.bz2", submission("story"))
    comments = [
        comment("a"),
        comment("b", "t1_a"),
        comment("b", "t1_a", body="these are the words of b as edited", created_utc=1136074999),
        comment("c", "t1_b", body="[removed]"),
        comment("d", "t1_c", author="HelpfulBot"),
        comment("e", "t1_d"),
        comment("f", "t1_e"),
        comment("g", "t1_f"),
        comment("x", "t1_missing"),
        comment("y", "t1_x"),
        comment("z", "t1_y"),
    ]
    write_dump(tmp_path / "in" / "RC_1.bz2", *comments[:5])
    write_dump(tmp_path / "in" / "RC_2.bz2", *comments[5:])
    assert run(tmp_path / "in", "-o", tmp_path / "out", *options) == 0
    title = "--submissions" in options
    if title:
        expected = {"a": [], "b": ["story"], "f": ["b", "a", "story"], "g": ["e", "b", "a"], "y": [], "z": ["x"]}
    else:
        expected = {"b": [], "f": ["b", "a"], "g": ["e", "b", "a"], "y": [], "z": ["x"]}
    turns = int(options[1]) if "--context" in options else 3
    found = {row["response"].split()[-1]: row["context"] for row in read(tmp_path / "out")}
    names = {key: f"these are the words of {key}" for key in "abcdefgxyz"} | {"story": "a story about story"}
    assert found == {key: [names[each] for each in context[:turns]] for key, context in expected.items()}


def test_contexts_do_not_depend_on_the_order_of_the_files(tmp_path):
    """The same pair is in its thread twice, after different comments."""
    first = write_dump(tmp_path / "RC_1.bz2", comment("a"), comment("b", "t1_a"), comment("c", "t1_b"))
    same = {"b": "these are the words of b", "c": "these are the words of c"}
    second = [comment("o"), comment("p", "t1_o", body=same["b"]), comment("q", "t1_p", body=same["c"])]
    other = write_dump(tmp_path / "RC_2.bz2", *second)
    for number, files in enumerate([(first, other), (other, first)]):
        assert run(*files, "-o", tmp_path / f"out{number}") == 0
        found = [row["context"] for row in read(tmp_path / f"out{number}") if row["response"] == same["c"]]
        assert found == [["these are the words of a"]]
