"""Each command reads the public datasets that it names, from small copies with the layout of the originals.

All commands run in one process, whose huggingface_hub asks the copies' server.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from data_scripts.public_datasets import public_datasets
from tests.hub_copies import CONVERTED, FEBRUARY, IMAGE_BYTES, IMAGES, JANUARY, NLI, add_public_datasets, of_split
from tests.loopback_hub import READ_TOKEN, LoopbackHub

RUNNER = """
import contextlib, io, json, os, sys
import datasets
from data_scripts import __main__ as program


def load_run(sources):
    from types import SimpleNamespace
    from trainer.data.datasets import load_run_data, training_text_columns
    data = load_run_data(SimpleNamespace(seed=0, snli_share=1.0, **sources))
    rows = {name: [len(rows), *columns] for (name, columns), rows in
            zip(training_text_columns(data).items(), data.training.values())}
    print(json.dumps([rows, {name: sorted(splits) for name, splits in data.evaluation.items()}]))

datasets.disable_progress_bars()
results = []
for arguments, environment in json.load(open(sys.argv[1])):
    os.environ.pop("HF_TOKEN", None)
    os.environ.update(environment)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = load_run(json.loads(arguments[1])) if arguments[0] == "run" else program.main(arguments)
    results.append([code, out.getvalue(), err.getvalue()])
