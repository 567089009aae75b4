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
import yaml
from huggingface_hub import DatasetCard, DatasetCardData, constants, metadata_load
from huggingface_hub.utils import close_session

from data_scripts.__main__ import main
from data_scripts.clean.filters import add_filter_arguments
from data_scripts.clean.masking_recall import read_recall
from data_scripts.files.datasets import load_pairs
from data_scripts.pairs import dataset as output
from data_scripts.pairs import shards
from data_scripts.pairs.dataset import write_pairs
from data_scripts.pairs.options import add_output_arguments
from data_scripts.pairs.plots import draw_plots
from data_scripts.pairs.splits import hash_splits
from data_scripts.schemas import PAIR_SCHEMA, SPLITS
from tests.forking import Interpreter
from tests.loopback_hub import WRITE_TOKEN, LoopbackHub

Pair = tuple[str, str, str, str]


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
    scratch = folder.with_name(f"{folder.name}-scratch")
    folder.mkdir()
    scratch.mkdir()
    columns = dict(zip(PAIR_SCHEMA.names, map(list, zip(*pairs, strict=True)), strict=True))
    pq.write_table(pa.table(columns, schema=PAIR_SCHEMA), scratch / "made.parquet")
    report = {"settings": {"command": "test", "split": args.split, "files": ["made.parquet"], **(settings or {})}}
    report |= sections or {}
    write_pairs(
        ibis.duckdb.connect().read_parquet(scratch / "made.parquet"), folder, scratch, args, report, public_sources
    )
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


def split_of(thread: str) -> str:
    percent = int(hashlib.sha256(thread.encode()).hexdigest(), 16) % 100
    return "test" if percent <= 9 else "validation" if percent == 10 else "train"


