"""Datasets of pairs: the files, the splits, repeated and masked pairs, and the push to the Hub."""

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
from collections import Counter
from pathlib import Path

import datasets
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.loading import load_pairs
from data_scripts.pairs import dataset as output
from data_scripts.pairs import engines
from data_scripts.pairs.dataset import join_parts, write_pairs, write_part
from data_scripts.pairs.options import PairOptions, add_filter_arguments, add_output_arguments
from data_scripts.schemas import PAIR_SCHEMA, SPLITS
from modeling_convsim.files.errors import InputError
from tests.forking import Interpreter
from tests.loopback_hub import WRITE_TOKEN, LoopbackHub

Pair = tuple[str, ...]  # input, response, thread, source, and in some the earlier turns


def pairs_table(pairs: list[Pair]) -> pa.Table:
    """Pairs as a table, without earlier turns where a pair has none."""
    columns = [[pair[column] for pair in pairs] for column in range(4)]
    return pa.table([*columns, [list(pair[4:]) for pair in pairs]], schema=PAIR_SCHEMA)


def written(
    folder: Path,
    pairs: list[Pair],
    *arguments: str,
    settings: dict | None = None,
    sections: dict | None = None,
    public_sources: bool = False,
) -> dict:
    """Write some pairs with DuckDB; returns the report."""
    parser = argparse.ArgumentParser()
    add_filter_arguments(parser)
    add_output_arguments(parser)
    args = parser.parse_args([*arguments, "--output", str(folder)])
    folder.mkdir()
    table = ibis.duckdb.connect().create_table("made", pairs_table(pairs))
    report = {"settings": {"command": "test", "split": args.split, "files": ["made.parquet"], **(settings or {})}}
    report |= sections or {}
    print(write_pairs(table, folder, PairOptions.from_arguments(args), report, public_sources))
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def split_of(thread: str) -> str:
    percent = int(hashlib.sha256(thread.encode()).hexdigest(), 16) % 100
    return "test" if percent <= 9 else "validation" if percent == 10 else "train"


def rows(folder: Path) -> dict[str, list[Pair]]:
    return {
        split: [
            (*list(row.values())[:4], *row["context"])
            for file in sorted(folder.glob(f"{split}-*"))
            for row in pq.read_table(file).to_pylist()
        ]
        for split in ("train", "validation", "test")
    }


def draw_pairs(number: int, seed: int = 0) -> list[Pair]:
    draw = random.Random(seed)
    return [
        (f"input {draw.randrange(number // 4)}", draw.choice(["yes", "No!", f"response {draw.random()}"]),
         f"t{draw.randrange(number // 20)}", draw.choice("ab"))
        for _ in range(number)
    ]  # fmt: skip


def test_the_random_split_is_the_hash_of_both_texts_of_a_pair(tmp_path):
    pairs = [(f"input {number % 40}", f"response {number % 23}", "t1", "s") for number in range(300)]
    written(tmp_path / "out", pairs, "--split", "random")
    found = {split: {pair[:2] for pair in part} for split, part in rows(tmp_path / "out").items()}
    expected = {split: {pair[:2] for pair in pairs if split_of("\t".join(pair[:2])) == split} for split in SPLITS}
    assert found == expected and all(expected.values())


