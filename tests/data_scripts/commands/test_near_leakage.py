import json
import random
from types import SimpleNamespace

import pyarrow as pa
import pytest
from datasets import Dataset, load_dataset

from data_scripts.__main__ import main
from data_scripts.clean.leakage import EvaluationTexts, LeakedRows, remove_leaked
from data_scripts.clean.near_duplicates import NearDuplicates
from data_scripts.clean.text import normalize_text
from trainer.data.datasets import load_run_data

EVALUATED = "The parcel arrived on Tuesday morning."
NEAR = "the parcel arrived on Tuesday morning, yes"


def write(folder, **splits):
    folder.mkdir()
    for name, columns in splits.items():
        Dataset.from_dict(columns).to_parquet(folder / f"{name}-00000-of-00001.parquet")
    return str(folder)


@pytest.fixture
def against(tmp_path):
    return "mine=" + write(tmp_path / "questions", test={"question": [EVALUATED, "Where are the keys to the shed?"]})


@pytest.fixture
def pairs(tmp_path):
    """Pairs, of which the second and third train row nearly equal an evaluation sentence, the fourth equals it."""
    return write(
        tmp_path / "pairs",
        train={
            "input": ["Hm.", "Well?", NEAR, EVALUATED.upper(), "I have never been to that part of town!"],
            "response": ["No.", NEAR, "Oh?", NEAR, "Yes."],
        },
        validation={"input": ["Hm."], "response": ["I have never been to that part of town."]},
        test={"input": ["I have never been to this part of town"], "response": [NEAR]},
    )


def read_report(folder):
    return json.loads((folder / "leakage.json").read_text())


def test_near_duplicates_are_counted_beside_equal_texts_and_removed(tmp_path, pairs, against, capsys):
    output = tmp_path / "out"
    assert main(["leakage", pairs, "--near_duplicates", "--against", against, "-o", str(output)]) == 0
    left = load_dataset("parquet", data_dir=str(output))
    assert left["train"]["input"][:] == ["Hm.", "I have never been to that part of town!"]
    assert left["test"].num_rows == left["validation"].num_rows == 1
    report = read_report(output)
    assert report["rows"] == {"read": 5, "removed": 3, "kept": 2}
    mine = report["sets"]["mine test"]
    assert (mine["sentences"], mine["found"], mine["rows"]) == (2, 1, 1)
    assert mine["examples"] == [{"row": 4, "text": EVALUATED.upper()}]
    form = "the parcel arrived on tuesday morning"
    assert mine["near_duplicates"] == {
        "found": 0,  # its sentence was found as it is
        "rows": 2,
        "examples": [{"row": row, "text": NEAR, "sentence": form} for row in (3, 2, 4)],
    }
    printed = capsys.readouterr().out
    assert f"row 2: {NEAR}  (near {form!r})" in printed
    assert "5 rows, 3 with an evaluation sentence, 2 without" in printed


def test_texts_of_its_own_splits_are_counted_but_stay(tmp_path, pairs, against):
    output = tmp_path / "out"
    unrelated = "mine=" + write(tmp_path / "other", test={"question": ["Nothing of this was ever said here."]})
    assert main(["leakage", pairs, "--near_duplicates", "--against", unrelated, "-o", str(output)]) == 0
    report = read_report(output)
    assert report["rows"] == {"read": 5, "removed": 0, "kept": 5}
    counts = {
        name: (found["sentences"], found["found"], found["rows"], found["near_duplicates"]["found"],
               found["near_duplicates"]["rows"]) for name, found in report["sets"].items()
    }  # fmt: skip
    assert counts == {"mine test": (1, 0, 0, 0, 0), "own test": (2, 1, 3, 1, 1), "own validation": (1, 1, 1, 0, 0)}


def test_without_the_option_near_duplicates_stay(tmp_path, pairs, against):
    assert main(["leakage", pairs, "--against", against, "-o", str(tmp_path / "out")]) == 0
    report = read_report(tmp_path / "out")
    assert report["rows"]["removed"] == 1 and set(report["sets"]) == {"mine test"}
    assert "near_duplicates" not in report["sets"]["mine test"]


@pytest.mark.parametrize("options", [[], ["-o", "{folder}/out"], ["-o", "{folder}/out", "--near_duplicates"]])
def test_what_is_removed_must_be_named(tmp_path, pairs, capsys, options):
    assert main(["leakage", pairs, *(option.format(folder=tmp_path) for option in options)]) == 2
    assert "--against is missing: name an evaluation dataset" in capsys.readouterr().err


def test_captions_are_counted_and_removed_as_in_a_training_run(tmp_path):
    draw = random.Random(0)
    train = {"group": [], "captions": []}
    for image in range(400):
        train["group"].append(str(image % 350))  # the last 50 images have rows in two places
        train["captions"].append([f"Caption {draw.randrange(3_000)}." for _ in range(draw.randrange(6))])
    train["captions"][7] = None
    captions = write(tmp_path / "images", train=train)
    pair = {
        "sentence1": [f"caption, {number}" for number in range(0, 3_000, 40)],
        "score": [5.0] * 75,
        "genre": ["main-news"] * 75,
    }
    stsb = write(tmp_path / "stsb", **dict.fromkeys(("train", "validation", "test"), pair | {"sentence2": ["-"] * 75}))
    arguments = ["leakage", captions, "--against", f"stsb={stsb}", "-o", str(tmp_path / "out")]
    assert main(arguments) == 0
    data = load_run_data(SimpleNamespace(captions=[captions], stsb=stsb))
    report, [counts] = read_report(tmp_path / "out"), data.leakage.values()
    assert {name: leaked["rows"] for name, leaked in report["sets"].items()} | {
        "removed": report["rows"]["removed"]
    } == counts
    left = load_dataset("parquet", data_files=f"{tmp_path}/out/train-*.parquet")["train"]
    [trained] = data.training.values()
    assert [(row["group"], text) for row in left for text in row["captions"] or ()] == list(
        zip(trained["group"][:], trained["caption"][:], strict=True)
    )
    leaked = {group for group, texts in zip(train["group"], train["captions"], strict=True)
              if any(int(text[8:-1]) % 40 == 0 for text in texts or ())}  # fmt: skip
    assert left["group"][:] == [group for group in train["group"] if group not in leaked]
    assert 10 < len(leaked) < 100 and report["rows"]["kept"] == len(trained)


def test_rows_of_a_group_that_follows_in_another_table_are_removed():
    rows = {"group": [str(row % 3_000) for row in range(6_000)], "caption": [f"text {row}" for row in range(6_000)]}
    kept, counts = remove_leaked(Dataset.from_dict(rows), ["caption"], {"dev": ["text 5999"]}, "group")
    assert counts == {"dev": 1, "removed": 2} and len(kept) == 5_998 and "2999" not in set(kept["group"])


def test_a_text_of_a_list_leaks_with_its_row_and_all_its_near_duplicates():
    sentences = [EVALUATED, EVALUATED.replace(".", " at noon")]
    texts = EvaluationTexts({"mine": sentences})
    leaked = LeakedRows(texts, ["captions"], near=NearDuplicates(texts.names_of))
    captions = [["A dog.", "A hound."], None, ["A cat.", NEAR], [None]]
    [leak] = leaked.add(pa.table({"captions": pa.array(captions, pa.list_(pa.string()))}))
    assert (leak.row, leak.text, leak.near) == (2, NEAR, True)
    assert leak.sentences == {"mine": set(map(normalize_text, sentences))}
    assert leaked.remaining().to_pylist() == [True, True, False, True]