def rows(folder: Path) -> dict[str, list[Pair]]:
    return {
        split: [
            tuple(row.values()) for file in sorted(folder.glob(f"{split}-*")) for row in pq.read_table(file).to_pylist()
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


def test_split_is_the_hash_of_the_thread_modulo_100():
    keys = [f"t3_{number}" for number in range(1000)]
    assert [SPLITS[index] for index in hash_splits(keys)] == list(map(split_of, keys))


def test_the_random_split_is_the_hash_of_both_texts_of_a_pair(tmp_path):
    pairs = [(f"input {number % 40}", f"response {number % 23}", "t1", "s") for number in range(300)]
    written(tmp_path / "out", pairs, "--split", "random")
    found = {split: {pair[:2] for pair in part} for split, part in rows(tmp_path / "out").items()}
    expected = {split: {pair[:2] for pair in pairs if split_of("\t".join(pair[:2])) == split} for split in SPLITS}
    assert found == expected and all(expected.values())


@pytest.mark.parametrize("batch", [1, 7, 100_000])
def test_pairs_are_written_once_each_to_the_split_of_their_thread_in_order(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(shards, "BATCH_ROWS", batch)
    pairs = draw_pairs(1_000)
    pairs += pairs[:50]
    report = written(tmp_path / "out", pairs)
    expected = {split: [] for split in ("train", "validation", "test")}
    for pair in sorted(set(pairs), key=lambda pair: (pair[2], *pair)):
        expected[split_of(pair[2])].append(pair)
    assert rows(tmp_path / "out") == expected
    assert report["splits"] == {split: len(found) for split, found in expected.items()}
    assert report["pairs"] == {"repeated in their thread": len(pairs) - len(set(pairs)), "written": len(set(pairs))}


def test_statistics_equal_a_plain_count_for_any_batch_size(tmp_path, monkeypatch):
    pairs = draw_pairs(1_000)
    reports = []
    for name, batch in (("whole", 100_000), ("small", 3)):
        monkeypatch.setattr(shards, "BATCH_ROWS", batch)
        reports.append(written(tmp_path / name, pairs))
    assert reports[0] == reports[1]
    distinct = set(pairs)
    threads = Counter(pair[2] for pair in distinct)
    inputs = Counter((pair[2], pair[0]) for pair in distinct)
    assert reports[0]["threads"] == {
        "threads": len(threads),
        "pairs in the largest": max(threads.values()),
        "share of the largest": round(max(threads.values()) / len(distinct), 4),
        "pairs per input": round(len(distinct) / len(inputs), 2),
    }
    assert reports[0]["characters"] == {
        f"{side}, {name}": int(np.quantile([len(pair[column]) for pair in distinct], share, method="inverted_cdf"))
        for column, side in enumerate(("input", "response"))
        for name, share in (("median", 0.5), ("95th percentile", 0.95))
    }


def test_large_splits_are_sharded_and_load_completely(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "BATCH_ROWS", 10)
    monkeypatch.setattr(shards, "SHARD_BYTES", 2_000)
    pairs = draw_pairs(500)
    report = written(tmp_path / "out", pairs)
    train = sorted(path.name for path in (tmp_path / "out").glob("train-*"))
    assert len(train) > 5
    assert train == [f"train-{number:05d}-of-{len(train):05d}.parquet" for number in range(len(train))]
    sizes = [
        sum(len(value) + shards.OFFSET_BYTES for row in pq.read_table(path).to_pylist() for value in row.values())
        for path in sorted((tmp_path / "out").glob("train-*"))
    ]
    assert all(2_000 <= size < 2_600 for size in sizes[:-1])  # one row group of ten pairs at most beyond the limit
    loaded = datasets.load_dataset(str(tmp_path / "out"))
    assert {split: len(loaded[split]) for split in loaded} == {s: n for s, n in report["splits"].items() if n}
    assert len(load_pairs(str(tmp_path / "out"))["train"]) == report["splits"]["train"]


def test_repeated_responses_are_capped_ignoring_case_and_punctuation(tmp_path):
    thanks = ["Thanks!", "thanks", "THANKS...", "thanks :)", "Than ks"]
    # Those of the first threads stay, whatever the sources are named.
    pairs = [(f"input {number}", text, f"t{number}", f"s{9 - number}") for number, text in enumerate(thanks)]
    pairs += [("one", "!!!", "u1", "s"), ("two", "...", "u2", "s"), ("three", "Спасибо!", "u3", "s")]
    report = written(tmp_path / "out", pairs, "--max_repeats", "2")
    found = [pair for split in rows(tmp_path / "out").values() for pair in split]
    assert sorted(pair[2] for pair in found) == ["t0", "t1", "u1", "u2", "u3"]
    assert report["pairs"] == {"repeated in their thread": 0, "response already in 2 pairs": 3, "written": 5}


def test_a_reply_that_occurs_twice_in_its_thread_counts_once_among_repeated_responses(tmp_path):
    pairs = [("one", "Thanks!", "t1", "s")] * 3 + [("two", "thanks", "t2", "s"), ("three", "thanks", "t3", "s")]
    report = written(tmp_path / "out", pairs, "--max_repeats", "2")
    found = [pair for split in rows(tmp_path / "out").values() for pair in split]
    assert sorted(pair[2] for pair in found) == ["t1", "t2"]
    assert report["pairs"] == {"repeated in their thread": 2, "response already in 2 pairs": 1, "written": 2}


def test_personal_data_are_masked_on_both_sides_and_counted(tmp_path):
    pairs = [("ask @jane", "or call 202-555-0123", "t1", "s"), ("hello", "write to a@b.cd", "t1", "s")]
    report = written(tmp_path / "out", pairs, "--mask")
    found = sorted(pair[:2] for split in rows(tmp_path / "out").values() for pair in split)
    assert found == [("ask [USER]", "or call [PHONE]"), ("hello", "write to [EMAIL]")]
    masked = {kind: number for kind, number in report["masked"].items() if number}
    assert masked == {"e-mail addresses": 1, "user names": 1, "phone numbers": 1}


@pytest.mark.parametrize("batch", [1, 100_000])
def test_threads_sources_and_names_of_files_are_masked_and_splits_stay(tmp_path, monkeypatch, batch, capsys):
    monkeypatch.setattr(shards, "BATCH_ROWS", batch)
    threads = [f"jane.doe{number}@example.org" for number in range(40)]
    pairs = [(f"input {n}", f"response {m}", f"{thread}", f"Chat with Bob/{n % 3}")
             for n, thread in enumerate(threads) for m in range(2)]  # fmt: skip
    settings = {"files": ["Chat with Bob.csv"], "columns": ["text=Bob.text", "parent=jane@doe.org"], "gap": "1h"}
    broken = {"first lines left out": ["Chat with Bob.csv:3: wrong time (jane)"], "messages left out": {"role Bob": 2}}
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
    assert report["messages left out"] == {"role (withheld)": 2}
    published = (tmp_path / "out" / "report.json").read_text() + (tmp_path / "out" / "README.md").read_text()
    assert not [name for name in ("jane", "Chat with", "wrong time") if name in published]


def test_public_sources_keep_their_names_but_for_user_names(tmp_path):
    pairs = [("one", "two", "t1", "u_jane"), ("one", "three", "t2", "AskReddit")]
    settings = {"files": ["RC_2015-01.zst"]}
    report = written(tmp_path / "out", pairs, "--mask", settings=settings, public_sources=True)
    assert {pair[3] for part in rows(tmp_path / "out").values() for pair in part} == {"[USER]", "AskReddit"}
    assert report["settings"]["files"] == ["RC_2015-01.zst"]


def test_regions_of_phone_numbers_are_checked_and_used(tmp_path, chats, capsys):
    for options in (["--mask", "--phone_regions", "US,XX"], ["--phone_regions", "US"]):
        assert main(["conversations", str(chats), "--output", str(tmp_path / "out"), *options]) == 2
        assert "--phone_regions" in capsys.readouterr().err
    written(tmp_path / "german", [("hello", "030 901820", "t1", "s")], "--mask", "--phone_regions", "us,de")
    assert [pair[1] for part in rows(tmp_path / "german").values() for pair in part] == ["[PHONE]"]


def test_reports_name_files_without_their_folders_and_no_value_of_the_data(tmp_path):
    lines = ["thread\ttext\ttime", *(f"t\tgood morning to you {n}\t{n}" for n in range(5)), "t\thello\tjane@doe.org"]
    (tmp_path / "jane").mkdir()
    (tmp_path / "jane" / "chats.tsv").write_text("\n".join(lines))
    command = ["conversations", str(tmp_path / "jane" / "chats.tsv"), "--filters", "none", "-o", str(tmp_path / "out")]
    assert main(command) == 0
    text = (tmp_path / "out" / "report.json").read_text()
    assert '"chats.tsv:7: wrong time (' in text and "jane" not in text


def card(folder: Path) -> tuple[dict, str]:
    _, front, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), text


def test_the_card_has_the_metadata_for_datasets_and_the_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "draw_plots", draw_plots)
    report = written(tmp_path / "out", draw_pairs(1_000), "--license", "cc-by-4.0")
    metadata, text = card(tmp_path / "out")
    assert metadata["license"] == "cc-by-4.0"
    assert {part["name"]: part["num_examples"] for part in metadata["dataset_info"]["splits"]} == report["splits"]
    files = (tmp_path / "out").glob("*.parquet")
    assert metadata["dataset_info"]["download_size"] == sum(file.stat().st_size for file in files)
    assert f"| train | {report['splits']['train']:,} |" in text and "NOT STATED" not in text
    for plot in ("characters", "replies"):
        assert f"(plots/{plot}.png)" in text
        assert (tmp_path / "out" / "plots" / f"{plot}.png").read_bytes().startswith(b"\x89PNG")


def test_a_card_without_a_license_says_that_it_is_missing(tmp_path):
    written(tmp_path / "out", draw_pairs(100))
    metadata, text = card(tmp_path / "out")
    assert metadata["license"] == "unknown" and "NOT STATED" in text


def test_the_hubs_validator_accepts_the_card_and_its_metadata_are_read_without_loss(tmp_path, monkeypatch):
    written(tmp_path / "out", draw_pairs(1_000), "--license", "cc-by-4.0")
    path = tmp_path / "out" / "README.md"
    with LoopbackHub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        close_session()
        found = DatasetCard.load(path)
        found.validate()
        assert hub.requests == ["POST /api/validate-yaml"]
    assert found.data.to_dict() == metadata_load(path) == card(tmp_path / "out")[0]
    assert found.data.task_categories == ["sentence-similarity"] and found.data.size_categories == ["n<1K"]
    assert not set(found.data.to_dict()) - {*vars(DatasetCardData()), "tags", "configs", "dataset_info"}


def test_the_cards_example_runs_in_the_folder(tmp_path, monkeypatch):
    report = written(tmp_path / "out", draw_pairs(1_000))
    (block,) = re.findall(r"```python\n(.*?)```", card(tmp_path / "out")[1], flags=re.DOTALL)
    monkeypatch.chdir(tmp_path / "out")
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert {split: len(rows) for split, rows in names["pairs"].items()} == report["splits"]


def test_the_card_describes_the_treatment_of_language_and_personal_data(tmp_path):
    written(tmp_path / "plain", draw_pairs(100))
    metadata, text = card(tmp_path / "plain")
    assert "language" not in metadata and "- Language: not checked" in text and "data: not masked" in text
    written(tmp_path / "masked", draw_pairs(100), "--mask", settings={"language": "de"})
    metadata, text = card(tmp_path / "masked")
    assert (
        metadata["language"] == "de"
        and "another language than `de`" in text
        and "Names of people in the texts are not detected" in text
    )
    recall = read_recall()["phone numbers"]
    assert f"| phone numbers | 0 | {recall['masked']} of {recall['forms']} (" in text


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

        refused = python(code, *command, token="hf_unknown")
        assert refused.returncode == 2
        assert f"hf upload me/chats {tmp_path / 'out'} --repo-type dataset" in refused.stderr
        assert load_pairs(str(tmp_path / "out"))  # the computed pairs are not lost
        pushed = python(code, *command, "--overwrite", token=WRITE_TOKEN)
        assert pushed.returncode == 0, pushed.stderr
        loaded = python(read, token=WRITE_TOKEN)
        assert loaded.returncode == 0, loaded.stderr
    splits = json.loads(loaded.stdout.splitlines()[-1])
    found = {name: [tuple(row.values()) for row in part] for name, part in splits.items()}
    assert found == {name: part for name, part in rows(tmp_path / "out").items() if part}