@pytest.mark.parametrize("batch", [7, 100_000])
def test_pairs_are_written_once_each_to_the_split_of_their_thread_in_order(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(engines, "BATCH_ROWS", batch)
    pairs = draw_pairs(1_000)
    pairs += pairs[:50]
    report = written(tmp_path / "out", pairs)
    expected = {split: [] for split in ("train", "validation", "test")}
    for pair in sorted(set(pairs), key=lambda pair: (pair[2], *pair)):
        expected[split_of(pair[2])].append(pair)
    assert rows(tmp_path / "out") == expected
    assert report["splits"] == {split: len(found) for split, found in expected.items()}
    assert report["pairs"] == {"repeated in their thread": len(pairs) - len(set(pairs)), "written": len(set(pairs))}


def test_large_splits_are_sharded_and_load_completely(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "BATCH_ROWS", 10)
    monkeypatch.setattr(output, "SHARD_ROWS", 40)
    report = written(tmp_path / "out", draw_pairs(500))
    train = sorted((tmp_path / "out").glob("train-*"))
    assert len(train) > 5
    assert [path.name for path in train] == [f"train-{n:05d}-of-{len(train):05d}.parquet" for n in range(len(train))]
    assert all(40 <= pq.read_metadata(path).num_rows < 50 for path in train[:-1])
    loaded = datasets.load_dataset(str(tmp_path / "out"))
    assert {split: len(loaded[split]) for split in loaded} == {s: n for s, n in report["splits"].items() if n}
    assert len(load_pairs(str(tmp_path / "out"))["train"]) == report["splits"]["train"]


def test_repeated_responses_are_capped_ignoring_case_and_punctuation(tmp_path):
    thanks = ["Thanks!", "thanks", "THANKS...", "thanks :)", "Than ks"]
    # Those of the first threads stay, whatever the sources are named.
    pairs = [(f"input {number}", text, f"t{number}", f"s{9 - number}") for number, text in enumerate(thanks)]
    pairs += pairs[:1] * 2  # a reply that occurs several times in its thread counts once
    pairs += [("one", "!!!", "u1", "s"), ("two", "...", "u2", "s"), ("three", "Спасибо!", "u3", "s")]
    report = written(tmp_path / "out", pairs, "--max_repeats", "2")
    found = [pair for split in rows(tmp_path / "out").values() for pair in split]
    assert sorted(pair[2] for pair in found) == ["t0", "t1", "u1", "u2", "u3"]
    assert report["pairs"] == {"repeated in their thread": 2, "response already in 2 pairs": 3, "written": 5}


@pytest.mark.parametrize("batch", [1, 100_000])
def test_personal_data_are_masked_in_each_earlier_turn(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(engines, "BATCH_ROWS", batch)
    pairs = [
        ("one", "two", "t1", "s"),
        ("two", "three", "t1", "s", "write to a@b.cd", "so"),
        ("x", "y", "t2", "s", "@ann"),
    ]
    report = written(tmp_path / "out", pairs, "--mask", "--split", "random")
    found = {pair[0]: pair[4:] for part in rows(tmp_path / "out").values() for pair in part}
    assert found == {"one": (), "two": ("write to [EMAIL]", "so"), "x": ("[USER]",)}
    assert report["masked"]["e-mail addresses"] == report["masked"]["user names"] == 1
    assert report["threads"]["pairs with earlier turns"] == 2


@pytest.mark.parametrize("batch", [1, 100_000])
def test_a_pair_that_occurs_twice_in_a_thread_is_written_with_its_first_context(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(engines, "BATCH_ROWS", batch)
    pairs = [("one", "two", "t1", "s", *turns) for turns in (["b"], ["a", "b"], ["a"], ["a"])]
    report = written(tmp_path / "out", pairs)
    assert [pair for part in rows(tmp_path / "out").values() for pair in part] == [("one", "two", "t1", "s", "a")]
    assert report["pairs"]["repeated in their thread"] == 3


@pytest.mark.parametrize("batch", [1, 100_000])
def test_threads_sources_and_names_of_files_are_masked_and_splits_stay(tmp_path, monkeypatch, batch, capsys):
    monkeypatch.setattr(engines, "BATCH_ROWS", batch)
    threads = [f"jane.doe{number}@example.org" for number in range(40)]
    pairs = [(f"input {n}", f"response {m}", f"{thread}", f"Chat with Bob/{n % 3}")
             for n, thread in enumerate(threads) for m in range(2)]  # fmt: skip
    settings = {"files": ["Chat with Bob.csv"], "columns": ["text=Bob.text", "parent=jane@doe.org"], "gap": "1h"}
    broken = {
        "first lines left out": ["Chat with Bob.csv:3: wrong time (jane)"],
        "messages left out": {"type jane@doe.org": 2},
    }
    report = written(tmp_path / "out", pairs, "--mask", settings=settings, sections=broken)
    printed = capsys.readouterr().out
    assert printed.startswith(
        "first lines left out (only shown here, because of --mask)\n  Chat with Bob.csv:3: wrong time (jane)\n"
    )
    assert re.search(r"written +80$", printed, re.MULTILINE)  # the report
    assert report["settings"]["columns"] == ["text=Bob.text", "parent=[EMAIL]"]
    assert "first lines left out" not in report
    found = rows(tmp_path / "out")
    inputs = {split: {pair[0] for pair in part} for split, part in found.items()}
    expected = {
        split: {f"input {n}" for n, thread in enumerate(threads) if split_of(thread) == split} for split in found
    }
    assert inputs == expected
    names = [pair[2:] for part in found.values() for pair in part]
    assert {thread for thread, _ in names} == {f"thread-{number}" for number in range(1, 41)}
    assert all(count == 2 for count in Counter(thread for thread, _ in names).values())
    assert {source for _, source in names} == {"source-1", "source-2", "source-3"}
    assert report["settings"]["files"] == ["1 (names withheld)"] and report["settings"]["gap"] == "1h"
    assert report["messages left out"] == {"type [EMAIL]": 2}
    published = (tmp_path / "out" / "report.json").read_text() + (tmp_path / "out" / "README.md").read_text()
    assert not [name for name in ("jane", "Chat with", "wrong time") if name in published]


def test_public_sources_keep_their_names_but_for_user_names(tmp_path):
    pairs = [("one", "two", "t1", "u_jane"), ("one", "three", "t2", "AskReddit")]
    settings = {"files": ["RC_2015-01.zst"]}
    report = written(tmp_path / "out", pairs, "--mask", settings=settings, public_sources=True)
    assert {pair[3] for part in rows(tmp_path / "out").values() for pair in part} == {"[USER]", "AskReddit"}
    assert report["settings"]["files"] == ["RC_2015-01.zst"]


def test_reports_name_files_without_their_folders_and_no_value_of_the_data(tmp_path):
    lines = ["thread\ttext\ttime", *(f"t\tgood morning to you {n}\t{n}" for n in range(5)), "t\thello\tjane@doe.org"]
    (tmp_path / "jane").mkdir()
    (tmp_path / "jane" / "chats.tsv").write_text("\n".join(lines))
    command = ["conversations", str(tmp_path / "jane" / "chats.tsv"), "--filters", "none", "-o", str(tmp_path / "out")]
    assert main(command) == 0
    text = (tmp_path / "out" / "report.json").read_text()
    assert '"chats.tsv:7: wrong time (' in text and "jane" not in text


@pytest.fixture
def chats(tmp_path) -> Path:
    lines = [f"are you the {'first ' * number}one?\tthank you, I am {'the last ' * number}" for number in range(30)]
    (tmp_path / "chats.tsv").write_text("\n".join(["input\tresponse", *lines]))
    return tmp_path / "chats.tsv"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--push_to_hub", "me/chats"], "--push_to_hub: add --license ID with the license"),
        (["--push_to_hub", "chats", "--license", "other"], "expected OWNER/NAME"),
    ],
)
def test_a_push_that_would_fail_is_refused_before_anything_is_read(chats, capsys, options, message):
    assert main(["conversations", str(chats), "--output", str(chats.parent / "out"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (chats.parent / "out").exists()


def test_the_folder_is_published_and_loads_by_its_hub_id(chats, tmp_path):
    code = "import sys; from data_scripts.__main__ import main; sys.exit(main(sys.argv[1:]))"
    command = ["conversations", str(chats), "--output", str(tmp_path / "out")]
    command += ["--push_to_hub", "me/chats", "--license", "cc0-1.0"]
    read = (
        "import datasets, json; d = datasets.load_dataset('me/chats');"
        "print(json.dumps({k: [dict(r) for r in v] for k, v in d.items()}))"
    )
    libraries = ["datasets", "data_scripts.pairs.engines", "data_scripts.chats.conversations"]
    with LoopbackHub() as hub, Interpreter(libraries, os.environ | hub.environment(tmp_path / "home")) as interpreter:

        def python(code: str, *arguments: str, token: str) -> subprocess.CompletedProcess[str]:
            return interpreter.run(code, *arguments, cwd=tmp_path, path=tmp_path, HF_TOKEN=token)

        hub.add_dataset(
            "me/chats", {"nli/train.parquet": b"mine", "train-00000-of-00009.parquet": b"of an earlier push"}
        )
        refused = python(code, *command, token="hf_unknown")
        assert refused.returncode == 2
        assert f"hf upload me/chats {tmp_path / 'out'} --repo-type dataset" in refused.stderr
        assert load_pairs(str(tmp_path / "out"))  # the computed pairs are not lost
        pushed = python(code, *command, "--overwrite", token=WRITE_TOKEN)
        assert pushed.returncode == 0, pushed.stderr
        pushed_files = hub.repositories["datasets", "me/chats"].files()
        assert "nli/train.parquet" in pushed_files and "train-00000-of-00009.parquet" not in pushed_files
        loaded = python(read, token=WRITE_TOKEN)
        assert loaded.returncode == 0, loaded.stderr
    splits = json.loads(loaded.stdout.splitlines()[-1])
    found = {name: [(*list(row.values())[:4], *row["context"]) for row in part] for name, part in splits.items()}
    assert found == {name: part for name, part in rows(tmp_path / "out").items() if part}


def test_no_pair_is_an_error_that_shows_the_counts(tmp_path):
    with pytest.raises(InputError, match=r"(?s)no pairs are left to write; the counts are:.*removed by a rule +7"):
        written(tmp_path / "out", [], sections={"texts": {"removed by a rule": 7}})
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("parts", [1, 40])
def test_parts_give_the_pairs_and_counts_of_one_pass(tmp_path, masked, parts):
    pairs = [(f"{one} to me@example.com", *others) for one, *others in draw_pairs(600)]
    report = written(tmp_path / "one", pairs, *(["--mask"] if masked else []), public_sources=True)
    folder = tmp_path / "out"
    folder.mkdir()
    threads, results = 0, []
    for number, names in enumerate(np.array_split(sorted({pair[2] for pair in pairs}), parts)):
        part = sorted((pair for pair in pairs if pair[2] in set(names)), key=lambda pair: (pair[2], *pair))
        tables = [pairs_table(part[start : start + 7]) for start in range(0, len(part), 7)]
        masking = (("US",), True) if masked else None
        results.append(write_part(str(folder), "thread", masking, tables, number, threads))
        threads += len(names)
    counts = join_parts(results, folder)
    assert rows(folder) == rows(tmp_path / "one")
    names = {file.name for file in folder.glob("*.parquet")}
    assert all(name.endswith(f"-of-{sum(other[:5] == name[:5] for other in names):05d}.parquet") for name in names)
    sections = counts.sections()
    assert {name: report[name] for name in sections} == sections
    assert dict(counts.rows) == report["splits"] and dict(counts.masked) == report.get("masked", {})
    assert counts.read["repeated"] == report["pairs"]["repeated in their thread"] > 0


def test_files_that_a_machine_wrote_elsewhere_are_missed(tmp_path):
    tables = [pairs_table([(name,) * 4]) for name in ("a", "b")]
    parts = [write_part(str(tmp_path), "thread", None, [table], number, 0) for number, table in enumerate(tables)]
    next(tmp_path.glob("*-part-00001-*.parquet")).unlink()
    with pytest.raises(InputError, match=r"-part-00001-00000.parquet is missing; all Spark machines"):
        join_parts(parts, tmp_path)