json.dump(results, open(sys.argv[2], "w"))
"""

Rows = list[tuple[Any, ...]]


def nli(*splits: str) -> dict[str, Rows]:
    rows = {split: of_split(split, NLI) for split in splits}
    return {
        {"dev": "validation"}.get(split, split): list(zip(*columns.values(), strict=True))
        for split, columns in rows.items()
    }


def images(*captions: list[str]) -> Rows:
    return [(texts,) for texts in captions]


STS = [("A cat naps.", "A cat sleeps.", 5.0), ("A man sings.", "A car stops.", 1.5)]
STS_COLUMNS = ("sentence1", "sentence2", "score")
NLI_COLUMNS = ("premise", "hypothesis", "label")
QUORA = ("How do I boil rice?", "What is the way to boil rice?")
SIMPLE = ("The vessel, which was old, sank in 1801 .", "The old ship sank in 1801 .")
FIRST = (NLI["premise"][0], NLI["hypothesis"][0])
NO_FILTERS = ("--filters", "none")

# Command and its source -> the columns to compare, and the rows of each split.
CASES: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, Rows]]] = {
    ("nli", "sentence-transformers/all-nli:pair-class"): (NLI_COLUMNS, nli("train", "dev", "test")),
    ("nli", "nyu-mll/multi_nli@main"): (NLI_COLUMNS, nli("train", "validation_matched", "validation_mismatched")),
    ("stsb", "mteb/stsbenchmark-sts"): (STS_COLUMNS, dict.fromkeys(("train", "validation", "test"), STS)),
    ("sts", "mteb/sts12-sts", "mteb/sts16-sts"): (
        ("year", "set", *STS_COLUMNS),
        {
            "train": [("2012", "all", *row) for row in STS],
            "test": [(f"20{year}", "all", *row) for year in (12, 16) for row in STS],
        },
    ),
    ("paraphrases", "sentence-transformers/all-nli:triplet"): (
        STS_COLUMNS,
        {
            {"dev": "validation"}.get(split, split): [
                (f"{FIRST[0]}{end}", f"{FIRST[1]}{end}", 1.0),
                (f"{FIRST[0]}{end}", f"Nobody carries anything.{end}", 0.0),
            ]
            for split, end in (("train", ""), ("dev", " (dev)"), ("test", " (test)"))
        },
    ),
    ("paraphrases", "sentence-transformers/quora-duplicates:pair-class"): (
        STS_COLUMNS,
        {"train": [(*QUORA, 1.0), ("Where is Oslo?", "Where can I buy skis?", 0.0)]},
    ),
    ("paraphrases", "sentence-transformers/parallel-sentences-tatoeba:en-de"): (
        STS_COLUMNS,
        {
            "train": [("The tea is cold.", "Der Tee ist kalt.", None)],
            "validation": [("The tea is cold. (dev)", "Der Tee ist kalt. (dev)", None)],
        },
    ),
    ("captions", "sentence-transformers/flickr30k-captions"): (("captions",), {"train": images(*IMAGES)}),
    ("captions", f"nlphuji/flickr30k:TEST@{CONVERTED}"): (
        ("group", "captions"),
        {
            split: [(str(number), [f"{text} ({number})" for text in IMAGES[number % 2]]) for number in numbers]
            for split, numbers in (("train", (0, 3)), ("validation", (1,)), ("test", (2,)))
        },
    ),
    ("conversations", "sentence-transformers/gooaq", "--columns", "input=question", "response=answer"): (
        ("input", "response", "source"),
        {
            "train": [
                ("how deep is a well?", "As deep as its water.", "sentence-transformers/gooaq"),
                ("how long does bread keep?", "Bread keeps for a few days.", "sentence-transformers/gooaq"),
                ("who paints bridges?", "Painters who like heights do it.", "sentence-transformers/gooaq"),
            ]
        },
    ),
    ("reddit", "open-index/arctic:comments", *NO_FILTERS): (
        ("input", "response", "thread", "source"),
        {
            "train": [
                (JANUARY[1], JANUARY[2], "t3_s1", "reddit/tea"),
                (JANUARY[0], JANUARY[1], "t3_s1", "reddit/tea"),
                (FEBRUARY[0], FEBRUARY[1], "t3_s2", "reddit/tea"),
            ]
        },
    ),
    ("paraphrases", "me/csv"): (STS_COLUMNS, {"train": [("Hello", "Hi", None), ("Bye", "Ciao", 0.5)]}),
    ("books", "sentence-transformers/simple-wiki:pair/train-*.parquet@main"): (
        ("book", "sentence"),
        {"train": [("train", SIMPLE[0])]},
    ),
}

ERRORS = {
    ("nli", "sentence-transformers/all-nli"): "it has several configurations; expected sentence-transformers/all-nli:C",
    ("nli", "sentence-transformers/all-nly:pair"): "no such file or folder here, and: Dataset 'sentence-transfo"
    "rmers/all-nly' doesn't exist on the Hub or cannot be accessed.",
    ("stsb", "sentence-transformers/gooaq"): "no column sentence1, sentence2, score; expected sentence1 (or",
    ("sts", "mteb/stsbenchmark-sts"): "unknown STS dataset; expected columns year and set, or a name such as",
    ("captions", "nlphuji/flickr30k"): "it needs a loading script; try the Hub's own Parquet copy: "
    "nlphuji/flickr30k@refs/convert/parquet",
    ("reddit", "fddemarco/pushshift-reddit-comments"): "no column parent_id; expected id, parent_id, link_id, author, "
    "body, subreddit, created_utc; found author, body, controversiality, created_utc, link_id, score, subreddit, "
    "subreddit_id, id; without parent_id, replies cannot be linked to comments",
    ("reddit", "open-index/arctic:submissions"): "submissions, not comments; add --submissions to read them",
    ("conversations", "stanfordnlp/snli"): "the columns are premise, hypothesis, label; expected input and response",
    ("nli", "me/gated"): "is a gated dataset on the Hub. You must be authenticated to access it.",
    ("nli", "me/private"): "no such file or folder here, and: Dataset 'me/private' doesn't exist on the Hub",
}
PRIVATE = ("nli", "me/private", "HF_TOKEN")
RUN = {
    "snli": "stanfordnlp/snli",
    "nli": ["nyu-mll/multi_nli", "sentence-transformers/all-nli:pair-class@main"],
    "captions": ["sentence-transformers/coco-captions", f"nlphuji/flickr30k@{CONVERTED}"],
    "paraphrases": ["sentence-transformers/quora-duplicates:pair-class", "sentence-transformers/all-nli:triplet"],
    "texts": ["sentence-transformers/simple-wiki"],
    "stsb": "mteb/stsbenchmark-sts",
    "sts": "mteb/sts12-sts",
}

NAMES = [name for name, dataset in public_datasets().items() if dataset.hub]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Any, Any]]:
    """Command -> exit code, stdout, stderr and folder; "sent" -> the bytes that the server sent."""
    work = tmp_path_factory.mktemp("hub")
    commands: dict[Any, tuple[list[str], dict[str, str]]] = {}
    for number, case in enumerate([*CASES, *ERRORS, PRIVATE]):
        environment = {"HF_TOKEN": READ_TOKEN} if case[-1] == "HF_TOKEN" else {}
        arguments = [argument for argument in case if argument != "HF_TOKEN"]
        commands[case] = ([*arguments, "-o", str(work / str(number))], environment)
    commands["run"] = (["run", json.dumps(RUN)], {})
    commands["download"] = (["download", *NAMES, "-o", str(work / "downloaded")], {})
    with LoopbackHub() as hub:
        add_public_datasets(hub)
        snli = hub.repositories["datasets", "stanfordnlp/snli"].files()
        hub.add_dataset("me/csv", {"train.csv": b"anchor,positive,score\nHello,Hi,\nBye,Ciao,0.5\n"})  # without a card
        hub.add_dataset("me/private", snli, visibility="private")
        hub.add_dataset("me/gated", snli, gated=True)
        (work / "commands.json").write_text(json.dumps(list(commands.values())))
        subprocess.run(
            [sys.executable, "-c", RUNNER, str(work / "commands.json"), str(work / "results.json")],
            # datasets imports torch to stream if it may use it
            env={**os.environ, **hub.environment(work / "home"), "USE_TORCH": "0"},
            check=True,
            cwd=work,
        )
        results = zip(commands, json.loads((work / "results.json").read_text()), strict=True)
        yield {name: (*result, Path(commands[name][0][-1])) for name, result in results} | {"sent": hub.sent_bytes}


def read_rows(folder: Path, columns: tuple[str, ...]) -> dict[str, Rows]:
    tables = {file.name.partition("-")[0]: pq.read_table(file) for file in folder.glob("*.parquet")}
    return {
        split: [tuple(row[name] for name in columns) for row in table.to_pylist()] for split, table in tables.items()
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[:2]))
def test_a_command_reads_a_dataset_with_the_layout_of_the_original(done, case):
    code, _, errors, folder = done[case]
    assert code == 0, errors
    columns, expected = CASES[case]
    assert read_rows(folder, columns) == expected


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: " ".join(case))
def test_an_error_names_its_cause(done, case):
    code, _, errors, _ = done[case]
    *_, message = errors.splitlines()
    assert message.startswith(f"error: {case[1]}") and ERRORS[case] in message
    assert code == 2


def test_a_token_in_the_environment_gives_access_to_a_private_dataset(done):
    code, _, errors, folder = done[PRIVATE]
    assert code == 0, errors
    assert read_rows(folder, NLI_COLUMNS) == nli("train", "validation", "test")


def test_images_are_not_downloaded(done):
    # Three commands read the dataset.
    assert done["sent"] < 3 * IMAGE_BYTES


def test_a_run_reads_its_datasets_by_name(done):
    _, printed, errors, _ = done["run"]
    training, evaluation = json.loads(printed)
    assert training == {
        "snli": [3, "premise", "hypothesis"],
        "nli/multi_nli": [3, "premise", "hypothesis"],
        "nli/all-nli:pair-class": [3, "premise", "hypothesis"],
        "captions/coco-captions": [6, "caption"],
        "captions/flickr30k": [6, "caption"],
        "paraphrases/quora-duplicates:pair-class": [2, "sentence1", "sentence2"],
        "paraphrases/all-nli:triplet": [2, "sentence1", "sentence2"],
        "texts/simple-wiki": [1, "text", "simplified"],
    }, errors
    assert evaluation["snli"] == ["test", "validation"] and evaluation["stsb"] == ["test", "train", "validation"]
    assert evaluation["sts"] == ["2012"]


def test_every_dataset_of_the_catalog_that_is_on_the_hub_can_be_built(done):
    code, printed, errors, folder = done["download"]
    assert code == 0, errors
    assert f"0 of {len(NAMES)} datasets already exist" in printed
    splits = {name: [file.name.partition("-")[0] for file in (folder / name).glob("*.parquet")] for name in NAMES}
    assert all("train" in found for found in splits.values()), splits
    assert sorted(splits["nli/multi_nli"]) == ["train", "validation_matched", "validation_mismatched"]
    assert read_rows(folder / "books", ("sentence",)) == {"train": [("It rained all day.",), ("We stayed in.",)]}
    assert "license: cc-by-sa-4.0" in (folder / "snli" / "README.md").read_text()
    assert [file.suffix for file in (folder / "downloads" / "reddit").glob("*.parquet")] == [".parquet"] * 2
